// The driver port on libvirt with QEMU (KVM where the CPU has it, TCG where not). No libvirt type
// leaves it.
//
// What survives a restart of the agent: VMs, and migrations under way, which libvirtd carries on
// with; both are found again by asking. Arrivals expected here, in STATE/arrivals: they are
// announced, late if they came meanwhile. The host's lease, in STATE/lease. What does not survive:
// how migrations out of here ended, the rounds seen so far, and the times of arrivals.
#pragma once

#include <memory>
#include <string>

#include "hypervisor/dirtylog/page_log.h"
#include "hypervisor/driver.h"
#include "orchestrator/core/log.h"

namespace mare::libvirt {

struct LibvirtOptions {
  std::string host_name;
  std::string uri = "qemu:///system";
  std::string bridge = "br0";
  std::string migration_address;  // other hosts reach libvirtd and QEMU here
  bool migration_tls = false;     // QEMU encrypts what it sends; needs certificates of its own
  Bytes memory;                   // for VMs in all, their overhead included
  double cpu_speed = 0;           // HostFacts::cpu_speed
  std::string state_dir;          // absolute; consoles are STATE/console/VM.log
  dirtylog::LogChoice dirty_log = dirtylog::LogChoice::Auto;
  std::string dirty_log_library;  // libmare-dirtylog.so, "" for none; absolute
  /// Only VMs whose name begins so are watched; "": all. Of two that watch the same VM, one takes
  /// its memory back in the middle of the other's capture, and QEMU aborts.
  std::string watched_names;
  std::string watchdog;           // mare-watchdog; "": this host holds no leases
  std::string deadman_library;    // libmare-deadman.so, "" for none; can_preload() it
  std::string deadman_file;       // of the switches in the QEMUs, with it; absolute
  std::string emulator;           // mare-qemu; "": VMs are not cloned here
  std::string template_memory;    // a tmpfs for templates' RAM, of this agent alone; "": STATE
  std::string standby_memory;     // a tmpfs for others' checkpoints, of this agent alone; "": none
  Milliseconds longest_lease{0};  // 0: as long as mared says
};

/// Unavailable when libvirtd does not answer. The first call after an installation may take a
/// minute: libvirtd asks every emulator what it can do. Announcer, clock and log must outlive the
/// driver.
Result<std::unique_ptr<Driver>> make_driver(const LibvirtOptions& options, Announcer& announcer,
                                            Clock& clock, Log& log);

}  // namespace mare::libvirt
