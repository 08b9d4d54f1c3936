#include "orchestrator/core/result.h"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace mare {
namespace {
constexpr std::array<std::pair<Code, std::string_view>, 12> kNames{{
    {Code::InvalidArgument, "invalid_argument"},
    {Code::Unauthenticated, "unauthenticated"},
    {Code::NotFound, "not_found"},
    {Code::AlreadyExists, "already_exists"},
    {Code::Conflict, "conflict"},
    {Code::FailedPrecondition, "failed_precondition"},
    {Code::ResourceExhausted, "resource_exhausted"},
    {Code::Unavailable, "unavailable"},
    {Code::OutcomeUnknown, "outcome_unknown"},
    {Code::Cancelled, "cancelled"},
    {Code::Unsupported, "unsupported"},
    {Code::Internal, "internal"},
}};
}  // namespace

std::string_view to_string(Code code) {
  for (const auto& [known, name] : kNames) {
    if (known == code) return name;
  }
  return "internal";
}

std::optional<Code> code_from_string(std::string_view text) {
  for (const auto& [code, name] : kNames) {
    if (name == text) return code;
  }
  return std::nullopt;
}

std::string Error::text() const {
  return remedy.empty() ? message : message + "; " + remedy;
}

Error Error::during(std::string_view what) const {
  Error wrapped = *this;
  wrapped.message = std::string(what) + ": " + message;
  return wrapped;
}

void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace mare
