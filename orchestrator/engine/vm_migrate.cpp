// vm.migrate: reserve, send, switch, announce, verify; and back if it can't be. The table and the
// decision after a crash are in orchestrator/model/migration_state.h; here is only the acting.
//
// One rule stands above the others: the VM's row names the host whose copy is the true one, it
// changes in the same transaction that enters Committed, and nothing else changes it. A copy
// elsewhere is ended, never resumed.
#include <algorithm>

#include "orchestrator/engine/migration_probe.h"
#include "orchestrator/engine/plan.h"
#include "orchestrator/engine/spec.h"
#include "orchestrator/engine/task.h"
#include "orchestrator/model/migration_state.h"

namespace mare::engine {
namespace {

using State = MigrationState;
using Event = MigrationEvent;

constexpr auto kProgressEvery = std::chrono::milliseconds{500};
// A host that looks odd for a moment (the source's copy not yet gone, the destination's just
// running) is looked at this often before a person is asked.
constexpr int kLooks = 20;
constexpr auto kLookAgain = std::chrono::milliseconds{500};
constexpr auto kVerifyWithin = std::chrono::seconds{20};

class VmMigrate final : public Task {
 public:
  using Task::Task;

  void enter(bool recovered) override {
    if (!load()) return again();
    switch (state()) {
      case State::Planned:
        return reserve();
      case State::Reserved:
        return prepare();
      case State::PreCopying:
      case State::Switching:
        // After a restart the sending may go on by itself, may be over, or never began.
        return recovered ? look() : send();
      case State::Aborting:
        return abort_step();
      case State::Committed:
        return complete();
      case State::Done:
      case State::Failed:
      case State::NeedsOperator:
        return;
    }
  }

  void on_cancel() override {
    // Before the source is known to send, a cancel could overtake the beginning and be lost: the
    // first poll asks for it then.
    if (state() == State::PreCopying && sends_) cancel_sending("cancelled by the user");
  }

 private:
  State state() const {
    const auto parsed = migration_state_from(operation().state);
    MARE_ASSERT(parsed.has_value());
    return *parsed;
  }

  /// Reads the rows that everything below needs; they do not change while this operation holds the
  /// VM.
  bool load() {
    auto row = vm(VmId{operation().target});
    auto record = query<Migration>(
        store(), [&](const store::Reader& r) { return r.migration(operation().id); });
    if (!row || !record) return false;
    vm_ = *row;
    migration_ = *record;
    return true;
  }

  VmKey key() const { return {vm_.id, vm_.uuid}; }
  bool step(Event event, const std::string& detail, const Also& also = {}) {
    const auto to = next(state(), event);
    MARE_ASSERT(to.has_value());
    return commit(to_string(event), to_string(*to), detail, also);
  }

  // --- Planned, Reserved: nothing was sent, so a restart just goes on
  // ---------------------------------------

  void reserve() {
    if (operation().cancel_requested) return refuse(make_error(Code::Cancelled, "cancelled"));
    auto spec = find_spec(store(), context_.ports.images, settings(), vm_);
    if (!spec) return refuse(spec.error());
    Error refusal;
    const auto also = [&](store::Transaction& tx) -> Status {
      auto rooms = rooms_now(tx, {migration_.destination}, {});
      if (!rooms) return rooms.error();
      auto place = policy::place(*rooms, vm_.memory);
      if (!place) {
        refusal = place.error();
        return refusal;
      }
      Vm moving = vm_;
      moving.state = VmState::Migrating;
      if (auto done = put_vm(tx, clock(), moving); !done) return done;
      return tx.reserve(
          {operation().id, migration_.destination, vm_.memory + rooms->front().vm_overhead});
    };
    if (step(Event::Reserve, "on " + migration_.destination.value, also)) {
      vm_.state = VmState::Migrating;
      return prepare();
    }
    if (!refusal.message.empty()) refuse(refusal);
  }

  /// From Planned only: nothing was touched.
  void refuse(const Error& error) {
    finish(to_string(Event::Abort), to_string(State::Failed), outcome_of(error), error.text(),
           std::string(to_string(error.code)));
  }

  Result<MigrationTicket> ticket() {
    auto spec = find_spec(store(), context_.ports.images, settings(), vm_);
    if (!spec) return spec.error();
    return MigrationTicket{operation().id, *spec, migration_.bandwidth_limit,
                           migration_.downtime_limit};
  }

  void prepare() {
    if (operation().cancel_requested) return abort(make_error(Code::Cancelled, "cancelled"));
    auto made = ticket();
    if (!made) return abort(made.error());
    call_host<Result<IncomingEndpoint>>(
        migration_.destination,
        [ticket = *made](Driver& driver) { return driver.prepare_incoming(ticket); },
        [this](Result<IncomingEndpoint> endpoint) {
          if (!endpoint) {
            return abort(endpoint.error().during("host '" + migration_.destination.value +
                                                 "' can't receive"));
          }
          if (step(Event::StartPreCopy, "to " + endpoint->uri)) {
            endpoint_ = *endpoint;
            send();
          }
        });
  }

  // --- PreCopying, Switching
  // -------------------------------------------------------------------------------

  void send() {
    auto made = ticket();
    if (!made) return abort(made.error());
    start_probe();
    call_host<Status>(
        migration_.source,
        [ticket = *made, endpoint = endpoint_](Driver& driver) {
          return driver.begin_outgoing(ticket, endpoint);
        },
        [this](Status begun) {
          if (begun) return poll();
          // It may have begun all the same: only a look at both hosts tells.
          note_ = begun.error().during("host '" + migration_.source.value + "' can't send").text();
          note_code_ = begun.error().code;
          look();
        });
  }

  void poll() {
    call_host<Result<OutgoingStatus>>(
        migration_.source, [key = key()](Driver& driver) { return driver.outgoing(key); },
        [this](Result<OutgoingStatus> status) { polled(std::move(status)); });
  }

  void polled(Result<OutgoingStatus> status) {
    if (!status) return source_is_silent(status.error());
    silent_since_.reset();
    if (status->phase != OutgoingPhase::None) keep(*status);
    sends_ = true;
    switch (status->phase) {
      case OutgoingPhase::PreCopying:
        if (clock().wall_now() > operation().deadline && !gave_up_) {
          cancel_sending("it did not end within its time limit");
        } else if (operation().cancel_requested && !gave_up_) {
          cancel_sending("cancelled by the user");
        }
        return after(settings().poll, [this] { poll(); });
      case OutgoingPhase::Switching:
        if (state() == State::PreCopying && !step(Event::Switch, "")) return;
        return after(settings().poll / 4, [this] { poll(); });
      case OutgoingPhase::Completed:
        return look();
      case OutgoingPhase::Failed:
        note_ = "host '" + migration_.source.value + "': " + status->error;
        note_code_ = Code::Internal;
        return look();
      case OutgoingPhase::Cancelled:
        if (note_.empty()) note_ = "cancelled";
        note_code_ = gave_up_ || operation().cancel_requested ? Code::Cancelled : Code::Internal;
        return look();
      case OutgoingPhase::None:
        return look();
    }
  }

  void cancel_sending(const std::string& why) {
    gave_up_ = true;
    note_ = why;
    note_code_ = Code::Cancelled;
    call_host<Status>(
        migration_.source, [key = key()](Driver& driver) { return driver.cancel_outgoing(key); },
        [this](Status asked) {
          // Not answered: the poll goes on and asks again.
          if (!asked) gave_up_ = false;
        });
  }

  void source_is_silent(const Error& error) {
    if (!silent_since_) silent_since_ = clock().now();
    if (clock().now() - *silent_since_ > settings().unreachable_timeout) {
      note_ = "host '" + migration_.source.value + "' does not answer: " + error.text();
      note_code_ = Code::Unavailable;
      return look();
    }
    after(settings().poll * 5, [this] { poll(); });
  }

  /// Shows and keeps how far it is.
  void keep(const OutgoingStatus& status) {
    if (!status.rounds.empty()) migration_.rounds = status.rounds;
    if (status.memory_total.count > 0) migration_.memory_total = status.memory_total;
    migration_.transferred = std::max(migration_.transferred, status.transferred);
    migration_.remaining = status.remaining;
    paused_ = paused_ || status.paused_at.count() != 0;
    const double total = static_cast<double>(migration_.memory_total.count);
    const double left = static_cast<double>(status.remaining.count);
    // Remaining grows again with every round; a bar that went back would be worse than one that
    // waits.
    if (total > 0) best_ = std::max(best_, std::min(0.99, 1.0 - left / total));
    progress(best_);
    if (clock().now() - kept_at_ < kProgressEvery) return;
    kept_at_ = clock().now();
    save_record();
    save_progress();
  }

  void save_record() {
    // Figures on the way may be lost: the last ones are committed with the end.
    (void)store().write([&](store::Transaction& tx) { return tx.put(migration_); });
  }

  // --- What is true?
  // -----------------------------------------------------------------------------------------

  void look() {
    ++looks_;
    call_host<Result<VmObservation>>(
        migration_.source, [key = key()](Driver& driver) { return driver.observe(key); },
        [this](Result<VmObservation> source) {
          if (source && source->sending && state() != State::Aborting) {
            looks_ = 0;
            start_probe();
            return after(settings().poll, [this] { poll(); });
          }
          look_at_destination(std::move(source));
        });
  }

  void look_at_destination(Result<VmObservation> source) {
    call_host<Result<VmObservation>>(
        migration_.destination, [key = key()](Driver& driver) { return driver.observe(key); },
        [this, source](Result<VmObservation> destination) {
          CopyPair seen;
          if (source) seen.source = source->copy;
          if (destination) seen.destination = destination->copy;
          // A source that never stopped its copy never handed it over, whatever the silent host
          // has.
          const bool never_paused = source && source->copy == Copy::Running && note_code_ &&
                                    !paused_ && state() != State::Switching;
          if (!destination && never_paused && looks_ > kLooks / 2) {
            seen.destination = Copy::Absent;
          }
          decide(seen);
        });
  }

  void decide(CopyPair seen) {
    const Event event = mare::recover(state(), seen);
    const std::string what = "source " + std::string(to_string(seen.source)) + ", destination " +
                             std::string(to_string(seen.destination));
    switch (event) {
      case Event::DestinationRuns:
        return commit_destination();
      case Event::SourceRuns:
        return back_at_source();
      case Event::Abort:
        if (state() == State::Aborting) return abort_again(seen);
        return abort_after_look(what);
      case Event::Ambiguous:
      case Event::Reserve:
      case Event::StartPreCopy:
      case Event::Switch:
      case Event::Announced:
        break;
    }
    const bool unknown = seen.source == Copy::Unknown || seen.destination == Copy::Unknown;
    const bool patient = unknown ? looking_for() < settings().unreachable_timeout : looks_ < kLooks;
    if (patient) {
      after(kLookAgain, [this] {
        if (state() == State::Aborting) return abort_step();
        look();
      });
      return;
    }
    ask_operator(seen, what);
  }

  MonotonicTime looking_for() {
    if (!looking_since_) looking_since_ = clock().now();
    return clock().now() - *looking_since_;
  }

  void abort_after_look(const std::string& what) {
    if (note_.empty()) note_ = "the sending ended without a result (" + what + ")";
    abort(make_error(note_code_.value_or(Code::Internal), note_));
  }

  void ask_operator(CopyPair seen, const std::string& what) {
    Vm row = vm_;
    const bool dead = seen.source == Copy::Absent && seen.destination == Copy::Absent;
    // With no copy anywhere there is nothing to double: it may be started again at once.
    row.state = dead ? VmState::Failed : VmState::Lost;
    if (dead) row.host.reset();
    row.reason = dead ? "its copies are gone from both hosts" : "migration unclear: " + what;
    const std::string reason =
        row.reason + (note_.empty() ? "" : "; " + note_) +
        (dead ? "; start it again with 'mare vm start'"
              : "; look at both hosts, end one copy, then 'mare vm stop --force'");
    stop_probe();
    finish(to_string(Event::Ambiguous), to_string(State::NeedsOperator), Outcome::NeedsOperator,
           reason, std::string(to_string(Code::OutcomeUnknown)),
           [&](store::Transaction& tx) -> Status {
             if (auto done = tx.put(migration_); !done) return done;
             return put_vm(tx, clock(), row);
           });
  }

  // --- Aborting: the destination's copy goes first, then the source goes on
  // -----------------------------------

  void abort(const Error& error) {
    note_ = error.text();
    note_code_ = error.code;
    looks_ = 0;
    looking_since_.reset();
    if (step(Event::Abort, note_)) abort_step();
  }

  void abort_step() {
    call_host<Status>(
        migration_.source, [key = key()](Driver& driver) { return driver.cancel_outgoing(key); },
        [this](Status) { wait_until_quiet(); });
  }

  void wait_until_quiet() {
    call_host<Result<VmObservation>>(
        migration_.source, [key = key()](Driver& driver) { return driver.observe(key); },
        [this](Result<VmObservation> source) {
          if (source && source->sending) {
            return after(settings().poll, [this] { abort_step(); });
          }
          discard_at_destination();
        });
  }

  void discard_at_destination() {
    // Leaves a copy that runs: then the switch won the race, and the look below finds it.
    call_host<Status>(
        migration_.destination,
        [key = key()](Driver& driver) { return driver.discard_incoming(key); },
        [this](Status) { look(); });
  }

  /// The destination's copy is known not to run; the source's may be paused still.
  void abort_again(CopyPair seen) {
    if (seen.source == Copy::Paused && seen.destination == Copy::Absent) {
      call_host<Status>(
          migration_.source, [key = key()](Driver& driver) { return driver.resume(key); },
          [this](Status) { after(settings().poll, [this] { look(); }); });
      return;
    }
    after(settings().poll, [this] { abort_step(); });
  }

  void back_at_source() {
    Vm row = vm_;
    row.state = VmState::Running;
    row.host = migration_.source;
    stop_probe();
    if (note_.empty()) note_ = why_aborted();
    const bool cancelled = operation().cancel_requested || note_code_ == Code::Cancelled;
    const bool by_user = operation().cancel_requested;
    finish(
        to_string(Event::SourceRuns), to_string(State::Failed),
        by_user ? Outcome::Cancelled : Outcome::Failed,
        note_ + "; the VM runs on '" + migration_.source.value + "' as before",
        std::string(to_string(cancelled ? Code::Cancelled : note_code_.value_or(Code::Internal))),
        [&](store::Transaction& tx) -> Status {
          if (auto done = tx.put(migration_); !done) return done;
          return put_vm(tx, clock(), row);
        });
  }

  std::string why_aborted() const {
    auto lines = query<std::vector<OperationEvent>>(
        store(), [&](const store::Reader& r) { return r.history(operation().id); });
    if (!lines) return lines.error().text();
    for (auto line = lines->rbegin(); line != lines->rend(); ++line) {
      if (line->to == to_string(State::Aborting)) return line->detail;
    }
    return "aborted";
  }

  // --- Committed: announce, verify, tidy up
  // -------------------------------------------------------------------

  void commit_destination() {
    Vm row = vm_;
    row.state = VmState::Running;
    row.host = migration_.destination;
    const auto also = [&](store::Transaction& tx) -> Status {
      if (auto done = tx.put(migration_); !done) return done;
      // The row's host accounts for its memory from here on.
      if (auto done = tx.release(operation().id); !done) return done;
      return put_vm(tx, clock(), row);
    };
    if (!step(Event::DestinationRuns, "", also)) return;
    vm_ = row;
    complete();
  }

  void complete() {
    // Its copy at the source is paused at best: the destination's runs, so that one must go.
    // Harmless if gone.
    call_host<Status>(
        migration_.source, [key = key()](Driver& driver) { return driver.destroy(key); },
        [this](Status ended) {
          // A silent source is cleaned by the host monitor when it is back.
          if (!ended) log().warn("engine", operation().id.value + ": " + ended.error().text());
          announce();
        });
  }

  void announce() {
    auto spec = find_spec(store(), context_.ports.images, settings(), vm_);
    if (!spec) return verify("not announced: " + spec.error().text());
    // The destination's agent announced by itself when the copy began to run; if it was restarted
    // in that very moment, nobody did. Only then it is asked to.
    call_host<Result<ArrivalReport>>(
        migration_.destination,
        [spec = *spec](Driver& driver) -> Result<ArrivalReport> {
          auto report = driver.arrival(spec.key());
          if (!report || report->announced_at.count() != 0) return report;
          if (auto sent = driver.announce(spec); !sent) return sent.error();
          return driver.arrival(spec.key());
        },
        [this](Result<ArrivalReport> report) {
          if (report) return arrived(*report);
          verify("not announced: " + report.error().text());
        });
  }

  void arrived(const ArrivalReport& report) {
    migration_.downtime_hypervisor = report.downtime;
    migration_.total_time = report.total_time;
    if (report.transferred.count > 0) migration_.transferred = report.transferred;
    migration_.remaining = Bytes{0};
    migration_.announcements = report.announcements;
    migration_.switched = report.resumed_at;
    if (report.announced_at.count() != 0 && report.resumed_at.count() != 0) {
      migration_.announce_delay = report.announced_at - report.resumed_at;
    }
    console_ = report.seen.console_first_fault;
    verify("");
  }

  /// A migration is good when the guest is, not when a call returned.
  void verify(const std::string& trouble) {
    auto guest = find_guest(store(), vm_);
    if (!guest) return done(guest.error().text());
    call<Result<GuestHello>>(
        "guest/" + vm_.id.value,
        [&guests = context_.ports.guests, &clock = clock(),
         guest = *guest]() -> Result<GuestHello> {
          auto hello = guests.hello(guest);
          if (hello) (void)guests.set_clock(guest, clock.wall_now());
          return hello;
        },
        [this, trouble](Result<GuestHello> hello) {
          if (!hello) {
            if (in_state() < kVerifyWithin) {
              after(std::chrono::milliseconds{100}, [this, trouble] { verify(trouble); });
              return;
            }
            return done("the guest does not answer: " + hello.error().text());
          }
          if (hello->kernel_faults > 0) {
            return done("the guest's kernel complains: " + hello->kernel_first_fault);
          }
          if (hello->taint != 0) {
            return done("the guest's kernel is tainted (" + std::to_string(hello->taint) + ")");
          }
          if (!console_.empty()) return done("the guest's console complains: " + console_);
          done(trouble);
        });
  }

  void done(const std::string& trouble) {
    stop_probe();
    const auto outcome = trouble.empty() ? Outcome::Succeeded : Outcome::Failed;
    const std::string where = "the VM runs on '" + migration_.destination.value + "'";
    finish(to_string(Event::Announced), to_string(State::Done), outcome,
           trouble.empty() ? where : where + ", but " + trouble,
           trouble.empty() ? "" : std::string(to_string(Code::Internal)),
           [&](store::Transaction& tx) { return tx.put(migration_); });
  }

  // --- What guest and peers see
  // -------------------------------------------------------------------------------

  void start_probe() {
    if (probe_) return;
    auto guest = find_guest(store(), vm_);
    if (!guest) return;
    probe_ = MigrationProbe::start(context_, *guest);
  }

  void stop_probe() {
    if (!probe_) return;
    const auto report = probe_->stop();
    probe_.reset();
    if (!report || report->answered < 2) return;
    migration_.downtime_peers = report->longest_silence;
    migration_.downtime_guest = report->clock_lost;
  }

  static Outcome outcome_of(const Error& error) {
    return error.code == Code::Cancelled ? Outcome::Cancelled : Outcome::Failed;
  }

  Vm vm_;
  Migration migration_;
  IncomingEndpoint endpoint_;
  std::shared_ptr<MigrationProbe> probe_;
  std::string note_;  // why it is ending, when it ends badly
  std::optional<Code> note_code_;
  std::string console_;
  bool sends_ = false;    // the source answered that it does
  bool gave_up_ = false;  // the source was asked to stop
  bool paused_ = false;   // the source's copy was seen paused
  double best_ = 0;
  int looks_ = 0;
  std::optional<MonotonicTime> silent_since_;
  std::optional<MonotonicTime> looking_since_;
  MonotonicTime kept_at_{0};
};

}  // namespace

std::shared_ptr<Task> make_vm_migrate(Context& context, const Operation& operation) {
  return std::make_shared<VmMigrate>(context, operation);
}

}  // namespace mare::engine
