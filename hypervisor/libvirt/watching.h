// The dirty-page log of the VMs of this host: finds their QEMUs, feeds the watcher, and answers
// memory_profile().
//
// Threads: one of its own, between start() and stop(), which asks libvirt where a VM is and reads
// its log. watch(), back_off() and forget() may be called from any thread, libvirt's events
// included: only back_off() waits, for a reading under way.
#pragma once

#include <libvirt/libvirt.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "hypervisor/dirtylog/cpu_meter.h"
#include "hypervisor/dirtylog/watcher.h"
#include "hypervisor/driver.h"
#include "orchestrator/core/log.h"

namespace mare::libvirt {

struct VmProcess {
  pid_t pid = 0;
  Bytes memory;
};

/// Where the libvirtd behind a URI keeps its QEMUs' pid files. Pure.
std::string pid_directory(const std::string& uri);
/// A VM's QEMU, by libvirtd's pid file. The uuid is looked for in the process's arguments: a file
/// may have outlived its process. NotFound.
Result<pid_t> find_qemu(const std::string& directory, const VmKey& vm);
/// The QEMU of a VM that runs here and is on no way: FailedPrecondition while it comes, goes or
/// stands still, NotFound when it is not here. `expected`: it is to come by migration and has not
/// run here. `names`: those of others begin otherwise, and are NotFound.
Result<VmProcess> locate(virConnectPtr connection, const std::string& uuid, bool expected,
                         const std::string& directory, const std::string& names);

class Watching {
 public:
  /// Asked on the thread of its own; may take as long as libvirt does.
  using Locate = std::function<Result<VmProcess>(const std::string& uuid)>;

  /// `library`: libmare-dirtylog.so, "" for none.
  Watching(dirtylog::LogChoice choice, std::string library, Locate locate, Clock& clock, Log& log);

  void start();
  /// It asks for nothing any more once this returns. Not for a callback of libvirt to call.
  void stop();

  /// "pagemap-scan", "page-sampling", or "" when nothing is watched on this host.
  std::string source() const;
  /// Why VMs are not watched exactly; "" when they are.
  const std::string& why_not_exact() const { return why_not_exact_; }
  /// What new VMs are to preload, "" when they need not.
  std::string preload() const { return why_not_exact_.empty() ? library_ : ""; }

  /// Of a clone that is about to run: only pages that it touches are to be mapped, not their
  /// neighbours in its template's file. Best effort: it costs memory on the books, no more.
  void prepare(const VmProcess& process) const;
  void watch(const std::string& uuid);
  /// It has just come to run here: what is open of it is of a process that ended.
  void arrived(const std::string& uuid);
  /// Every VM of ours on that libvirtd.
  void watch_all(virConnectPtr connection);
  void back_off(const std::string& uuid) { static_cast<void>(watcher_.back_off(uuid)); }
  /// Its RAM is free for QEMU's own protection once this returns: under another's, QEMU can't begin
  /// a background-snapshot, and aborts. `locate` of the constructor refuses the VM from before the
  /// call. `where`: asked where no log is open, as an agent that was killed may have left its own.
  Status give_way(const std::string& uuid, const std::function<Result<VmProcess>()>& where);
  /// It does not run here any more.
  void left(const std::string& uuid) { watcher_.left(uuid); }
  /// As Driver::look_anew().
  Milliseconds look_anew(const std::string& uuid);
  Result<MemoryProfile> profile(const VmKey& vm, const VmProcess& process);
  /// The pages that a guest that sweeps goes through, of another what it wrote lately; empty if it
  /// is not watched.
  dirtylog::PageSet swept(const std::string& uuid) const;

 private:
  dirtylog::OpenLog opener(Locate where) const;
  const std::string library_;
  const std::string why_not_exact_;
  const bool watches_;
  Clock& clock_;
  dirtylog::Watcher watcher_;
  std::atomic<int> measures_left_{4};
  dirtylog::CpuMeter cpus_;
  std::mutex mutex_;
  std::unique_ptr<dirtylog::WatcherThread> thread_;
};

}  // namespace mare::libvirt
