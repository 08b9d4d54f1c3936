// Turns an error reply (RFC 9457, application/problem+json) back into the Error that mared had.
#pragma once

#include <string_view>

#include "orchestrator/core/result.h"

namespace mare::rest {

/// Lists every fault that the reply names. A reply in another form tells of a proxy or of another
/// program at `url`.
Error problem_error(long status, std::string_view body, std::string_view url);

}  // namespace mare::rest
