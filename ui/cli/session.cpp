#include "ui/cli/session.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "rest/client/transfer.h"
#include "ui/cli/terminal.h"

namespace mare::cli {
namespace {

constexpr const char* kLabToken = "/var/lib/mare/lab/mared/token";
constexpr const char* kSystemToken = "/var/lib/mare/token";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string(value);
}

Result<std::string> read_token(const std::string& path) {
  std::ifstream file(path);
  std::string token;
  if (!file.is_open() || !(file >> token)) {
    const int error = errno;
    if (file.is_open()) {
      return field_error("token-file", "token file " + path + " is empty",
                         "take the file 'token' in mared's state directory");
    }
    return field_error("token-file", "can't read token file " + path + ": " + std::strerror(error),
                       error == EACCES ? "run as the user that runs mared (root in the lab)"
                                       : "give the right one by --token-file or MARE_TOKEN_FILE");
  }
  return token;
}

bool exists(const char* path) {
  struct stat found {};
  return stat(path, &found) == 0;
}

}  // namespace

int exit_code_of(Code code) {
  switch (code) {
    case Code::InvalidArgument:
      return kUsage;
    case Code::NotFound:
      return kNotFound;
    case Code::AlreadyExists:
    case Code::Conflict:
    case Code::FailedPrecondition:
    case Code::ResourceExhausted:
      return kConflict;
    case Code::Unavailable:
      return kUnreachable;
    case Code::Cancelled:
      return kInterrupted;
    case Code::Unauthenticated:
    case Code::OutcomeUnknown:
    case Code::Unsupported:
    case Code::Internal:
      return kFailed;
  }
  return kFailed;
}

Result<Token> find_token(const std::string& token_file_option) {
  std::string path = token_file_option;
  if (path.empty()) {
    if (std::string token = environment("MARE_TOKEN"); !token.empty()) {
      return Token{std::move(token), "the variable MARE_TOKEN"};
    }
    path = environment("MARE_TOKEN_FILE");
  }
  if (path.empty() && exists(kLabToken)) path = kLabToken;
  if (path.empty() && exists(kSystemToken)) path = kSystemToken;
  if (path.empty()) {
    return Token{
        {}, std::string("nowhere: neither ") + kLabToken + " nor " + kSystemToken + " is there"};
  }
  auto token = read_token(path);
  if (!token) return token.error();
  return Token{*token, "file " + path};
}

Result<const rest::Client*> Session::client() {
  if (client_) return &*client_;
  auto token = find_token(globals_.token_file);
  if (!token) return token.error();
  rest::ClientOptions options;
  if (!globals_.url.empty()) {
    options.url = globals_.url;
  } else if (std::string url = environment("MARE_URL"); !url.empty()) {
    options.url = std::move(url);
  }
  options.token_remedy = "the token came from " + token->source +
                         "; give another by --token-file, MARE_TOKEN or MARE_TOKEN_FILE "
                         "(mared keeps it in its state directory, file 'token')";
  options.token = std::move(token->value);
  options.interrupt_fd = interrupt_.fd();
  auto made = rest::Client::make(std::move(options), clock_);
  if (!made) return made.error();
  client_.emplace(*std::move(made));
  return &*client_;
}

Result<Json> Session::get(const std::string& path) {
  auto client = this->client();
  if (!client) return client.error();
  auto reply = (*client)->get(path);
  if (!reply) return reply.error();
  return std::move(reply->body);
}

Result<Json> Session::post(const std::string& path, const Json& body) {
  auto client = this->client();
  if (!client) return client.error();
  auto reply = (*client)->post(path, body);
  if (!reply) return reply.error();
  return std::move(reply->body);
}

Result<Json> Session::put(const std::string& path, const Json& body) {
  auto client = this->client();
  if (!client) return client.error();
  auto reply = (*client)->put(path, body);
  if (!reply) return reply.error();
  return std::move(reply->body);
}

Result<Json> Session::patch(const std::string& path, const Json& body) {
  auto client = this->client();
  if (!client) return client.error();
  auto reply = (*client)->patch(path, body);
  if (!reply) return reply.error();
  return std::move(reply->body);
}

Result<Json> Session::remove(const std::string& path) {
  auto client = this->client();
  if (!client) return client.error();
  auto reply = (*client)->remove(path);
  if (!reply) return reply.error();
  return std::move(reply->body);
}

Result<Json> Session::list(const std::string& path, const std::string& query, std::size_t limit) {
  constexpr std::size_t kPage = 500;
  Json all = Json::array();
  std::string page_token;
  do {
    std::string url = path + "?limit=" + std::to_string(std::min(kPage, limit - all.size()));
    if (!query.empty()) url += "&" + query;
    if (!page_token.empty()) url += "&page_token=" + rest::percent_encode(page_token);
    auto page = get(url);
    if (!page) return page.error();
    for (const Json& item : member(*page, "items")) all.push_back(item);
    page_token = text(*page, "next_page_token");
  } while (!page_token.empty() && all.size() < limit);
  return all;
}

void Session::print_list(const Json& items, const Columns& columns) const {
  if (wants(Output::JsonText)) {
    print_json(Json{{"items", items}});
  } else if (wants(Output::Name)) {
    for (const Json& item : items) {
      const std::string id = text(item, "id");
      std::printf("%s\n", printable(id.empty() ? text(item, "name") : id).c_str());
    }
  } else if (items.empty()) {
    say("(none)");
  } else {
    std::fputs(list_text(columns, items, wants(Output::Wide), wants_colour(1)).c_str(), stdout);
  }
}

void Session::print_object(const Json& object, const Columns& columns) const {
  if (wants(Output::JsonText)) {
    print_json(object);
  } else if (wants(Output::Name)) {
    std::printf("%s\n", printable(text(object, "id")).c_str());
  } else {
    std::fputs(object_text(columns, object, wants_colour(1)).c_str(), stdout);
  }
}

void Session::print_json(const Json& value) const {
  std::printf("%s\n", wire::to_text(value, 2).c_str());
}

void Session::say(const std::string& line) const {
  if (!globals_.quiet) std::fprintf(stderr, "%s\n", line.c_str());
}

int Session::fail(const Error& error) const {
  const bool colour = wants_colour(2);
  std::string message = error.message;
  // A fault in one option reads better with its name; the server's texts often have it already.
  if (!error.field.empty() && message.find(error.field) == std::string::npos) {
    message = error.field + ": " + message;
  }
  std::fprintf(stderr, "%s %s\n", coloured("mare:", Colour::Red, colour).c_str(), message.c_str());
  if (!error.remedy.empty()) std::fprintf(stderr, "  %s\n", error.remedy.c_str());
  return exit_code_of(error.code);
}

std::string api(std::initializer_list<std::string> parts) {
  std::string path = "/api/v1";
  for (const std::string& part : parts) path += "/" + rest::percent_encode(part);
  return path;
}

std::string query(std::initializer_list<std::pair<const char*, std::string>> parts) {
  std::string all;
  for (const auto& [name, value] : parts) {
    if (value.empty()) continue;
    if (!all.empty()) all += '&';
    all += std::string(name) + "=" + rest::percent_encode(value);
  }
  return all;
}

}  // namespace mare::cli
