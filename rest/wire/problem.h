// Errors on the wire: application/problem+json (RFC 9457) with `code`, `remedy` and `errors[]`.
#pragma once

#include <string>
#include <string_view>

#include "orchestrator/core/result.h"
#include "rest/wire/reader.h"

namespace mare::wire {

inline constexpr std::string_view kProblemType = "application/problem+json";

/// The HTTP status that stands for a code.
int status_of(Code code);
std::string_view title_of(int status);

/// `instance` is the request's path.
Json problem_json(const Error& error, int status, const std::string& instance,
                  const Faults& faults = {});

/// The error that a problem tells of. Anything else (an HTML page of a proxy) becomes an error too.
Error error_from_problem(int status, std::string_view body);

}  // namespace mare::wire
