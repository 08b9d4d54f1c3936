// host.add: connect, read the host's facts, keep it.
#include "orchestrator/engine/host_facts.h"
#include "orchestrator/engine/task.h"

namespace mare::engine {
namespace {

class HostAdd final : public Task {
 public:
  using Task::Task;

  void enter(bool /*recovered*/) override {
    const HostId id{operation().target};
    auto driver = context_.ports.drivers.driver(id, operation().request);
    if (!driver) return refuse(driver.error());
    call<Result<HostFacts>>(
        "host/" + id.value, [driver = *driver] { return driver->facts(); },
        [this](Result<HostFacts> facts) { connected(std::move(facts)); });
  }

 private:
  void connected(Result<HostFacts> facts) {
    if (operation().cancel_requested) {
      return refuse(make_error(Code::Cancelled, "cancelled"));
    }
    if (!facts) {
      // An agent that is just starting deserves a moment.
      if (facts.error().code == Code::Unavailable && in_state() < std::chrono::seconds{5}) {
        after(std::chrono::milliseconds{500}, [this] { enter(false); });
        return;
      }
      return refuse(facts.error());
    }
    Host host;
    host.id = HostId{operation().target};
    host.address = operation().request;
    host.health = HostHealth::Up;
    take_facts(host, *facts, settings().checkpoints_directory);
    host.added = clock().wall_now();
    host.last_seen = host.added;
    std::string note =
        facts->live_migration ? "" : "live migration is off: " + facts->live_migration_why;
    if (!facts->cloning && !facts->cloning_why.empty()) {
      note += (note.empty() ? "" : "; ") + ("VMs boot, none is cloned: " + facts->cloning_why);
    }
    finish(to_string(HostAddEvent::Connected), to_string(HostAddState::Done), Outcome::Succeeded,
           note, {}, [&](store::Transaction& tx) { return put_host(tx, clock(), host); });
  }

  void refuse(const Error& error) {
    const auto outcome = error.code == Code::Cancelled ? Outcome::Cancelled : Outcome::Failed;
    context_.ports.drivers.forget(HostId{operation().target});
    finish(to_string(HostAddEvent::Refused), to_string(HostAddState::Failed), outcome,
           error.during("host '" + operation().target + "' at " + operation().request).text(),
           std::string(to_string(error.code)));
  }
};

}  // namespace

std::shared_ptr<Task> make_host_add(Context& context, const Operation& operation) {
  return std::make_shared<HostAdd>(context, operation);
}

}  // namespace mare::engine
