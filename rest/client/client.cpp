#include "rest/client/client.h"

#include <vector>

#include "rest/client/problem.h"
#include "rest/client/transfer.h"

namespace mare::rest {

Result<Client> Client::make(ClientOptions options, Clock& clock) {
  auto url = check_url(options.url);
  if (!url) return url.error();
  for (const char c : options.token) {
    if (c <= ' ' || c > '~') {
      return field_error("token", "the token holds a blank, a line end or a foreign character",
                         "copy it again from mared's state directory (file 'token')");
    }
  }
  options.url = *url;
  return Client{std::move(options), clock};
}

std::vector<std::string> Client::headers(const char* accept) const {
  std::vector<std::string> lines{std::string("Accept: ") + accept};
  if (!options_.token.empty()) lines.push_back("Authorization: Bearer " + options_.token);
  return lines;
}

Error Client::refused(long status, const std::string& body) const {
  Error error = problem_error(status, body, options_.url);
  if (status == 401 && !options_.token_remedy.empty()) error.remedy = options_.token_remedy;
  return error;
}

Result<Reply> Client::call(const std::string& method, const std::string& path,
                           const wire::Json* body) const {
  Exchange exchange;
  exchange.method = method;
  exchange.url = options_.url + path;
  exchange.headers = headers("application/json, application/problem+json");
  exchange.connect_timeout = options_.connect_timeout;
  exchange.timeout = options_.timeout;
  exchange.interrupt_fd = options_.interrupt_fd;
  if (body != nullptr) {
    exchange.headers.emplace_back("Content-Type: application/json");
    exchange.body = wire::to_text(*body);
  } else if (method == "POST") {
    exchange.body = "";  // Content-Length: 0
  }
  Result<Answer> answer = transfer(exchange, *clock_);
  Milliseconds pause{150};
  for (int attempt = 1; attempt < options_.read_attempts && method == "GET" && !answer.ok() &&
                        answer.error().code == Code::Unavailable;
       ++attempt, pause *= 2) {
    clock_->sleep_for(pause);
    answer = transfer(exchange, *clock_);
  }
  if (!answer) return answer.error();
  if (answer->status < 200 || answer->status >= 300) return refused(answer->status, answer->body);
  Reply reply{answer->status, nullptr, answer->location};
  if (answer->body.empty()) return reply;
  reply.body = wire::Json::parse(answer->body, nullptr, false);
  if (reply.body.is_discarded()) {
    return make_error(Code::Internal,
                      method + " " + exchange.url + " answered something else than JSON",
                      "is another program at this address?");
  }
  return reply;
}

Result<Reply> Client::get(const std::string& path) const {
  return call("GET", path, nullptr);
}
Result<Reply> Client::post(const std::string& path, const wire::Json& body) const {
  return call("POST", path, body.is_null() ? nullptr : &body);
}
Result<Reply> Client::put(const std::string& path, const wire::Json& body) const {
  return call("PUT", path, &body);
}
Result<Reply> Client::patch(const std::string& path, const wire::Json& body) const {
  return call("PATCH", path, &body);
}
Result<Reply> Client::remove(const std::string& path) const {
  return call("DELETE", path, nullptr);
}

Status Client::read(const std::string& path,
                    const std::function<bool(std::string_view)>& on_data) const {
  Exchange exchange;
  exchange.url = options_.url + path;
  exchange.headers =
      headers("text/plain, application/octet-stream;q=0.9, application/problem+json;q=0.5");
  exchange.connect_timeout = options_.connect_timeout;
  exchange.timeout = Milliseconds{0};  // a job may be silent for hours
  exchange.interrupt_fd = options_.interrupt_fd;
  exchange.on_data = on_data;
  auto answer = transfer(exchange, *clock_);
  if (!answer) return answer.error();
  if (answer->status < 200 || answer->status >= 300) return refused(answer->status, answer->body);
  return ok_status();
}

Status Client::follow(const std::string& path, const std::string& after,
                      const SseParser::OnEvent& on_event) const {
  Exchange exchange;
  exchange.url = options_.url + path;
  exchange.headers = headers("text/event-stream");
  if (!after.empty()) exchange.headers.push_back("Last-Event-ID: " + after);
  exchange.connect_timeout = options_.connect_timeout;
  exchange.timeout = Milliseconds{0};
  exchange.silence_timeout = options_.silence_timeout;
  exchange.interrupt_fd = options_.interrupt_fd;
  SseParser parser{on_event};
  exchange.on_data = [&parser](std::string_view bytes) { return parser.feed(bytes); };
  auto answer = transfer(exchange, *clock_);
  if (!answer) return answer.error();
  if (answer->status < 200 || answer->status >= 300) return refused(answer->status, answer->body);
  if (parser.too_long()) {
    return make_error(Code::Internal, exchange.url + " sent an event of more than 4 MiB");
  }
  if (!answer->stopped) {
    return make_error(Code::Unavailable, "mared ended the event stream",
                      "it may be restarting: follow again");
  }
  return ok_status();
}

}  // namespace mare::rest
