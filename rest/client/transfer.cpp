#include "rest/client/transfer.h"

#include <curl/curl.h>

#include <cctype>
#include <memory>

namespace mare::rest {
namespace {

struct EasyFree {
  void operator()(CURL* easy) const noexcept { curl_easy_cleanup(easy); }
};
struct MultiFree {
  void operator()(CURLM* multi) const noexcept { curl_multi_cleanup(multi); }
};
struct ListFree {
  void operator()(curl_slist* list) const noexcept { curl_slist_free_all(list); }
};
using Easy = std::unique_ptr<CURL, EasyFree>;
using Multi = std::unique_ptr<CURLM, MultiFree>;
using List = std::unique_ptr<curl_slist, ListFree>;

struct Receiver {
  const Exchange& exchange;
  const Clock& clock;
  CURL* easy = nullptr;
  Answer answer;
  MonotonicTime last_byte{0};
  bool too_large = false;
};

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* context) {
  auto& receiver = *static_cast<Receiver*>(context);
  const std::size_t length = size * count;
  receiver.last_byte = receiver.clock.now();
  long status = 0;
  curl_easy_getinfo(receiver.easy, CURLINFO_RESPONSE_CODE, &status);
  if (receiver.exchange.on_data && status >= 200 && status < 300) {
    if (receiver.exchange.on_data({data, length})) return length;
    receiver.answer.stopped = true;
    return 0;  // libcurl ends the exchange
  }
  if (receiver.answer.body.size() + length > receiver.exchange.most_body) {
    receiver.too_large = true;
    return 0;
  }
  receiver.answer.body.append(data, length);
  return length;
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* context) {
  auto& receiver = *static_cast<Receiver*>(context);
  std::string_view line(data, size * count);
  receiver.last_byte = receiver.clock.now();
  constexpr std::string_view kName = "location:";
  if (line.size() <= kName.size()) return size * count;
  for (std::size_t i = 0; i < kName.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(line[i])) != kName[i]) return size * count;
  }
  line.remove_prefix(kName.size());
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.front())) != 0) {
    line.remove_prefix(1);
  }
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) {
    line.remove_suffix(1);
  }
  receiver.answer.location = line;
  return size * count;
}

std::string host_of(const std::string& url) {
  const std::size_t begin = url.find("://") + 3;
  const std::size_t end = url.find('/', begin);
  std::string host = url.substr(begin, end == std::string::npos ? end : end - begin);
  if (!host.empty() && host.front() == '[') return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.rfind(':'));
}

bool is_loopback(const std::string& url) {
  const std::string host = host_of(url);
  return host == "localhost" || host == "[::1]" || host.rfind("127.", 0) == 0;
}

List prepare(const Exchange& exchange, Receiver& receiver, char* error_text) {
  CURL* easy = receiver.easy;
  List headers;
  for (const std::string& header : exchange.headers) {
    headers.reset(curl_slist_append(headers.release(), header.c_str()));
  }
  headers.reset(curl_slist_append(headers.release(), "Expect:"));  // one round trip, not two
  curl_easy_setopt(easy, CURLOPT_URL, exchange.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, exchange.method.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "mare/" MARE_VERSION);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error_text);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(exchange.connect_timeout.count()));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(exchange.timeout.count()));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &receiver);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &receiver);
  // A follower of a quiet job must notice that mared's machine has gone.
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 20L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 10L);
  // A site's web proxy knows nothing of this machine's loopback.
  if (is_loopback(exchange.url)) curl_easy_setopt(easy, CURLOPT_PROXY, "");
  if (exchange.body) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(exchange.body->size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, exchange.body->data());
  }
  return headers;
}

/// Drives the exchange to its end. Nothing: libcurl's verdict is in `result`.
std::optional<Error> drive(CURLM* multi, const Exchange& exchange, const Receiver& receiver,
                           CURLcode& result) {
  constexpr int kStepMs = 1000;  // only bounds how late a silence is noticed
  for (int running = 1; running > 0;) {
    if (curl_multi_perform(multi, &running) != CURLM_OK) {
      return make_error(Code::Internal, "libcurl failed to go on with " + exchange.url);
    }
    if (running == 0) break;
    curl_waitfd stop{exchange.interrupt_fd, CURL_WAIT_POLLIN, 0};
    const bool stoppable = exchange.interrupt_fd >= 0;
    curl_multi_poll(multi, stoppable ? &stop : nullptr, stoppable ? 1 : 0, kStepMs, nullptr);
    if (stoppable && (stop.revents & CURL_WAIT_POLLIN) != 0) {
      return make_error(Code::Cancelled, "interrupted");
    }
    const auto silence = receiver.clock.now() - receiver.last_byte;
    if (exchange.silence_timeout.count() > 0 && silence > exchange.silence_timeout) {
      return make_error(Code::Unavailable,
                        exchange.url + " sent nothing for " +
                            std::to_string(exchange.silence_timeout.count() / 1000) + " s");
    }
  }
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
    if (message->msg == CURLMSG_DONE) result = message->data.result;
  }
  return std::nullopt;
}

Error transfer_error(const Exchange& exchange, CURLcode result, const char* text) {
  const std::string why = text[0] != '\0' ? text : curl_easy_strerror(result);
  const std::string what = "cannot reach " + exchange.server + " at " +
                           exchange.url.substr(0, exchange.url.find("/api/"));
  const bool ours = exchange.server == "mared";
  switch (result) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
      return make_error(Code::Unavailable, what + ": " + why,
                        ours ? "is it running ('mare lab up' starts a lab, 'mare lab status' "
                               "tells)? Another address: --url or MARE_URL"
                             : "");
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return field_error("url", "'" + exchange.url + "' is not a URL that can be used",
                         "write it like http://127.0.0.1:7410");
    default:
      break;
  }
  if (!ours) return make_error(Code::Unavailable, what + ": " + why);
  if (exchange.method == "GET") {
    return make_error(Code::Unavailable, exchange.method + " " + exchange.url + ": " + why,
                      "mared may be restarting or busy: try again, and look at its log");
  }
  return make_error(Code::OutcomeUnknown, exchange.method + " " + exchange.url + ": " + why,
                    "it may have been done all the same: look with 'mare operation list'");
}

}  // namespace

Result<Answer> transfer(const Exchange& exchange, const Clock& clock) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  Multi multi{curl_multi_init()};
  Easy easy{curl_easy_init()};
  if (initialised != CURLE_OK || !multi || !easy) {
    return make_error(Code::Internal, "libcurl could not be initialised");
  }
  char error_text[CURL_ERROR_SIZE] = "";
  Receiver receiver{exchange, clock, easy.get(), {}, clock.now(), false};
  const List headers = prepare(exchange, receiver, error_text);
  curl_multi_add_handle(multi.get(), easy.get());
  CURLcode result = CURLE_OK;
  std::optional<Error> failed = drive(multi.get(), exchange, receiver, result);
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &receiver.answer.status);
  curl_multi_remove_handle(multi.get(), easy.get());
  if (failed) return *failed;
  if (receiver.too_large) {
    return make_error(Code::Internal,
                      exchange.url.substr(0, exchange.url.find('?')) + " sent more than " +
                          std::to_string(exchange.most_body / 1024) + " KiB",
                      "ask for less, with --limit or a filter");
  }
  if (result != CURLE_OK && !receiver.answer.stopped) {
    return transfer_error(exchange, result, error_text);
  }
  return std::move(receiver.answer);
}

std::string percent_encode(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '.' || c == '_' || c == '~') {
      encoded += c;
    } else {
      encoded += {'%', kHex[byte >> 4U], kHex[byte & 15U]};
    }
  }
  return encoded;
}

Result<std::string> check_url(const std::string& url) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed{curl_url(), curl_url_cleanup};
  const bool scheme = url.rfind("http://", 0) == 0 || url.rfind("https://", 0) == 0;
  if (!scheme || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) {
    return field_error("url", "'" + url + "' is not a URL that can be used",
                       "write it like http://127.0.0.1:7410 (--url or MARE_URL)");
  }
  std::string trimmed = url;
  while (!trimmed.empty() && trimmed.back() == '/') trimmed.pop_back();
  return trimmed;
}

}  // namespace mare::rest
