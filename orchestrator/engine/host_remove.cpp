// host.remove: forget a host that runs nothing of ours.
#include "orchestrator/engine/task.h"

namespace mare::engine {
namespace {

class HostRemove final : public Task {
 public:
  using Task::Task;

  void enter(bool /*recovered*/) override {
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
      finish(to_string(HostRemoveEvent::Refused), to_string(HostRemoveState::Failed),
             Outcome::Failed, refusal.text(), std::string(to_string(refusal.code)));
    }
  }

 private:
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
