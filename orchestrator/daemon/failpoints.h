// Crashes on request, for the crash tests of the whole system. MARE_FAILPOINTS is a list, separated
// by commas, of KIND:STATE=kill or KIND:STATE=hold:MS, for instance
// "vm.migrate:PreCopying=hold:3000". Each fires once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/result.h"
#include "orchestrator/model/entities.h"

namespace mare::daemon {

/// "kill" ends this process with SIGKILL right after the state's commit; "hold" makes the engine's
/// thread wait there. Before either, the file STATE_DIR/failpoint.KIND.STATE is made, so that a
/// test knows. An empty text gives an empty function.
Result<std::function<void(const Operation&)>> parse_failpoints(const std::string& text,
                                                               const std::string& state_directory,
                                                               std::shared_ptr<Clock> clock);

}  // namespace mare::daemon
