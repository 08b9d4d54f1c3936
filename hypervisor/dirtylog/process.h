// Another process as /proc shows it: its descriptors, its guest RAM, its vCPUs' time. Linux only.
//
// A pid may be given to another process at any moment. So a Process holds a pidfd, and everything
// read through its pid counts only if the process still lives afterwards.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orchestrator/core/fd.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"

namespace mare::dirtylog {

inline constexpr std::uint64_t kPage = 4096;

/// "what: the system's words for errno"
std::string system_text(std::string_view what);

/// One line of /proc/PID/maps.
struct Mapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::string permissions;  // "rw-p"
  std::string path;         // "" for anonymous memory
  std::uint64_t size() const { return end - start; }
  /// Of a file: pages that were not touched are not empty.
  bool is_file() const { return path.starts_with('/') && !path.starts_with("/memfd:"); }
};
/// Pure. Lines that are none are left out.
std::vector<Mapping> parse_maps(std::string_view text);

/// Where a guest's RAM is in its QEMU: one run of addresses. Pure. NotFound if there is none.
///
/// QEMU maps the RAM of a PC as one block of exactly the guest's memory, anonymous or (for shared
/// RAM) of a memfd, readable and writable, never executable: code that TCG translates is, and lies
/// in the only other mapping of such a size. The kernel may show the block in pieces (protection
/// and advice differ by part) or as one with a neighbour. So touching pieces of one kind are put
/// together; a run of exactly the size is taken, else the smallest larger one.
///
/// A VM that is, or was, a clone has two of exactly the size: libvirt's own, which nobody uses, and
/// the guest's (a template's file, mapped privately, or anonymous memory). Then the one with more
/// of it in memory is taken, by `resident`.
using Resident = std::function<std::uint64_t(const Mapping&)>;
Result<Mapping> find_guest_ram(const std::vector<Mapping>& maps, Bytes memory,
                               const Resident& resident = {});
/// Bytes of a mapping that are in memory, by the text of /proc/PID/smaps; 0 if it is not there.
/// Pure.
std::uint64_t resident_in(std::string_view smaps, const Mapping& mapping);

/// A userfaultfd of another process, by its number there.
struct Descriptor {
  int number = -1;
  std::uint64_t features = 0;  // what UFFDIO_API asked for, and kInitialized
};

class Process {
 public:
  /// NotFound if there is no such process.
  static Result<Process> open(pid_t pid);

  pid_t pid() const { return pid_; }
  bool lives() const;
  /// "/proc/PID/what"
  std::string path(std::string_view what) const;
  Result<std::vector<Mapping>> maps() const;
  /// find_guest_ram() in its maps.
  Result<Mapping> guest_ram(Bytes memory) const;
  /// Its pagemap; NotFound if it has ended.
  Result<Fd> pagemap() const;
  /// Its userfaultfds, by number.
  std::vector<Descriptor> userfaultfds() const;
  /// Its sockets: number and "socket:[inode]", which is the socket's own for as long as it lives.
  std::vector<std::pair<int, std::string>> sockets() const;
  /// A copy of its descriptor, by pidfd_getfd(2): needs CAP_SYS_PTRACE, or the same user.
  Result<Fd> take(int number) const;
  /// Threads that run vCPUs: QEMU names them "CPU 0/KVM" or "CPU 0/TCG".
  std::vector<pid_t> vcpu_threads() const;
  /// CPU time of these threads so far.
  Microseconds cpu_time(const std::vector<pid_t>& threads) const;
  /// Time so far in which they were ready to run and others had the CPU, or their own quota was
  /// used up.
  Microseconds waiting_time(const std::vector<pid_t>& threads) const;

 private:
  /// The `column`th number of their schedstat, added up.
  Microseconds scheduled(const std::vector<pid_t>& threads, int column) const;
  Process(pid_t pid, Fd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  pid_t pid_ = 0;
  Fd pidfd_;
};

}  // namespace mare::dirtylog
