// The contract through real agents: gRPC with mutual TLS, libvirt and announcements behind it.
#include <sys/wait.h>

#include <cstdlib>

#include "hypervisor/remote/remote_driver.h"
#include "tests/contract/driver_contract.h"
#include "tests/contract/lab.h"
#include "tests/contract/lease_contract.h"

namespace mare::contract {
namespace {

class RemoteHosts final : public LabHosts {
 public:
  using LabHosts::LabHosts;

  Status open() {
    for (const int index : {0, 1}) {
      remote::RemoteOptions options;
      options.name = host(index).name;
      options.address = host(index).address + ":7412";
      options.ca = (lab().state / "pki" / "ca.pem").string();
      options.certificate = (lab().state / "pki" / "controller.pem").string();
      options.key = (lab().state / "pki" / "controller.key").string();
      auto made = remote::make_remote_driver(options, clock(), log());
      if (!made) return made.error();
      drivers_.at(static_cast<std::size_t>(index)) = std::move(*made);
    }
    return ok_status();
  }
  Driver& driver(int host) override { return *drivers_.at(static_cast<std::size_t>(host)); }
  void restart_agent(int index) override {
    tell_lab("kill-agent", index);
    tell_lab("start-agent", index);
    // gRPC notices the new agent at its next attempt to connect.
    for (int attempt = 0; attempt < 200 && !driver(index).facts(); ++attempt) {
      wait(Milliseconds{50});
    }
  }

 protected:
  std::string state_of(int index) const override { return host(index).agent_state; }

 private:
  void tell_lab(const std::string& verb, int index) {
    const std::string command = std::string(MARE_LAB_PROGRAM) + " " + verb + " " +
                                host(index).name + " --state '" + lab().state.string() + "' >&2";
    const int said = std::system(command.c_str());
    EXPECT_TRUE(WIFEXITED(said) && WEXITSTATUS(said) == 0) << command;
  }

  std::array<std::unique_ptr<Driver>, 2> drivers_;
};

Result<std::unique_ptr<Hosts>> make_remote_hosts() {
  auto lab = find_lab();
  if (!lab) return lab.error();
  if (!lab->agents) return make_error(Code::Unsupported, "the lab has no agents");
  auto kernel = find_kernel(*lab);
  if (!kernel) return kernel.error();
  auto hosts = std::make_unique<RemoteHosts>(*lab, *kernel);
  if (auto opened = hosts->open(); !opened) return opened.error();
  return std::unique_ptr<Hosts>(std::move(hosts));
}

INSTANTIATE_TEST_SUITE_P(Remote, DriverContract,
                         testing::Values(Backend{"remote", make_remote_hosts}), backend_name);
INSTANTIATE_TEST_SUITE_P(AgentsOnly, HostLeases,
                         testing::Values(Backend{"remote", make_remote_hosts}), backend_name);

}  // namespace
}  // namespace mare::contract
