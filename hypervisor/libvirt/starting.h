// How a copy of a VM comes to run on this host without another host: booted, cloned from a
// template, or restored from a file. Memory was claimed for it before. Thread-safe as its parts
// are.
#pragma once

#include <functional>
#include <string>

#include "hypervisor/libvirt/connection.h"
#include "hypervisor/libvirt/console.h"
#include "hypervisor/libvirt/domain_xml.h"
#include "hypervisor/libvirt/libvirt_driver.h"
#include "hypervisor/libvirt/standbys.h"
#include "hypervisor/libvirt/templates.h"
#include "hypervisor/libvirt/tsc.h"
#include "hypervisor/libvirt/watching.h"

namespace mare::libvirt {

class Starting {
 public:
  struct Parts {
    Connection& connection;
    Consoles& consoles;
    Templates& templates;
    Watching& watching;
  };
  Starting(const LibvirtOptions& options, bool accelerated, Parts parts, Clock& clock)
      : options_(options),
        accelerated_(accelerated),
        tsc_khz_(accelerated ? 0 : tsc_khz(clock)),
        parts_(parts),
        clock_(clock) {}

  /// What QEMUs load here.
  Preloads preloads() const;
  DomainOptions options(const VmId& vm) const;
  /// Driver::start().
  Status boot(const VmSpec& vm);
  /// Driver::start_clone(). `hypervisor`: what this host runs now, in words.
  Status clone(const VmSpec& vm, const TemplateSpec& from, const std::string& hypervisor);
  /// Driver::restore(). `how`: running or paused, by libvirt's flags.
  Status restore(const VmSpec& vm, const std::string& path, unsigned how);
  /// Driver::load_capture() of what is kept in this host's memory: paused.
  Status map(const VmSpec& vm, const StandbyFiles& from);

 private:
  struct Launch {
    std::string xml;
    Bytes memory;
    std::function<Status(virDomainPtr)> load;
    bool runs = false;
  };
  Status launch(const VmSpec& vm, const Launch& how);
  const LibvirtOptions& options_;
  const bool accelerated_;
  const unsigned long tsc_khz_;  // that guests are told
  const Parts parts_;
  Clock& clock_;
};

}  // namespace mare::libvirt
