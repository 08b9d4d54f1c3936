// A migration that goes far beyond its forecast is given up, and begun anew by another strategy
// (docs/adr/0017). Whoever named a strategy or a time limit has said what is to happen; such a one
// goes on, and says it.
#include <utility>

#include "orchestrator/engine/past_moves.h"
#include "orchestrator/engine/switch_gangs.h"
#include "orchestrator/engine/vm_migrate.h"
#include "orchestrator/policy/overrun.h"

namespace mare::engine {
namespace {
/// For what its guest writes now. What was seen of it before has led astray.
constexpr std::chrono::seconds kWatchAnew{6};
}  // namespace

bool VmMigrate::watch_forecast(const OutgoingStatus& status) {
  if (attempt_.gave_up || attempt_.forced || attempt_.held_since || !forecast_) return false;
  // Late for another reason: it was forecast for a link of its own.
  if (attempt_.shared) return false;
  const auto* said = forecast_of(*forecast_, migration_.sending.strategy);
  const Seconds elapsed{status.elapsed};
  if (said == nullptr || !policy::is_overrun(*said, elapsed, migration_.rounds)) return false;
  const std::string words = policy::overrun_words(*said, elapsed, migration_.rounds.size());
  const bool again = policy::may_be_tried_again(migration_.earlier);
  if (policy_.strategy || policy_.time_limit || !again) {
    tell_overrun(words);
    return false;
  }
  log().warn("engine", operation().id.value + ": " + words);
  context_.gangs->leave(operation().id);
  migration_.reconsiders = words;
  migration_.total_time = status.elapsed;
  abort(make_error(Code::Cancelled, words + ": given up, to be forecast anew"),
        [&](store::Transaction& tx) -> Status {
          if (auto done = keep_verdict(tx, elapsed); !done) return done;
          return tx.put(migration_);
        });
  return true;
}

/// Once. It goes on as it was asked to.
void VmMigrate::tell_overrun(const std::string& words) {
  if (std::exchange(attempt_.overran, true) || !operation().reason.empty()) return;
  const std::string reason =
      words + (policy_.strategy     ? "; it goes on, as it was asked for by name"
               : policy_.time_limit ? "; it goes on until its time limit"
                                    : "; it goes on, as others did the same");
  log().warn("engine", operation().id.value + ": " + reason);
  (void)wait_because("Overrun", reason, reason);
}

EarlierTry VmMigrate::this_try() const {
  EarlierTry out;
  out.strategy = migration_.sending.strategy;
  const auto* said = forecast_ ? forecast_of(*forecast_, out.strategy) : nullptr;
  if (said != nullptr) out.said_s = said->total_time_s;
  out.lasted = migration_.total_time.value_or(Microseconds{0});
  out.sent = migration_.transferred;
  out.rounds = static_cast<int>(migration_.rounds.size());
  out.ended = clock().wall_now();
  return out;
}

void VmMigrate::begin_anew() {
  stop_probe();
  Migration row = migration_;
  row.earlier.push_back(this_try());
  const std::string why = std::exchange(row.reconsiders, {});
  row.total_time.reset();
  row.rounds.clear();
  row.transferred = Bytes{};
  row.remaining = Bytes{};
  row.downtime_peers.reset();
  row.downtime_guest.reset();
  row.held.reset();
  row.switched_with = 0;
  Vm stays = vm_;
  stays.state = VmState::Running;
  stays.host = migration_.source;
  const auto also = [&](store::Transaction& tx) -> Status {
    if (auto done = tx.put(row); !done) return done;
    if (auto done = tx.release(operation().id); !done) return done;
    return put_vm(tx, clock(), stays);
  };
  progress(0);
  if (!step(Event::Reconsider, why + "; the VM stayed on " + row.source.value, also)) return;
  migration_ = std::move(row);
  vm_ = std::move(stays);
  attempt_ = {};
  choose_moment();
}

/// The log of a VM that was being sent begins again when it has stayed.
bool VmMigrate::watches_anew() {
  if (migration_.earlier.empty()) return false;
  if (operation().reason.empty()) {
    const std::string reason =
        "given up far beyond its forecast; its guest is watched, to be forecast anew";
    if (!wait_because("Watch", reason, "")) return true;
  }
  if (in_state() >= kWatchAnew) return false;
  after(kWatchAnew - in_state(), [this] {
    if (!load()) return load_again();
    forecast_first();
  });
  return true;
}

}  // namespace mare::engine
