// The HTTP server, by cpprestsdk. The only translation unit that sees it: it is archived upstream,
// has no limits and no timeouts, and throws. All three are dealt with here as far as a user of the
// library can; what it can't do (headers without end, half-open connections) is left to the proxy
// that stands in front of anything but loopback (docs/api.md).
#include <cpprest/http_listener.h>
#include <cpprest/producerconsumerstream.h>
#include <pplx/threadpool.h>

#include <atomic>
#include <charconv>
#include <condition_variable>
#include <mutex>

#include "rest/server/http.h"
#include "rest/server/listen_check.h"
#include "rest/wire/problem.h"

namespace mare::rest {
namespace {

namespace http = web::http;
using Listener = http::experimental::listener::http_listener;
using ByteBuffer = concurrency::streams::producer_consumer_buffer<std::uint8_t>;

constexpr auto kStopPatience = std::chrono::seconds{2};
constexpr int kPortAttempts = 20;

/// Replies under way, so that stop() can wait for them.
struct Counter {
  std::mutex mutex;
  std::condition_variable changed;
  int replies = 0;

  void add(int difference) {
    const std::lock_guard lock(mutex);
    replies += difference;
    changed.notify_all();
  }
  void wait_idle() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kStopPatience, [this] { return replies == 0; });
  }
};

/// Counts the visits to our code, so that nobody is inside when the server is gone.
class Gate {
 public:
  bool enter() {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    ++inside_;
    return true;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    --inside_;
    left_.notify_all();
  }
  /// Lets nobody in and waits for those inside; handlers are short.
  void close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    left_.wait(lock, [this] { return inside_ == 0; });
  }
  bool closed() {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable left_;
  int inside_ = 0;
  bool closed_ = false;
};

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

http::http_response head_of(const Response& from) {
  http::http_response out(static_cast<http::status_code>(from.status));
  out.set_reason_phrase(std::string(wire::title_of(from.status)));
  for (const auto& [name, value] : from.headers) out.headers().add(name, value);
  return out;
}

/// Sends a reply; every chain ends here, since an exception that nobody looks at ends the process.
void send(const http::http_request& message, const http::http_response& response,
          std::shared_ptr<Counter> counter, std::function<void()> ended) {
  counter->add(1);
  auto finish = [counter, ended = std::move(ended)] {
    if (ended) ended();
    counter->add(-1);
  };
  try {
    message.reply(response).then([finish](pplx::task<void> done) {
      try {
        done.get();
      } catch (const std::exception&) {
        // The client has gone; nobody is left to tell.
      }
      finish();
    });
  } catch (const std::exception&) {
    finish();  // Replied to already, by the library itself when it closes.
  }
}

class CpprestStream final : public ByteStream {
 public:
  std::size_t pending() const override { return buffer_.in_avail(); }

  bool write(std::string_view bytes) override {
    const std::lock_guard lock(mutex_);
    if (closed_ || !alive_->load()) return false;
    if (bytes.empty()) return true;
    try {
      buffer_.putn_nocopy(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()).get();
      buffer_.sync().get();
    } catch (const std::exception&) {
      alive_->store(false);
    }
    return alive_->load();
  }

  void close() override {
    end([this] { buffer_.close(std::ios_base::out).get(); });
  }
  void abort() override {
    end([this] {
      const http::http_exception reason("the stream was broken off");
      buffer_.close(std::ios_base::out, std::make_exception_ptr(reason)).get();
    });
  }

  bool alive() const override { return alive_->load(); }

  concurrency::streams::istream source() { return buffer_.create_istream(); }
  std::function<void()> on_end() {
    return [alive = alive_] { alive->store(false); };
  }

 private:
  void end(const std::function<void()>& how) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    try {
      how();
    } catch (const std::exception&) {
      alive_->store(false);
    }
  }

  mutable ByteBuffer buffer_;
  std::mutex mutex_;
  bool closed_ = false;
  std::shared_ptr<std::atomic<bool>> alive_ = std::make_shared<std::atomic<bool>>(true);
};

class CpprestExchange final : public Exchange {
 public:
  CpprestExchange(const http::http_request& message, Request request,
                  std::shared_ptr<Counter> counter)
      : message_(message), request_(std::move(request)), counter_(std::move(counter)) {}

  ~CpprestExchange() override {
    // A handler lost it. A client that waits for ever would be worse than a bug that shows.
    if (!answered_.load()) reply(Response{500, "", "", {}});
  }

  const Request& request() const override { return request_; }
  Request& editable() { return request_; }

  void reply(Response response) override {
    if (answered_.exchange(true)) return;
    auto out = head_of(response);
    if (!response.body.empty() && request_.method != "HEAD") {
      const auto size = response.body.size();
      out.set_body(concurrency::streams::bytestream::open_istream(std::move(response.body)), size,
                   response.content_type);
    }
    send(message_, out, counter_, {});
  }

  std::shared_ptr<ByteStream> stream(Response head) override {
    auto out = std::make_shared<CpprestStream>();
    if (answered_.exchange(true)) {
      out->on_end()();
      return out;
    }
    auto response = head_of(head);
    response.headers().set_content_type(head.content_type);
    response.set_body(out->source());
    response.headers().set_content_type(head.content_type);  // set_body() has changed it.
    send(message_, response, counter_, out->on_end());
    return out;
  }

  /// Answers without taking the body. The library replies only when it has read the whole body; a
  /// buffer that takes no more makes it give up at the next bytes, on the thread that reads.
  /// (Telling it at once that the body is complete lets it close a socket that another thread reads
  /// from: it crashes.) So a client that goes silent gets no answer, as with every half-open
  /// connection here.
  void reply_without_body(Response response) {
    reply(std::move(response));
    try {
      const auto unwanted =
          std::make_exception_ptr(http::http_exception("the request's body is not wanted"));
      message_._get_impl()->outstream().streambuf().close(std::ios_base::out, unwanted).get();
    } catch (const std::exception&) {
      // The connection has ended meanwhile.
    }
  }

 private:
  http::http_request message_;
  Request request_;
  std::shared_ptr<Counter> counter_;
  std::atomic<bool> answered_{false};
};

struct Unwanted {
  int status = 0;  // 0: nothing is wrong
  Error error;
  bool hopeless = false;  // don't wait for the body
};

Unwanted unwanted(int status, std::string what, std::string remedy, bool hopeless = false) {
  return {status, make_error(Code::InvalidArgument, std::move(what), std::move(remedy)), hopeless};
}

/// Nothing for text that is no length: a sign, blanks, too many digits.
std::optional<std::uint64_t> length_of(const std::string& text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return value;
}

bool takes_body(const std::string& method) {
  return method == "POST" || method == "PUT" || method == "PATCH";
}

/// What the library lets pass and we don't.
Unwanted check_head(const http::http_request& message, const Request& request,
                    const HttpLimits& limits) {
  if (!request.header("transfer-encoding").empty()) {
    return unwanted(411, "the request has a Transfer-Encoding",
                    "send the body in one piece with its Content-Length", true);
  }
  const std::string length = request.header("content-length");
  const auto size = length_of(length);
  if (!length.empty() && !size) {
    return unwanted(400, "Content-Length '" + length + "' is no length",
                    "give the body's number of bytes", true);
  }
  const auto limit = std::to_string(limits.body_bytes);
  if (size.value_or(0) > limits.body_bytes) {
    return unwanted(413, "the body has " + length + " bytes, the limit is " + limit,
                    "send less; put long input of jobs into files under /jobs",
                    *size > limits.hopeless_body_bytes);
  }
  if (takes_body(request.method) && length.empty()) {
    return unwanted(411, "the request has no Content-Length", "give it, 0 for an empty body");
  }
  if (request.path.size() + request.query.size() > limits.target_bytes) {
    return unwanted(414, "the URL is longer than " + std::to_string(limits.target_bytes) + " bytes",
                    "send a shorter one");
  }
  std::size_t header_bytes = 0;
  for (const auto& [name, value] : request.headers) header_bytes += name.size() + value.size() + 4;
  if (header_bytes > limits.header_bytes) {
    return unwanted(431,
                    "the headers have " + std::to_string(header_bytes) + " bytes, the limit is " +
                        std::to_string(limits.header_bytes),
                    "send fewer or shorter headers");
  }
  const auto version = message.http_version();
  if (version.major != 1 || version.minor > 1) {
    return unwanted(505, "the request's version is not HTTP/1.1", "speak HTTP/1.1");
  }
  if (request.header("host").empty() && version.minor == 1) {
    return unwanted(400, "the request has no Host header", "give it (RFC 9112, 3.2)");
  }
  return {};
}

Request head_from(const http::http_request& message) {
  Request out;
  out.method = message.method();
  const auto& uri = message.request_uri();
  out.path = uri.path();
  out.query = uri.query();
  for (const auto& [name, value] : message.headers()) out.headers[lower(name)] = value;
  return out;
}

/// Everything that requests under way need; they may outlast the server by a moment.
struct Shared {
  Shared(const HttpLimits& l, Handler h, Refusal r, Log& to)
      : limits(l), handler(std::move(h)), refusal(std::move(r)), log(to) {}

  HttpLimits limits;
  Handler handler;
  Refusal refusal;
  Log& log;
  std::shared_ptr<Counter> counter = std::make_shared<Counter>();
  Gate gate;

  /// Runs `visit` unless the server is ending; then answers so.
  void enter(const std::shared_ptr<CpprestExchange>& exchange, const std::function<void()>& visit) {
    if (!gate.enter()) {
      Response ending{503, "", "", {{"Retry-After", "1"}, {"Connection", "close"}}};
      exchange->reply(std::move(ending));
      return;
    }
    try {
      visit();
    } catch (const std::exception& caught) {
      // Our code doesn't throw; out of memory or a library's surprise ends here.
      const Request& request = exchange->request();
      log.error("rest", request.method + " " + request.path + ": " + caught.what());
      const auto error = make_error(Code::Internal, "the request could not be handled",
                                    "see mared's log; if it happens again, report it");
      exchange->reply(refusal(500, request.path, error));
    }
    gate.leave();
  }
};

void receive_body(const std::shared_ptr<Shared>& shared, const http::http_request& message,
                  const std::shared_ptr<CpprestExchange>& exchange) {
  message.extract_vector().then([shared, exchange](pplx::task<std::vector<unsigned char>> t) {
    try {
      const auto bytes = t.get();
      exchange->editable().body.assign(bytes.begin(), bytes.end());
    } catch (const std::exception&) {
      return;  // The connection broke; the reply of the exchange's end goes nowhere.
    }
    shared->enter(exchange, [&] { shared->handler(exchange); });
  });
}

void receive(const std::shared_ptr<Shared>& shared, const http::http_request& message) {
  auto exchange = std::make_shared<CpprestExchange>(message, head_from(message), shared->counter);
  const Request& request = exchange->request();
  const auto wrong = check_head(message, request, shared->limits);
  if (wrong.status != 0) {
    shared->enter(exchange, [&] {
      auto refused = shared->refusal(wrong.status, request.path, wrong.error);
      refused.headers.emplace_back("Connection", "close");
      if (wrong.hopeless) {
        exchange->reply_without_body(std::move(refused));
      } else {
        exchange->reply(std::move(refused));
      }
    });
  } else if (length_of(request.header("content-length")).value_or(0) == 0) {
    shared->enter(exchange, [&] { shared->handler(exchange); });
  } else {
    receive_body(shared, message, exchange);
  }
}

class CpprestServer final : public HttpServer {
 public:
  CpprestServer(std::shared_ptr<Shared> shared, std::unique_ptr<Listener> listener,
                std::uint16_t port)
      : shared_(std::move(shared)), listener_(std::move(listener)), port_(port) {}
  ~CpprestServer() override { stop(); }

  std::uint16_t port() const override { return port_; }

  void stop() override {
    if (shared_->gate.closed()) return;
    shared_->gate.close();
    shared_->counter->wait_idle();
    try {
      listener_->close().get();
    } catch (const std::exception& caught) {
      shared_->log.warn("rest", std::string("closing the listener: ") + caught.what());
    }
  }

 private:
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<Listener> listener_;  // Outlives close(), as the library's threads need it.
  std::uint16_t port_;
};

void start_threads(int threads) {
  static std::once_flag once;
  std::call_once(once, [threads] {
    try {
      // The library's own default is 40.
      crossplat::threadpool::initialize_with_threads(static_cast<std::size_t>(threads));
    } catch (const std::exception&) {
      // Somebody used the library before; then it has the threads that it has.
    }
  });
}

Result<std::unique_ptr<Listener>> open_listener(const std::shared_ptr<Shared>& shared,
                                                const Endpoint& listen) {
  try {
    http::experimental::listener::http_listener_config config;
    config.set_backlog(128);
    auto listener = std::make_unique<Listener>(http::uri("http://" + listen.text() + "/"), config);
    const auto handle = [shared](const http::http_request& message) { receive(shared, message); };
    listener->support(handle);
    listener->support(http::methods::OPTIONS, handle);  // Else the library answers by itself.
    listener->support(http::methods::TRCE, handle);
    listener->open().get();
    return listener;
  } catch (const std::exception& caught) {
    return make_error(Code::FailedPrecondition,
                      "the REST address " + listen.text() + " can't be used: " + caught.what(),
                      "give another one with --listen");
  }
}

}  // namespace

Result<std::unique_ptr<HttpServer>> start_http_server(const Endpoint& listen,
                                                      const HttpLimits& limits, Handler handler,
                                                      Refusal refusal, Log& log) {
  start_threads(limits.threads);
  auto shared = std::make_shared<Shared>(limits, std::move(handler), std::move(refusal), log);
  // The library can't bind port 0 and tell what it got: find a free port, and try again should
  // somebody else be faster.
  for (int attempt = 1;; ++attempt) {
    const auto port = probe_port(listen);
    if (!port) return port.error();
    auto listener = open_listener(shared, Endpoint{listen.host, *port});
    if (listener) {
      return std::unique_ptr<HttpServer>(
          std::make_unique<CpprestServer>(shared, std::move(*listener), *port));
    }
    if (listen.port != 0 || attempt == kPortAttempts) return listener.error();
  }
}

}  // namespace mare::rest
