#include "rest/client/problem.h"

#include <string>

#include "rest/wire/json.h"
#include "rest/wire/problem.h"

namespace mare::rest {
namespace {

std::string member(const wire::Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

std::string first_line(std::string_view body) {
  std::string line(body.substr(0, body.find('\n')));
  if (line.size() > 200) line = line.substr(0, 200) + "...";
  return line;
}

/// The faults that the summary in `detail` does not repeat, a line each.
std::string other_faults(const wire::Json& body, const std::string& said) {
  const auto faults = body.find("errors");
  if (faults == body.end() || !faults->is_array()) return {};
  std::string all;
  for (const wire::Json& fault : *faults) {
    if (!fault.is_object()) continue;
    std::string pointer = member(fault, "pointer");
    const std::string detail = member(fault, "detail");
    if (detail.empty() || said.find(detail) != std::string::npos) continue;
    if (pointer.starts_with('/') || pointer.starts_with('?')) pointer.erase(0, 1);
    all += "\n  " + (pointer.empty() ? detail : pointer + ": " + detail);
  }
  return all;
}

}  // namespace

Error problem_error(long status, std::string_view body, std::string_view url) {
  Error error = wire::error_from_problem(static_cast<int>(status), body);
  const wire::Json parsed = wire::Json::parse(body, nullptr, false);
  if (parsed.is_object() && !member(parsed, "detail").empty()) {
    error.message += other_faults(parsed, error.text());
    return error;
  }
  const std::string said = first_line(body);
  error.message = std::string(url) + " answered status " + std::to_string(status) +
                  (said.empty() ? "" : ": " + said);
  error.remedy = "that is not how mared answers: is another program or a proxy at this address?";
  return error;
}

}  // namespace mare::rest
