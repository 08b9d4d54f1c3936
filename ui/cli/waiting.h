// Waiting for what the server works on, with progress on stderr. A restart of mared in between is
// sat out. Ctrl-C ends the waiting, not the work.
#pragma once

#include <functional>
#include <string>

#include "ui/cli/session.h"
#include "ui/cli/terminal.h"

namespace mare::cli {

/// What a look at an operation shows: `live` on a terminal, `plain` (when it changed) elsewhere.
struct Look {
  std::string live;
  std::string plain;
};
using Looker = std::function<Look(Session&, const Json& operation)>;

Look look_at_operation(Session& session, const Json& operation);
Look look_at_pool(Session& session, const Json& operation);  // how many of its VMs run
Look look_at_migration(Session& session, const Json& operation);

struct WaitEnd {
  enum class How { Ended, TimedOut, Interrupted };
  How how = How::Ended;
  Json last;  // the operation or job as seen last
};

Result<WaitEnd> wait_for_operation(Session& session, const std::string& id, const Looker& look);
Result<WaitEnd> wait_for_job(Session& session, const std::string& id);

/// The end of every command that starts an operation: waits if wanted, says how it went, answers
/// the exit code. `done` is said on success, e.g. "pool demo is ready".
struct Follow {
  bool wait_by_default = true;
  Looker look = look_at_operation;
  std::string done;
  std::function<void(Session&, const Json& operation)> on_success;  // prints more, in table form
  /// Where the end is worth an object of its own: gets it, and prints it in the form of -o.
  std::function<Result<Json>(Session&, const Json& operation)> answer;
  std::function<void(Session&, const Json& answer)> show;
};
int finish(Session& session, const Json& operation, const Follow& follow);

/// The server's words for an operation that did not succeed.
Error operation_error(const Json& operation);

}  // namespace mare::cli
