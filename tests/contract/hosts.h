// What the contract needs besides two drivers: a way to make VMs whose guests do something, to
// let time pass, and to look at a guest behind the driver's back. One implementation a backend.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "hypervisor/driver.h"

namespace mare::contract {

/// What a guest does once it is up: it rewrites `wws` of its memory at that rate, checks what it
/// wrote, and counts.
struct GuestPlan {
  Bytes memory = mebibytes(128);
  double dirty_bytes_per_s = 1024.0 * 1024.0;
  Bytes wws = mebibytes(4);
  /// Shows a kernel's fault on its console when fault() is called, or soon by itself.
  bool faulty = false;
};

/// Two hosts that reach each other, called 0 and 1.
class Hosts {
 public:
  virtual ~Hosts() = default;

  virtual Driver& driver(int host) = 0;
  /// What that driver takes for the name of its host.
  virtual HostId name(int host) const = 0;
  /// A VM with a name and a uuid of its own; not started.
  virtual VmSpec vm(const GuestPlan& plan) = 0;
  /// What VMs with the same plan as this one can be clones of.
  virtual TemplateSpec template_of(const VmSpec& vm) = 0;
  /// A name for a file that both hosts see; there is none of that name yet.
  virtual std::string new_file() = 0;
  /// A name of a file that can't be written.
  virtual std::string bad_file() = 0;

  virtual void wait(Milliseconds duration) = 0;
  virtual MonotonicTime now() = 0;

  /// The guest's own count as last heard from this host; nothing if it was never heard there.
  virtual std::optional<double> count(int host, const VmSpec& vm) = 0;
  virtual void fault(const VmSpec& vm) = 0;
  /// kill -9 of the agent, and a new one.
  virtual void restart_agent(int host) = 0;
};

/// Why there are no such hosts here, or the hosts.
using MakeHosts = std::function<Result<std::unique_ptr<Hosts>>()>;

struct Backend {
  std::string name;
  MakeHosts make;
};
inline void PrintTo(const Backend& backend, std::ostream* out) {
  *out << backend.name;
}

}  // namespace mare::contract
