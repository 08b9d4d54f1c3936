#include "rest/server/rest_server.h"

#include <atomic>

#include "rest/server/api.h"
#include "rest/server/listen_check.h"

namespace mare::rest {
namespace {

/// Takes as long for a nearly right token as for a wrong one.
bool same_secret(const std::string& given, const std::string& wanted) {
  unsigned difference = given.size() == wanted.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto theirs = static_cast<unsigned char>(given[i]);
    const auto ours = static_cast<unsigned char>(wanted[i % wanted.size()]);
    difference |= static_cast<unsigned>(theirs ^ ours);
  }
  return difference == 0;
}

bool authorised(const Request& request, const std::string& token) {
  const std::string given = request.header("authorization");
  // The scheme's name is case-insensitive (RFC 9110, 11.1).
  if (given.size() < 7) return false;
  std::string scheme = given.substr(0, 7);
  for (char& c : scheme) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return scheme == "bearer " && same_secret(given.substr(7), token);
}

Response unauthorised(const Request& request) {
  const bool none = request.header("authorization").empty();
  return problem(401, request.path,
                 make_error(Code::Unauthenticated,
                            none ? "the request has no token" : "the token is not right",
                            "send 'Authorization: Bearer TOKEN' with what mared keeps in the file "
                            "'token' of its state directory"));
}

Response no_such_path(const Request& request) {
  return problem(404, request.path,
                 make_error(Code::NotFound, "there is nothing at '" + request.path + "'",
                            "see /api/v1/openapi.json for what there is"));
}

Response wrong_method(const Request& request, const std::vector<std::string>& allowed) {
  std::string list;
  for (const auto& method : allowed) list += (list.empty() ? "" : ", ") + method;
  Response out = problem(
      405, request.path,
      make_error(Code::InvalidArgument, request.method + " can't be done on '" + request.path + "'",
                 "use " + list));
  out.headers.emplace_back("Allow", list);
  return out;
}

/// Counts the answer that is given later as well.
class CountedExchange final : public Exchange {
 public:
  CountedExchange(std::shared_ptr<Exchange> inner, HttpMetrics& metrics, std::string route)
      : inner_(std::move(inner)), metrics_(metrics), route_(std::move(route)) {}
  const Request& request() const override { return inner_->request(); }
  void reply(Response response) override {
    metrics_.count(route_, response.status);
    inner_->reply(std::move(response));
  }
  std::shared_ptr<ByteStream> stream(Response head) override {
    metrics_.count(route_, head.status);
    return inner_->stream(std::move(head));
  }

 private:
  std::shared_ptr<Exchange> inner_;
  HttpMetrics& metrics_;
  std::string route_;
};

/// Wakes the followers as long as they are there: the engine may still call while a server ends.
struct Bell {
  std::mutex mutex;
  Followers* followers = nullptr;

  void ring() {
    const std::lock_guard lock(mutex);
    if (followers != nullptr) followers->wake();
  }
  void set(Followers* to) {
    const std::lock_guard lock(mutex);
    followers = to;
  }
};

}  // namespace

class RestServer::Impl {
 public:
  Impl(const RestOptions& options, engine::Engine& engine, store::Store& store,
       engine::ImageCatalog& images, Clock& clock)
      : options_(options),
        engine_(engine),
        followers_(store, clock, options_,
                   [](const Operation& o) { return json_response(200, wire::to_json(o)); }),
        api_{engine, store, images, followers_, metrics_} {
    add_all_routes(router_, api_);
  }

  ~Impl() { stop(); }

  Status listen(Log& log) {
    auto started = start_http_server(
        options_.listen, options_.limits,
        [this](const std::shared_ptr<Exchange>& exchange) { handle(exchange); },
        [this](int status, const std::string& path, const Error& error) {
          metrics_.count("", status);
          return problem(status, path, error);
        },
        log);
    if (!started) return started.error();
    http_ = std::move(*started);
    bell_->set(&followers_);
    engine_.on_change([bell = bell_] { bell->ring(); });
    return ok_status();
  }

  std::string url() const {
    return "http://" + Endpoint{options_.listen.host, http_->port()}.text();
  }

  void stop() {
    if (stopped_.exchange(true) || http_ == nullptr) return;
    engine_.on_change({});
    bell_->set(nullptr);
    followers_.stop();  // Streams end properly, so their replies are done when the server waits.
    http_->stop();
  }

 private:
  void handle(const std::shared_ptr<Exchange>& exchange) {
    const Request& request = exchange->request();
    const Match match = router_.match(request.method, request.path);
    const bool open = match.route != nullptr && match.route->open;
    const std::string name = match.route == nullptr ? "" : match.route->operation_id;
    auto counted = std::make_shared<CountedExchange>(exchange, metrics_, name);
    if (!open && !authorised(request, options_.token)) {
      counted->reply(unauthorised(request));
    } else if (match.route == nullptr) {
      counted->reply(match.allowed.empty() ? no_such_path(request)
                                           : wrong_method(request, match.allowed));
    } else {
      run(*match.route, match, counted);
    }
  }

  void run(const Route& route, const Match& match,
           const std::shared_ptr<CountedExchange>& exchange) {
    const Request& request = exchange->request();
    auto query = parse_query(request.query);
    if (!query) {
      exchange->reply(
          problem(400, request.path,
                  make_error(Code::InvalidArgument,
                             "the URL's query is not properly percent-encoded", "write % as %25")));
      return;
    }
    Call call{request, match.captures, std::move(*query)};
    Answer answer = route.handle(call, exchange);
    if (auto* response = std::get_if<Response>(&answer)) exchange->reply(std::move(*response));
  }

  const RestOptions options_;
  engine::Engine& engine_;
  HttpMetrics metrics_;
  Followers followers_;
  Api api_;
  Router router_;
  std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  std::atomic<bool> stopped_{false};
  std::unique_ptr<HttpServer> http_;
};

RestServer::RestServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RestServer::~RestServer() = default;

Result<std::unique_ptr<RestServer>> RestServer::start(const RestOptions& options,
                                                      engine::Engine& engine, store::Store& store,
                                                      engine::ImageCatalog& images, Clock& clock,
                                                      Log& log) {
  if (options.token.empty()) {
    return make_error(Code::InvalidArgument, "the REST API has no token",
                      "give one: without it everybody could use the API");
  }
  auto listen = checked_listen(options.listen, options.allow_remote);
  if (!listen) return listen.error();
  RestOptions checked = options;
  checked.listen = *listen;
  auto impl = std::make_unique<Impl>(checked, engine, store, images, clock);
  if (auto started = impl->listen(log); !started) return started.error();
  return std::unique_ptr<RestServer>(new RestServer(std::move(impl)));
}

std::string RestServer::url() const {
  return impl_->url();
}

void RestServer::stop() {
  impl_->stop();
}

}  // namespace mare::rest
