// vm.stop: ask the guest, then end the copy.
#include "orchestrator/engine/spec.h"
#include "orchestrator/engine/task.h"

namespace mare::engine {
namespace {

class VmStop final : public Task {
 public:
  using Task::Task;

  void enter(bool /*recovered*/) override {
    VmStopState state{};
    MARE_ASSERT(state_from(operation().state, state));
    switch (state) {
      case VmStopState::Planned:
        return begin();
      case VmStopState::PoweringOff:
        return ask_guest();
      case VmStopState::Destroying:
        return destroy();
      case VmStopState::Done:
      case VmStopState::NeedsOperator:
        return;
    }
  }

 private:
  VmId id() const { return VmId{operation().target}; }

  void begin() {
    auto row = vm(id());
    if (!row) return again();
    if (!row->host) {
      row->state = VmState::Stopped;
      row->reason = "";
      finish(to_string(VmStopEvent::Gone), to_string(VmStopState::Done), Outcome::Succeeded,
             "it was not running", {},
             [&](store::Transaction& tx) { return put_vm(tx, clock(), *row); });
      return;
    }
    const bool force = operation().request == "force" || row->state != VmState::Running;
    row->state = VmState::Stopping;
    const auto also = [&](store::Transaction& tx) { return put_vm(tx, clock(), *row); };
    if (force) {
      if (commit(to_string(VmStopEvent::Destroy), to_string(VmStopState::Destroying), "", also)) {
        destroy();
      }
    } else if (commit(to_string(VmStopEvent::AskGuest), to_string(VmStopState::PoweringOff), "",
                      also)) {
      ask_guest();
    }
  }

  void ask_guest() {
    auto row = vm(id());
    if (!row) return again();
    auto guest = find_guest(store(), *row);
    if (!guest) return give_up_asking(guest.error().text());
    call<Status>(
        "guest/" + row->id.value,
        [&guests = context_.ports.guests, guest = *guest] { return guests.power_off(guest); },
        [this](Status asked) {
          if (!asked) return give_up_asking(asked.error().text());
          wait_for_end();
        });
  }

  void wait_for_end() {
    auto row = vm(id());
    if (!row) return again();
    call_host<Result<VmObservation>>(
        *row->host,
        [key = VmKey{row->id, row->uuid}](Driver& driver) { return driver.observe(key); },
        [this, row = *row](Result<VmObservation> seen) {
          if (seen && seen->copy == Copy::Absent) return gone(row);
          if (in_state() > settings().shutdown_timeout) {
            return give_up_asking("the guest did not power off in time");
          }
          after(std::chrono::milliseconds{200}, [this] { wait_for_end(); });
        });
  }

  void give_up_asking(const std::string& why) {
    if (commit(to_string(VmStopEvent::Destroy), to_string(VmStopState::Destroying), why)) {
      destroy();
    }
  }

  void destroy() {
    auto row = vm(id());
    if (!row) return again();
    call_host<Status>(
        *row->host,
        [key = VmKey{row->id, row->uuid}](Driver& driver) { return driver.destroy(key); },
        [this, row = *row](Status done) mutable {
          if (done) return gone(row);
          if (in_state() < settings().unreachable_timeout) {
            after(std::chrono::milliseconds{500}, [this] { destroy(); });
            return;
          }
          row.state = VmState::Lost;
          row.reason = "its host did not answer when it was to be stopped: " + done.error().text();
          finish(to_string(VmStopEvent::GiveUp), to_string(VmStopState::NeedsOperator),
                 Outcome::NeedsOperator, row.reason, std::string(to_string(done.error().code)),
                 [&](store::Transaction& tx) { return put_vm(tx, clock(), row); });
        });
  }

  void gone(Vm row) {
    row.state = VmState::Stopped;
    row.host.reset();
    row.reason = "";
    const auto event = to_string(VmStopEvent::Gone);
    finish(event, to_string(VmStopState::Done), Outcome::Succeeded, "", {},
           [&](store::Transaction& tx) { return put_vm(tx, clock(), row); });
  }
};

}  // namespace

std::shared_ptr<Task> make_vm_stop(Context& context, const Operation& operation) {
  return std::make_shared<VmStop>(context, operation);
}

}  // namespace mare::engine
