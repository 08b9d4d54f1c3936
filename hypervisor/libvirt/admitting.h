// Whether a VM may come to this host: the host may run VMs, none of that name is here, and there is
// memory for it; and what memory that leaves to what is kept of others. Thread-safe as its parts
// are.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hypervisor/leases/host_lease.h"
#include "hypervisor/libvirt/admission.h"
#include "hypervisor/libvirt/connection.h"
#include "hypervisor/libvirt/libvirt_driver.h"
#include "hypervisor/libvirt/standbys.h"

namespace mare::libvirt {

class Admitting {
 public:
  struct Parts {
    Connection& connection;
    Admission& admission;
    Standbys& standbys;
    leases::HostLease& lease;
  };
  using List = std::function<Result<std::vector<VmObservation>>()>;
  /// `overhead`: of each VM. `list`: Driver::list().
  Admitting(const LibvirtOptions& options, Bytes overhead, Parts parts, List list)
      : options_(options), overhead_(overhead), parts_(parts), list_(std::move(list)) {}

  /// Claims memory for a new copy; false if that incarnation runs here already. After true, or for
  /// an arrival until its end, the claim is the caller's to release.
  Result<bool> admit(const VmSpec& vm);
  /// Promised: to VMs, those that are coming included.
  Result<Standbys::Room> room() const;
  Standbys::IsHere is_here() const;
  /// Why another copy can't come.
  Error has_copy(const VmObservation& seen) const;

 private:
  Result<bool> check(const VmSpec& vm, Bytes needed, std::map<std::string, Bytes>& used) const;
  Status check_name_is_free(const VmSpec& vm) const;

  const LibvirtOptions& options_;
  const Bytes overhead_;
  const Parts parts_;
  const List list_;
};

}  // namespace mare::libvirt
