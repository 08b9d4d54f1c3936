// The contract on simulated hosts, on a clock that stands still but for wait().
#include "hypervisor/sim/sim_cluster.h"
#include "orchestrator/core/rng.h"
#include "tests/contract/driver_contract.h"
#include "tests/contract/lease_contract.h"

namespace mare::contract {
namespace {

class SimHosts final : public Hosts {
 public:
  SimHosts() : rng_(1), cluster_(clock_, rng_) {
    for (const int host : {0, 1}) {
      const auto added = cluster_.add_host(id(host), {.memory = mebibytes(1024)});
      MARE_ASSERT(added.ok());
      drivers_[static_cast<std::size_t>(host)] = sim::make_sim_driver(cluster_, id(host));
    }
  }
  ~SimHosts() override {
    for (const auto& violation : cluster_.check_invariants()) ADD_FAILURE() << violation.what;
  }

  Driver& driver(int host) override { return *drivers_.at(static_cast<std::size_t>(host)); }
  HostId name(int host) const override { return id(host); }
  VmSpec vm(const GuestPlan& plan) override {
    ++made_;
    VmSpec spec;
    spec.id = VmId{"ct-" + std::to_string(made_)};
    spec.uuid = make_uuid(rng_);
    spec.memory = plan.memory;
    cluster_.set_vm_model({.dirty_bytes_per_s = plan.dirty_bytes_per_s, .wws = plan.wws});
    return spec;
  }
  TemplateSpec template_of(const VmSpec& vm) override {
    return {vm.kernel, vm.initrd, vm.kernel_args + " mare.template", vm.memory, vm.vcpus};
  }
  std::string new_file() override { return "/save/" + std::to_string(++files_); }
  std::string bad_file() override { return ""; }
  void wait(Milliseconds duration) override { clock_.advance(duration); }
  MonotonicTime now() override { return clock_.now(); }
  std::optional<double> count(int host, const VmSpec& vm) override {
    const Copy copy = cluster_.copy_on(id(host), vm.id);
    if (copy != Copy::Running && copy != Copy::Paused) return std::nullopt;
    const auto progress = cluster_.guest_progress(vm.id);
    return progress ? std::optional<double>(progress->count()) : std::nullopt;
  }
  void fault(const VmSpec& vm) override {
    const auto done = cluster_.oops_guest(vm.id);
    EXPECT_TRUE(is_ok(done));
  }
  void restart_agent(int host) override {
    EXPECT_TRUE(is_ok(cluster_.restart_agent(id(host), Milliseconds{0})));
  }

 private:
  static HostId id(int host) { return HostId{"h" + std::to_string(host + 1)}; }

  ManualClock clock_;
  SeededRng rng_;
  sim::SimCluster cluster_;
  std::array<std::unique_ptr<Driver>, 2> drivers_;
  int made_ = 0;
  int files_ = 0;
};

Result<std::unique_ptr<Hosts>> make_sim_hosts() {
  return std::unique_ptr<Hosts>(std::make_unique<SimHosts>());
}

INSTANTIATE_TEST_SUITE_P(Sim, DriverContract, testing::Values(Backend{"sim", make_sim_hosts}),
                         backend_name);
INSTANTIATE_TEST_SUITE_P(Sim, HostLeases, testing::Values(Backend{"sim", make_sim_hosts}),
                         backend_name);

}  // namespace
}  // namespace mare::contract
