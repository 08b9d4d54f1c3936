#include "rest/wire/problem.h"

#include <array>
#include <utility>

namespace mare::wire {
namespace {

constexpr std::array<std::pair<Code, int>, 12> kStatus{{
    {Code::InvalidArgument, 400},
    {Code::Unauthenticated, 401},
    {Code::NotFound, 404},
    {Code::AlreadyExists, 409},
    {Code::Conflict, 409},
    {Code::FailedPrecondition, 409},
    {Code::ResourceExhausted, 409},
    {Code::Unavailable, 503},
    {Code::OutcomeUnknown, 504},
    {Code::Cancelled, 409},
    {Code::Unsupported, 501},
    {Code::Internal, 500},
}};

constexpr std::array<std::pair<int, std::string_view>, 22> kTitles{{
    {200, "OK"},
    {202, "Accepted"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
}};

/// What a status alone says, when the body says nothing.
Code code_of(int status) {
  switch (status) {
    case 401:
    case 403:
      return Code::Unauthenticated;
    case 404:
      return Code::NotFound;
    case 409:
      return Code::Conflict;
    case 502:
    case 503:
      return Code::Unavailable;
    case 504:
      return Code::OutcomeUnknown;
    default:
      return status >= 400 && status < 500 ? Code::InvalidArgument : Code::Internal;
  }
}

std::string member(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

}  // namespace

int status_of(Code code) {
  for (const auto& [known, status] : kStatus) {
    if (known == code) return status;
  }
  return 500;
}

std::string_view title_of(int status) {
  for (const auto& [known, title] : kTitles) {
    if (known == status) return title;
  }
  return "Error";
}

Json problem_json(const Error& error, int status, const std::string& instance,
                  const Faults& faults) {
  // "about:blank": the status says the kind, `code` says it finer (RFC 9457, 4.2.1).
  Json out{{"type", "about:blank"},  {"title", title_of(status)}, {"status", status},
           {"detail", error.text()}, {"instance", instance},      {"code", to_string(error.code)}};
  if (!error.remedy.empty()) out["remedy"] = error.remedy;
  Json errors = Json::array();
  for (const auto& fault : faults) {
    errors.push_back(Json{{"pointer", fault.pointer}, {"detail", fault.detail}});
  }
  if (faults.empty() && !error.field.empty()) {
    const bool pointed = error.field.front() == '/' || error.field.front() == '?';
    errors.push_back(
        Json{{"pointer", pointed ? error.field : "/" + error.field}, {"detail", error.text()}});
  }
  if (!errors.empty()) out["errors"] = std::move(errors);
  return out;
}

Error error_from_problem(int status, std::string_view body) {
  Error out;
  out.code = code_of(status);
  const Json json = Json::parse(body.begin(), body.end(), nullptr, false);
  if (!json.is_object() || member(json, "detail").empty()) {
    out.message = "the server answered " + std::to_string(status) + " " +
                  std::string(title_of(status)) + " without saying why";
    return out;
  }
  out.code = code_from_string(member(json, "code")).value_or(out.code);
  out.message = member(json, "detail");
  out.remedy = member(json, "remedy");
  const std::string tail = "; " + out.remedy;
  if (!out.remedy.empty() && out.message.ends_with(tail)) {
    out.message.resize(out.message.size() - tail.size());
  }
  const auto errors = json.find("errors");
  if (errors != json.end() && errors->is_array() && !errors->empty() && (*errors)[0].is_object()) {
    out.field = member((*errors)[0], "pointer");
    if (out.field.starts_with('/')) out.field.erase(0, 1);
  }
  return out;
}

}  // namespace mare::wire
