// vm.start: place, create, wait until the guest answers.
#include "orchestrator/engine/plan.h"
#include "orchestrator/engine/quotas.h"
#include "orchestrator/engine/spec.h"
#include "orchestrator/engine/task.h"
#include "orchestrator/engine/templates.h"

namespace mare::engine {
namespace {

// A clone answers within a second: it is worth looking often.
constexpr auto kLookForClone = std::chrono::milliseconds{20};
constexpr auto kLookForGuest = std::chrono::milliseconds{200};

class VmStart final : public Task {
 public:
  using Task::Task;

  void enter(bool /*recovered*/) override {
    VmStartState state{};
    MARE_ASSERT(state_from(operation().state, state));
    switch (state) {
      case VmStartState::Planned:
        return place();
      case VmStartState::Placed:
        return create();
      case VmStartState::Booting:
        return wait_for_guest();
      case VmStartState::Cleaning:
        return clean();
      case VmStartState::Done:
      case VmStartState::Failed:
      case VmStartState::NeedsOperator:
        return;
    }
  }

 private:
  VmId id() const { return VmId{operation().target}; }

  void place() {
    if (operation().cancel_requested) return fail_planned(make_error(Code::Cancelled, "cancelled"));
    Error refusal;
    auto choose = [&](store::Transaction& tx) -> Status {
      auto row = tx.vm(id());
      if (!row) return row.error();
      auto pool = tx.pool(row->pool);
      if (!pool) return pool.error();
      std::vector<HostId> allowed = pool->hosts;
      if (operation().request != "{}") allowed = {HostId{operation().request}};
      auto rooms = rooms_now(tx, allowed, {});
      if (!rooms) return rooms.error();
      auto grant = grant_of(tx, pool->project);
      if (!grant) return grant.error();
      auto host = place_granted(*grant, *rooms, row->memory);
      if (!host) {
        refusal = host.error();
        return host.error();
      }
      row->host = *host;
      row->uuid = make_uuid(context_.ports.rng);
      row->state = VmState::Starting;
      row->reason = "";
      return put_vm(tx, clock(), *row);
    };
    if (commit(to_string(VmStartEvent::Place), to_string(VmStartState::Placed), "", choose)) {
      return create();
    }
    if (!refusal.message.empty()) fail_planned(refusal);
  }

  void fail_planned(const Error& error) {
    const auto outcome = error.code == Code::Cancelled ? Outcome::Cancelled : Outcome::Failed;
    finish(to_string(VmStartEvent::Abort), to_string(VmStartState::Failed), outcome, error.text(),
           std::string(to_string(error.code)));
  }

  void create() {
    if (operation().cancel_requested) return abort(make_error(Code::Cancelled, "cancelled"));
    auto row = vm(id());
    if (!row) return again();
    auto spec = find_start_spec(store(), context_.ports.images, settings(), *row);
    if (!spec) return abort(spec.error());
    std::string why_not;
    if (!settings().clones) why_not = "clones are off";
    if (!context_.templates->trusts(*row->host, spec->from)) why_not = "an earlier clone failed";
    call_host<WarmStart>(
        *row->host,
        [spec = *spec, why_not](Driver& driver) {
          return why_not.empty() ? start_warm(driver, spec) : start_cold(driver, spec, why_not);
        },
        [this, host = *row->host, from = spec->from](const WarmStart& started) {
          if (started.done) return created(host, from, started);
          // Whether the copy is there is unknown: starting is idempotent, so ask again for a while.
          const Code code = started.done.error().code;
          const bool unsure = code == Code::OutcomeUnknown || code == Code::Unavailable;
          if (unsure && in_state() < settings().unreachable_timeout) {
            after(std::chrono::milliseconds{500}, [this] { create(); });
            return;
          }
          abort(started.done.error().during("host '" + host.value + "'"));
        });
  }

  void created(const HostId& host, const TemplateSpec& from, const WarmStart& started) {
    cloned_ = started.cloned;
    if (started.no_template) wanted_ = from;
    const std::string how = started.cloned               ? ", as a clone"
                            : started.why_booted.empty() ? ""
                                                         : ", booted: " + started.why_booted;
    if (commit(to_string(VmStartEvent::Created), to_string(VmStartState::Booting),
               "on " + host.value + how)) {
      wait_for_guest();
    }
  }

  /// The clone came to nothing, in whatever way: the VM boots, as without one.
  void boot_instead(const Vm& row, const std::string& why) {
    cloned_ = false;
    auto spec = find_start_spec(store(), context_.ports.images, settings(), row);
    if (!spec) return abort(spec.error());
    context_.templates->distrust(*row.host, spec->from, "VM '" + row.id.value + "': " + why);
    call_host<Status>(
        *row.host,
        [vm = spec->vm](Driver& driver) -> Status {
          if (auto gone = driver.destroy(vm.key()); !gone) return gone;
          return driver.start(vm);
        },
        [this, host = *row.host](const Status& started) {
          if (!started) return abort(started.error().during("host '" + host.value + "'"));
          wait_for_guest();
        });
  }

  void wait_for_guest() {
    if (operation().cancel_requested) return abort(make_error(Code::Cancelled, "cancelled"));
    auto row = vm(id());
    if (!row) return again();
    auto guest = find_guest(store(), *row);
    if (!guest) return abort(guest.error());
    call<Result<GuestHello>>(
        "guest/" + row->id.value,
        [&guests = context_.ports.guests, &wall = clock(), guest = *guest] {
          auto hello = guests.hello(guest);
          // A clone's clock stands where its template's stood. That one can't be set is no reason
          // to do without the guest.
          if (hello) (void)guests.set_clock(guest, wall.wall_now());
          return hello;
        },
        [this, row = *row](Result<GuestHello> hello) {
          if (hello) return ready(row);
          if (cloned_ && in_state() > settings().clone_timeout) {
            return boot_instead(row, "its clone did not answer: " + hello.error().message);
          }
          if (in_state() > settings().boot_timeout) {
            return abort(
                make_error(Code::Unavailable,
                           "the guest did not answer within " +
                               std::to_string(static_cast<int>(settings().boot_timeout.count())) +
                               " s: " + hello.error().message,
                           "see its console log on host '" + row.host->value + "'"));
          }
          look(row);
        });
  }

  /// A guest that panicked at boot need not be waited for.
  void look(const Vm& row) {
    call_host<Result<VmObservation>>(
        *row.host, [key = VmKey{row.id, row.uuid}](Driver& driver) { return driver.observe(key); },
        [this, row](Result<VmObservation> seen) {
          const bool ended = seen && seen->copy == Copy::Absent;
          if (ended && cloned_) return boot_instead(row, "its clone ended");
          if (ended) {
            return abort(make_error(
                Code::Internal,
                "the VM ended while it booted" + (seen->console_first_fault.empty()
                                                      ? std::string()
                                                      : ": " + seen->console_first_fault),
                "see its console log on the host"));
          }
          after(cloned_ ? kLookForClone : kLookForGuest, [this] { wait_for_guest(); });
        });
  }

  void ready(Vm row) {
    if (wanted_) context_.templates->want(*row.host, *wanted_);
    row.state = VmState::Running;
    row.started = clock().wall_now();
    finish(to_string(VmStartEvent::Ready), to_string(VmStartState::Done), Outcome::Succeeded,
           "on " + row.host->value, {},
           [&](store::Transaction& tx) { return put_vm(tx, clock(), row); });
  }

  void abort(const Error& error) {
    // The reason is kept in the history: the row's own reason is for the end.
    if (commit(to_string(VmStartEvent::Abort), to_string(VmStartState::Cleaning), error.text())) {
      clean();
    }
  }

  /// Why it is being cleaned up, from the history, so that a restart knows it too.
  std::string why() const { return why_in(to_string(VmStartState::Cleaning), ""); }

  void clean() {
    auto row = vm(id());
    if (!row) return again();
    call_host<Status>(
        *row->host,
        [key = VmKey{row->id, row->uuid}](Driver& driver) { return driver.destroy(key); },
        [this, row = *row](Status gone) mutable {
          if (gone) return cleaned(row);
          if (in_state() < settings().unreachable_timeout) {
            after(std::chrono::milliseconds{500}, [this] { clean(); });
            return;
          }
          row.state = VmState::Lost;
          row.reason = "a copy may be on '" + row.host->value + "': " + gone.error().text();
          finish(to_string(VmStartEvent::GiveUp), to_string(VmStartState::NeedsOperator),
                 Outcome::NeedsOperator, why() + "; " + row.reason,
                 std::string(to_string(gone.error().code)),
                 [&](store::Transaction& tx) { return put_vm(tx, clock(), row); });
        });
  }

  void cleaned(Vm row) {
    const bool cancelled = operation().cancel_requested;
    row.state = cancelled ? VmState::Stopped : VmState::Failed;
    row.reason = why();
    row.host.reset();
    finish(to_string(VmStartEvent::Gone), to_string(VmStartState::Failed),
           cancelled ? Outcome::Cancelled : Outcome::Failed, row.reason,
           std::string(to_string(cancelled ? Code::Cancelled : Code::Internal)),
           [&](store::Transaction& tx) { return put_vm(tx, clock(), row); });
  }

  // Of this process alone: after a crash a clone is waited for as for any VM.
  bool cloned_ = false;
  std::optional<TemplateSpec> wanted_;
};

}  // namespace

std::shared_ptr<Task> make_vm_start(Context& context, const Operation& operation) {
  return std::make_shared<VmStart>(context, operation);
}

}  // namespace mare::engine
