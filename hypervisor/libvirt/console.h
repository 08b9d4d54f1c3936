// The consoles of VMs on this host: one file a VM, begun anew with each copy that starts here.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "hypervisor/driver.h"

namespace mare::libvirt {

struct ConsoleFaults {
  int count = 0;
  std::string first;
};

/// Does a line of a guest's console tell of a sick kernel?
bool is_fault(const std::string& line);

/// Thread-safe.
class Consoles {
 public:
  Consoles(std::string directory, const Clock& clock)
      : directory_(std::move(directory)), clock_(clock) {}

  Status make_directory() const;
  std::string path(const VmId& vm) const { return directory_ + "/" + vm.value + ".log"; }
  /// Puts the last copy's console aside as VM.log.1; the new one begins with a line that says whose
  /// it is.
  Status begin(const VmKey& vm);
  /// Faults since this copy's start here, also after its end; none if the file is another
  /// incarnation's. Reads only what was written since the last call.
  ConsoleFaults scan(const VmKey& vm);

 private:
  struct Scan {
    std::string uuid;
    std::uint64_t offset = 0;
    std::string tail;  // an unfinished line
    ConsoleFaults faults;
  };
  std::string heading(const VmKey& vm) const;

  std::string directory_;
  const Clock& clock_;
  std::mutex mutex_;
  std::map<std::string, Scan> scans_;  // by the VM's name, as the files
};

}  // namespace mare::libvirt
