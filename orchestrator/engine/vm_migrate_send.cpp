// While the source sends: progress, limits, and post-copy from its switch to its last page.
#include <algorithm>

#include "orchestrator/engine/move_slots.h"
#include "orchestrator/engine/switch_gangs.h"
#include "orchestrator/engine/vm_migrate.h"

namespace mare::engine {
namespace {
constexpr auto kProgressEvery = std::chrono::milliseconds{500};
// A post-copy that broke is tried to mend this often, and given up after so long: until then the VM
// stands still, and nothing is lost.
constexpr auto kMendEvery = std::chrono::seconds{2};
constexpr auto kStarvesFor = std::chrono::minutes{10};
constexpr int kEmptyLooksBelieved = 3;
// What an agent was asked is done within some of its looks, which are 40 ms apart.
constexpr auto kAskAgain = std::chrono::seconds{2};
// At the rate so far; the next progress may be half a second old.
constexpr Seconds kSwitchIsNear{1.5};

// Longer than from one look at the source to the next, and while its answer comes.
constexpr std::chrono::milliseconds kSpared{500};
constexpr std::chrono::seconds kLongestSpared{5};

/// Is the VM about to stand still?
bool switches_soon(const OutgoingStatus& status, Strategy strategy) {
  if (strategy == Strategy::PostCopy || strategy == Strategy::StopAndCopy) return true;
  if (status.transferred.count == 0) return false;  // nothing is known yet
  const Seconds so_far = status.elapsed;
  const double left = static_cast<double>(status.remaining.count);
  return left * so_far <= kSwitchIsNear * static_cast<double>(status.transferred.count);
}
}  // namespace

void VmMigrate::send() {
  auto made = ticket();
  if (!made) return abort(made.error());
  attempt_.holds = joins_gang();
  made->holds_switch = attempt_.holds;
  start_probe();
  call_host<Status>(
      migration_.source,
      [ticket = *made, endpoint = endpoint_](Driver& driver) {
        return driver.begin_outgoing(ticket, endpoint);
      },
      [this](Status begun) {
        if (begun) return poll();
        // It may have begun all the same: only a look at both hosts tells.
        attempt_.note =
            begun.error().during("host '" + migration_.source.value + "' can't send").text();
        attempt_.note_code = begun.error().code;
        look();
      });
}

void VmMigrate::poll() {
  call_host<Result<OutgoingStatus>>(
      migration_.source, [key = key()](Driver& driver) { return driver.outgoing(key); },
      [this](Result<OutgoingStatus> status) { polled(std::move(status)); });
}

void VmMigrate::polled(Result<OutgoingStatus> status) {
  if (!status) return source_is_silent(status.error());
  attempt_.silent_since.reset();
  attempt_.shared = attempt_.shared || context_.slots->shares(operation().id);
  if (status->phase != OutgoingPhase::None) keep(*status);
  attempt_.sends = true;
  const bool new_agent = status->operation.value.empty();
  if (new_agent) ask_again();
  if (status->phase != OutgoingPhase::PreCopying) context_.gangs->leave(operation().id);
  switch (status->phase) {
    case OutgoingPhase::PreCopying:
      watch_closely(switches_soon(*status, migration_.sending.strategy));
      watch_limits(*status);
      if (new_agent) switch_by_post_copy();
      if (watch_forecast(*status)) return;
      watch_hold(*status);
      // Others hold for its word.
      return after(attempt_.holds ? settings().poll / 4 : settings().poll, [this] { poll(); });
    case OutgoingPhase::Switching:
      if (state() == State::PreCopying && !step(Event::Switch, how_switched())) return;
      spare_guest();
      watch_limits(*status);
      return after(settings().poll / 4, [this] { poll(); });
    case OutgoingPhase::PostCopying:
      spare_guest();
      if (probe_) probe_->watch_closely(false);
      if (enter_post_copy()) post_copying(*status);
      return;
    case OutgoingPhase::Completed:
      return look();
    case OutgoingPhase::Failed:
      attempt_.note = "host '" + migration_.source.value + "': " + status->error;
      attempt_.note_code = Code::Internal;
      return look();
    case OutgoingPhase::Cancelled:
      if (attempt_.note.empty()) attempt_.note = "cancelled";
      attempt_.note_code =
          attempt_.gave_up || operation().cancel_requested ? Code::Cancelled : Code::Internal;
      return look();
    case OutgoingPhase::None:
      return look();
  }
}

/// The VM is about to stand still.
void VmMigrate::watch_closely(bool closely) {
  if (probe_) probe_->watch_closely(closely);
  if (closely) spare_guest();
}

/// An emulator that has just begun has the guest's code to translate anew: what a guest is asked as
/// it switches, or soon after, it answers at its program's expense. A look at a job, of 15 ms,
/// took 160 so. Where the switch, or the end of a post-copy, takes long, its job is looked at
/// again.
void VmMigrate::spare_guest() {
  if (!is_emulated()) return;
  if (!attempt_.spared_since) attempt_.spared_since = clock().now();
  if (clock().now() - *attempt_.spared_since < kLongestSpared) {
    context_.spare(vm_.id, kSpared);
  }
}

/// An agent that was restarted knows nothing of what the one before it was asked to do.
void VmMigrate::ask_again() {
  if (clock().now() - attempt_.asked < kAskAgain) return;
  attempt_.gave_up = false;
  attempt_.forced = false;
}

/// Nor when it was to switch.
void VmMigrate::switch_by_post_copy() {
  const Strategy strategy = migration_.sending.strategy;
  if (strategy != Strategy::PostCopy && strategy != Strategy::Hybrid) return;
  if (attempt_.gave_up || attempt_.forced || attempt_.out_of_time) return;
  force(LimitAction::PostCopy, "its agent was restarted");
}

void VmMigrate::watch_limits(const OutgoingStatus& status) {
  if (attempt_.gave_up) return;
  if (operation().cancel_requested) return cancel_sending("cancelled by the user");
  if (clock().wall_now() > operation().deadline) {
    attempt_.out_of_time = Seconds{status.elapsed};
    return cancel_sending("it did not end within its time limit");
  }
  if (!policy_.time_limit || attempt_.forced || status.elapsed < *policy_.time_limit) return;
  attempt_.out_of_time = policy_.time_limit;
  if (policy_.at_limit == LimitAction::Cancel) {
    return cancel_sending("it did not end within the policy's time limit");
  }
  force(policy_.at_limit, "it reached its time limit");
}

void VmMigrate::force(LimitAction how, const std::string& why) {
  attempt_.forced = true;
  attempt_.asked = clock().now();
  call_host<Status>(
      migration_.source,
      [key = key(), how](Driver& driver) { return driver.force_outgoing(key, how); },
      [this, how, why](Status asked) {
        if (asked) return;
        const Code code = asked.error().code;
        const bool never = code == Code::Unsupported || code == Code::FailedPrecondition;
        // Not answered, or not yet possible: the poll goes on and asks again.
        if (!never) {
          attempt_.forced = false;
          return;
        }
        cancel_sending(why + ", and " + std::string(to_string(how)) +
                       " is not possible: " + asked.error().text());
      });
}

void VmMigrate::cancel_sending(const std::string& why) {
  context_.gangs->leave(operation().id);
  attempt_.gave_up = true;
  attempt_.asked = clock().now();
  attempt_.note = why;
  attempt_.note_code = Code::Cancelled;
  call_host<Status>(
      migration_.source, [key = key()](Driver& driver) { return driver.cancel_outgoing(key); },
      [this](Status asked) {
        // Not answered: the poll goes on and asks again.
        if (!asked) attempt_.gave_up = false;
      });
}

void VmMigrate::source_is_silent(const Error& error) {
  context_.gangs->leave(operation().id);
  if (!attempt_.silent_since) attempt_.silent_since = clock().now();
  if (clock().now() - *attempt_.silent_since > settings().unreachable_timeout) {
    attempt_.note = "host '" + migration_.source.value + "' does not answer: " + error.text();
    attempt_.note_code = Code::Unavailable;
    return look();
  }
  after(settings().poll * 5, [this] { poll(); });
}

/// Shows and keeps how far it is.
void VmMigrate::keep(const OutgoingStatus& status) {
  if (!status.rounds.empty()) migration_.rounds = status.rounds;
  if (status.memory_total.count > 0) migration_.memory_total = status.memory_total;
  migration_.transferred = std::max(migration_.transferred, status.transferred);
  attempt_.sent_for = status.elapsed;
  migration_.remaining = status.remaining;
  attempt_.paused = attempt_.paused || status.paused_at.count() != 0;
  if (status.paused_at.count() != 0) attempt_.paused_at = status.paused_at;
  const double total = static_cast<double>(migration_.memory_total.count);
  const double left = static_cast<double>(status.remaining.count);
  // Remaining grows again with every round; a bar that went back would be worse than one that
  // waits.
  if (total > 0) attempt_.best = std::max(attempt_.best, std::min(0.99, 1.0 - left / total));
  progress(attempt_.best);
  if (clock().now() - kept_at_ < kProgressEvery) return;
  kept_at_ = clock().now();
  save_record();
  save_progress();
}

void VmMigrate::save_record() {
  // Figures on the way may be lost: the last ones are committed with the end.
  (void)store().write([&](store::Transaction& tx) { return tx.put(migration_); });
}

// --- post-copy

bool VmMigrate::enter_post_copy() {
  if (state() == State::PostCopying) return true;
  auto source = host(migration_.source);
  if (!source) {
    again();
    return false;
  }
  Vm row = vm_;
  row.host = migration_.destination;
  migration_.reconsiders.clear();  // it switched before that
  const auto also = [&](store::Transaction& tx) -> Status {
    if (auto done = tx.put(migration_); !done) return done;
    // The row's host accounts for its memory from here on; what the source holds is still there.
    const Bytes held = vm_.memory + source->vm_overhead;
    if (auto done = tx.reserve({operation().id, migration_.source, held}); !done) return done;
    return put_vm(tx, clock(), row);
  };
  if (!step(Event::PostCopy, "the VM runs on " + migration_.destination.value, also)) return false;
  vm_ = row;
  attempt_.paused = true;
  attempt_.looks = 0;
  attempt_.looking_since.reset();
  attempt_.note.clear();
  attempt_.note_code.reset();
  return true;
}

void VmMigrate::post_copying(const OutgoingStatus& status) {
  if (status.error.empty()) {
    starved_since_.reset();
    attempt_.looks = 0;
    return after(settings().poll, [this] { poll(); });
  }
  attempt_.note = "host '" + migration_.source.value + "': " + status.error;
  attempt_.note_code = Code::Unavailable;
  if (!starved_since_) log().warn("engine", operation().id.value + ": " + attempt_.note);
  // Pages may come all the same: what broke may be only the management's connection.
  if (!starved_since_ || status.transferred > fed_until_) starved_since_ = clock().now();
  fed_until_ = status.transferred;
  mend();
}

/// Both hosts are asked again, as at the beginning: the same calls take up what broke.
void VmMigrate::mend() {
  auto made = ticket();
  if (!made) return after(kMendEvery, [this] { poll(); });
  call_host<Result<IncomingEndpoint>>(
      migration_.destination,
      [ticket = *made](Driver& driver) { return driver.prepare_incoming(ticket); },
      [this, ticket = *made](Result<IncomingEndpoint> endpoint) {
        if (!endpoint) return look_at_starved();
        call_host<Status>(
            migration_.source,
            [ticket, endpoint = *endpoint](Driver& driver) {
              return driver.begin_outgoing(ticket, endpoint);
            },
            [this](Status tried) {
              can_mend_ = tried.ok() || tried.error().code != Code::Unsupported;
              if (!can_mend_) attempt_.note += "; " + tried.error().text();
              look_at_starved();
            });
      });
}

/// Without its copy at the destination there is nothing left to mend.
void VmMigrate::look_at_starved() {
  call_host<Result<VmObservation>>(
      migration_.destination, [key = key()](Driver& driver) { return driver.observe(key); },
      [this](Result<VmObservation> destination) {
        const Copy copy = destination ? destination->copy : Copy::Unknown;
        attempt_.looks = copy == Copy::Absent ? attempt_.looks + 1 : 0;
        if (attempt_.looks >= kEmptyLooksBelieved) return lost({Copy::Paused, Copy::Absent});
        const Seconds patience = can_mend_ ? Seconds{kStarvesFor} : settings().unreachable_timeout;
        if (starved_since_ && clock().now() - *starved_since_ > patience) {
          return ask_operator("post-copy broke, and its pages are still at the source");
        }
        after(kMendEvery, [this] { poll(); });
      });
}

}  // namespace mare::engine
