// `mare lab` and `mare image` are programs of their own (Python); this finds them.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/core/result.h"

namespace mare::cli {

/// Where a helper program may be, best first. `self` is the path of the running binary.
std::vector<std::string> places_of(const std::string& program, const std::string& self);
Result<std::string> find_program(const std::string& program, const std::string& self);

}  // namespace mare::cli
