// host.remove: forget a host that runs nothing of ours. What an operation left there while the host
// was silent is ended first: a host that is forgotten is never asked again. One that does not
// answer may be gone for ever, and is forgotten with what it may have.
#include "orchestrator/engine/task.h"

namespace mare::engine {
namespace {

class HostRemove final : public Task {
 public:
  using Task::Task;

  void enter(bool /*recovered*/) override {
    using Copies = Result<std::vector<VmObservation>>;
    call_host<Copies>(
        HostId{operation().target},
        [](Driver& driver) {
          auto copies = driver.list();
          // Nobody would tell it to forget what it keeps in its memory for others.
          if (copies) (void)driver.keep_standby({});
          return copies;
        },
        [this](Copies copies) {
          for (const auto& copy : copies ? *copies : std::vector<VmObservation>{}) {
            if (copy.copy != Copy::Absent && is_ours(copy)) return refuse(left_over(copy));
          }
          remove();
        });
  }

 private:
  bool is_ours(const VmObservation& copy) const {
    auto known = query<bool>(store(), [&](const store::Reader& r) -> Result<bool> {
      if (r.vm(copy.key.id)) return true;
      return r.has_ended(copy.key.uuid);
    });
    return !known || *known;
  }

  Error left_over(const VmObservation& copy) const {
    return make_error(Code::FailedPrecondition,
                      "host '" + operation().target + "' still has a copy of VM '" +
                          copy.key.id.value + "' (" + std::string(to_string(copy.copy)) + ")",
                      "what was left behind there is ended by itself: try again in a moment");
  }

  void refuse(const Error& why) {
    finish(to_string(HostRemoveEvent::Refused), to_string(HostRemoveState::Failed), Outcome::Failed,
           why.text(), std::string(to_string(why.code)));
  }

  void remove() {
    const HostId id{operation().target};
    // Looked at again inside the transaction: a VM may have been placed there since the request.
    Error refusal;
    const bool removed =
        finish(to_string(HostRemoveEvent::Removed), to_string(HostRemoveState::Done),
               Outcome::Succeeded, "", {}, [&](store::Transaction& tx) -> Status {
                 auto busy = check(tx, id);
                 if (!busy) {
                   refusal = busy.error();
                   return busy;
                 }
                 if (auto done = tx.erase(id); !done) return done;
                 return emit(tx, clock(), "host", id.value, "host.removed", "{}");
               });
    if (removed) {
      context_.ports.drivers.forget(id);
    } else if (!refusal.message.empty()) {
      refuse(refusal);
    }
  }

  static Status check(const store::Transaction& tx, const HostId& id) {
    auto vms = tx.vms_on(id);
    if (!vms) return vms.error();
    auto reservations = tx.reservations();
    if (!reservations) return reservations.error();
    bool promised = false;
    for (const auto& reservation : *reservations) promised |= reservation.host == id;
    if (vms->empty() && !promised) return ok_status();
    return make_error(Code::FailedPrecondition,
                      "host '" + id.value + "' still has " + std::to_string(vms->size()) + " VMs",
                      "drain it first with 'mare host drain " + id.value + "'");
  }
};

}  // namespace

std::shared_ptr<Task> make_host_remove(Context& context, const Operation& operation) {
  return std::make_shared<HostRemove>(context, operation);
}

}  // namespace mare::engine
