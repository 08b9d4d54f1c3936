// The lab's hosts for the contract: where they are, and guests of the contract's own that boot in
// a second or two and need no network.
#pragma once

#include <filesystem>
#include <mutex>

#include "orchestrator/core/log.h"
#include "orchestrator/core/rng.h"
#include "tests/contract/hosts.h"

namespace mare::contract {

struct LabHost {
  std::string name;
  std::string address;
  std::string libvirt_socket;
  std::string agent_state;
};

/// A lab that is up, as its lab.json tells.
struct Lab {
  std::filesystem::path state;
  std::filesystem::path images;
  bool agents = false;
  std::string subnet;  // "10.77"
  std::vector<LabHost> hosts;
};

/// Unsupported when MARE_LAB_STATE is not set; an error when it names no lab with two hosts.
Result<Lab> find_lab();

/// What the libvirt and the remote contract share: guests, files, real time.
class LabHosts : public Hosts {
 public:
  LabHosts(Lab lab, std::string kernel);
  ~LabHosts() override;

  HostId name(int index) const override { return HostId{host(index).name}; }
  VmSpec vm(const GuestPlan& plan) override;
  TemplateSpec template_of(const VmSpec& vm) override;
  std::string new_file() override;
  /// What the names of its VMs begin with: nobody else's do.
  static std::string names();
  std::string bad_file() override { return (files_ / "none" / "file").string(); }
  void wait(Milliseconds duration) override { clock_.sleep_for(duration); }
  MonotonicTime now() override { return clock_.now(); }
  std::optional<double> count(int host, const VmSpec& vm) override;
  void fault(const VmSpec&) override {}  // its guest was told when it was made

 protected:
  const Lab& lab() const { return lab_; }
  const LabHost& host(int index) const { return lab_.hosts.at(static_cast<std::size_t>(index)); }
  Clock& clock() { return clock_; }
  Log& log() { return log_; }
  const std::filesystem::path& files() const { return files_; }
  /// The directory that this host's agent, or driver, keeps its files in.
  virtual std::string state_of(int host) const = 0;

 private:
  Lab lab_;
  std::string kernel_;
  std::filesystem::path files_;
  SystemClock clock_;
  Log log_;
  SystemRng rng_;
  int made_ = 0;
};

/// The kernel of the lab's newest image, or MARE_CONTRACT_KERNEL.
Result<std::string> find_kernel(const Lab& lab);

}  // namespace mare::contract
