// What is true of a migration whose sending is over or in doubt, and the ways back: the
// destination's copy goes first, then the source goes on.
#include "orchestrator/engine/vm_migrate.h"

namespace mare::engine {
namespace {
// A host that looks odd for a moment (the source's copy not yet gone, the destination's just
// running) is looked at this often before a person is asked.
constexpr int kLooks = 20;
constexpr auto kLookAgain = std::chrono::milliseconds{500};
constexpr int kEndLooks = 6;
}  // namespace

void VmMigrate::look() {
  ++attempt_.looks;
  call_host<Result<VmObservation>>(
      migration_.source, [key = key()](Driver& driver) { return driver.observe(key); },
      [this](Result<VmObservation> source) {
        // A post-copy that was not cancelled in time: its pages are nowhere else.
        if (source && source->sending && state() == State::Aborting) return still_sending();
        if (source && source->sending) {
          attempt_.looks = 0;
          start_probe();
          return after(settings().poll, [this] { poll(); });
        }
        look_at_destination(std::move(source));
      });
}

void VmMigrate::look_at_destination(Result<VmObservation> source) {
  call_host<Result<VmObservation>>(
      migration_.destination, [key = key()](Driver& driver) { return driver.observe(key); },
      [this, source](Result<VmObservation> destination) {
        CopyPair seen;
        if (source) seen.source = source->copy;
        if (destination) seen.destination = destination->copy;
        // A source that never stopped its copy never handed it over, whatever the silent host
        // has.
        const bool never_paused = source && source->copy == Copy::Running && attempt_.note_code &&
                                  !attempt_.paused && state() != State::Switching &&
                                  state() != State::PostCopying;
        if (!destination && never_paused && attempt_.looks > kLooks / 2) {
          seen.destination = Copy::Absent;
        }
        // What it may have made from the file has not run and never will.
        if (!destination && by_file() && state() == State::Aborting) {
          seen.destination = Copy::Absent;
        }
        decide(seen);
      });
}

void VmMigrate::decide(CopyPair seen) {
  const Event event = mare::recover(state(), seen);
  const std::string what = "source " + std::string(to_string(seen.source)) + ", destination " +
                           std::string(to_string(seen.destination));
  switch (event) {
    case Event::DestinationRuns:
      return commit_destination(Event::DestinationRuns,
                                state() == State::PreCopying ? how_switched() : "");
    case Event::SourceRuns:
      // Its file is to go first, or nobody would remove it.
      if (by_file() && !dropped_ && attempt_.looks < kLooks)
        return after(kLookAgain, [this] { abort_step(); });
      return back_at_source();
    case Event::Loaded:
      return go_on_from_file();
    case Event::Abort:
      // An end that was asked for a moment ago may still come.
      if (state() == State::Restarting && (!end_refused_ || attempt_.looks < kEndLooks)) {
        if (looking_for() < settings().unreachable_timeout) {
          return after(kLookAgain, [this] { end_source(); });
        }
        if (!end_refused_) break;
      }
      if (state() == State::Aborting) return abort_again(seen);
      return abort_after_look(what);
    case Event::Lost:
    case Event::Ambiguous:
    case Event::Reserve:
    case Event::StartPreCopy:
    case Event::Switch:
    case Event::PostCopy:
    case Event::Save:
    case Event::EndSource:
    case Event::Return:
    case Event::Announced:
    case Event::Reconsider:
      break;
  }
  if (is_patient(seen)) {
    after(kLookAgain, [this] {
      if (state() == State::Aborting) return abort_step();
      if (state() == State::Restarting) return end_source();
      look();
    });
    return;
  }
  if (event == Event::Lost) return lost(seen);
  ask_operator(what);
}

bool VmMigrate::is_patient(CopyPair seen) {
  const bool unknown = seen.source == Copy::Unknown || seen.destination == Copy::Unknown;
  return unknown ? looking_for() < settings().unreachable_timeout : attempt_.looks < kLooks;
}

MonotonicTime VmMigrate::looking_for() {
  if (!attempt_.looking_since) attempt_.looking_since = clock().now();
  return clock().now() - *attempt_.looking_since;
}

void VmMigrate::abort_after_look(const std::string& what) {
  if (attempt_.note.empty()) attempt_.note = "the sending ended without a result (" + what + ")";
  abort(make_error(attempt_.note_code.value_or(Code::Internal), attempt_.note),
        [&](store::Transaction& tx) {
          return attempt_.out_of_time ? keep_verdict(tx, *attempt_.out_of_time) : ok_status();
        });
}

void VmMigrate::ask_operator(const std::string& what) {
  Vm row = vm_;
  row.state = VmState::Lost;
  row.reason = "migration unclear: " + what;
  const std::string file =
      by_file() && state() != State::Aborting ? "; its state is in " + migration_.file.path : "";
  const std::string reason = row.reason + (attempt_.note.empty() ? "" : "; " + attempt_.note) +
                             file +
                             "; look at both hosts, end one copy, then 'mare vm stop --force'";
  stop_probe();
  finish(to_string(Event::Ambiguous), to_string(State::NeedsOperator), Outcome::NeedsOperator,
         reason, std::string(to_string(Code::OutcomeUnknown)),
         [&](store::Transaction& tx) -> Status {
           if (auto done = tx.put(migration_); !done) return done;
           return put_vm(tx, clock(), row);
         });
}

/// What is left of it can never run, so it is ended before the row says that the VM is gone.
void VmMigrate::lost(CopyPair seen) {
  call_host<Status>(
      migration_.destination, [key = key()](Driver& driver) { return driver.destroy(key); },
      [this, seen](Status there) {
        call_host<Status>(
            migration_.source, [key = key()](Driver& driver) { return driver.destroy(key); },
            [this, seen, there](Status here) {
              // A host that went silent in this moment: what is true is asked again.
              if (!there || !here) return after(kLookAgain, [this] { look(); });
              record_loss(seen);
            });
      });
}

void VmMigrate::record_loss(CopyPair seen) {
  Vm row = vm_;
  row.state = VmState::Failed;
  row.host.reset();
  row.reason = refused_ > kLooks ? "its copy on '" + migration_.source.value +
                                       "' can't go on: it broke when it was in post-copy"
                                 : "its copies are gone from both hosts";
  if (state() == State::PostCopying) {
    row.reason =
        seen.destination == Copy::Absent
            ? "its copy on '" + migration_.destination.value +
                  "' ended in post-copy, when it was whole nowhere else"
            : "'" + migration_.source.value + "' lost the pages that post-copy had not sent";
  }
  if (state() == State::Returning) row.reason = "its file " + migration_.file.path + " is gone";
  stop_probe();
  finish(to_string(Event::Lost), to_string(State::Failed), Outcome::Failed,
         "the VM is lost: " + row.reason + (attempt_.note.empty() ? "" : "; " + attempt_.note) +
             "; start it again with 'mare vm start'",
         std::string(to_string(Code::Internal)), [&](store::Transaction& tx) -> Status {
           if (auto done = tx.put(migration_); !done) return done;
           return put_vm(tx, clock(), row);
         });
}

void VmMigrate::abort(const Error& error, const Also& also) {
  attempt_.note = error.text();
  attempt_.note_code = error.code;
  attempt_.looks = 0;
  attempt_.looking_since.reset();
  if (step(Event::Abort, attempt_.note, also)) abort_step();
}

void VmMigrate::abort_step() {
  if (by_file()) return abort_file_move();
  call_host<Status>(
      migration_.source, [key = key()](Driver& driver) { return driver.cancel_outgoing(key); },
      [this](Status) { wait_until_quiet(); });
}

void VmMigrate::wait_until_quiet() {
  call_host<Result<VmObservation>>(
      migration_.source, [key = key()](Driver& driver) { return driver.observe(key); },
      [this](Result<VmObservation> source) {
        if (source && source->sending) return still_sending();
        // The destination's copy may be the one that counts by now: only the source could tell.
        if (!source && may_post_copy()) return look();
        discard_at_destination();
      });
}

/// A cancel that came too late for a post-copy changes nothing more.
void VmMigrate::still_sending() {
  call_host<Result<OutgoingStatus>>(
      migration_.source, [key = key()](Driver& driver) { return driver.outgoing(key); },
      [this](Result<OutgoingStatus> status) {
        if (!status || status->phase != OutgoingPhase::PostCopying) {
          return after(settings().poll, [this] { abort_step(); });
        }
        if (enter_post_copy()) poll();
      });
}

void VmMigrate::discard_at_destination() {
  // Leaves a copy that runs: then the switch won the race, and the look below finds it.
  call_host<Status>(
      migration_.destination,
      [key = key()](Driver& driver) { return driver.discard_incoming(key); },
      [this](Status) { look(); });
}

/// The destination's copy is known not to run; the source's may be paused still.
void VmMigrate::abort_again(CopyPair seen) {
  if (seen.source == Copy::Paused && seen.destination == Copy::Absent) {
    call_host<Status>(
        migration_.source, [key = key()](Driver& driver) { return driver.resume(key); },
        [this, seen](Status resumed) {
          // It had switched to post-copy, and broke, before anybody heard of that: half of its
          // memory was at the destination.
          const bool never = !resumed && resumed.error().code == Code::FailedPrecondition;
          if (never && may_post_copy() && ++refused_ > kLooks) return lost(seen);
          after(settings().poll, [this] { look(); });
        });
    return;
  }
  if (seen.source == Copy::Running && seen.destination == Copy::Paused) {
    // It ran there once, so it was left alone: what a former move did not get to end.
    call_host<Status>(
        migration_.destination, [key = key()](Driver& driver) { return driver.destroy(key); },
        [this](Status) { after(settings().poll, [this] { abort_step(); }); });
    return;
  }
  after(settings().poll, [this] { abort_step(); });
}

void VmMigrate::back_at_source() {
  const bool over = clock().wall_now() > operation().deadline;
  if (!migration_.reconsiders.empty() && !operation().cancel_requested && !over) {
    return begin_anew();
  }
  Vm row = vm_;
  row.state = VmState::Running;
  row.host = migration_.source;
  migration_.reconsiders.clear();
  stop_probe();
  if (attempt_.note.empty()) attempt_.note = why_aborted();
  if (dropped_) migration_.file.path.clear();
  const bool cancelled = operation().cancel_requested || attempt_.note_code == Code::Cancelled;
  const bool by_user = operation().cancel_requested;
  finish(
      to_string(Event::SourceRuns), to_string(State::Failed),
      by_user ? Outcome::Cancelled : Outcome::Failed,
      attempt_.note + "; the VM runs on '" + migration_.source.value + "' as before" + file_left_,
      std::string(
          to_string(cancelled ? Code::Cancelled : attempt_.note_code.value_or(Code::Internal))),
      [&](store::Transaction& tx) -> Status {
        if (auto done = tx.put(migration_); !done) return done;
        return put_vm(tx, clock(), row);
      });
}

std::string VmMigrate::why_aborted() const {
  return why_in(to_string(State::Aborting), "aborted");
}

}  // namespace mare::engine
