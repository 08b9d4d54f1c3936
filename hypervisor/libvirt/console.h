// The consoles of VMs on this host: one file a VM, begun anew with each copy that starts here.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "orchestrator/core/result.h"

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
  explicit Consoles(std::string directory) : directory_(std::move(directory)) {}

  Status make_directory() const;
  std::string path(const std::string& vm) const { return directory_ + "/" + vm + ".log"; }
  /// Puts the last copy's console aside as VM.log.1.
  void begin(const std::string& vm);
  /// Faults since this copy's start here; reads only what was written since the last call.
  ConsoleFaults scan(const std::string& vm);

 private:
  struct Scan {
    std::uint64_t offset = 0;
    std::string tail;  // an unfinished line
    ConsoleFaults faults;
  };
  std::string directory_;
  std::mutex mutex_;
  std::map<std::string, Scan> scans_;
};

}  // namespace mare::libvirt
