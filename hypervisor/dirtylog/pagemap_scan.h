// PAGEMAP_SCAN on another process: an exact log of written pages, also under emulation, that QEMU
// knows nothing of. Needs Linux 6.7 and the descriptor that libmare-dirtylog.so left open in QEMU.
//
// A page that is write-protected by a userfaultfd with WP_ASYNC loses its protection at its first
// write, in the kernel: nobody is woken, the guest pays one fault (docs/dirty-log.md). "Written" is
// then what is not protected any more.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "hypervisor/dirtylog/page_log.h"
#include "hypervisor/dirtylog/process.h"

namespace mare::dirtylog {

/// Can this machine's kernel do it? Tried on a page of this process; Unsupported says what lacks.
Status pagemap_scan_works();

/// What the first write to a page after arm() takes beyond a usual one, in CPU time: seen on memory
/// of this process, by the quickest of some times through it. 1 us on a real machine, and ten times
/// that on one that is itself a guest. Unsupported: as pagemap_scan_works().
Result<std::chrono::nanoseconds> measure_first_write();

class PagemapScan final : public PageLog {
 public:
  /// Registers the RAM of the VM in process `pid`. NotFound: no such process. Unsupported: it has
  /// no userfaultfd for us. FailedPrecondition: QEMU uses one of its own on its RAM (post-copy,
  /// background-snapshot).
  ///
  /// A descriptor of which an earlier agent made use goes on as it is: UFFDIO_API is once for ever,
  /// and to register the same range again changes nothing.
  static Result<std::unique_ptr<PageLog>> open(pid_t pid, Bytes memory);
  /// Registers the RAM and no more. Where RAM is a file, the kernel maps with each page that is
  /// touched the 15 beside it, unless the range is registered: 29 MiB of an idle clone instead
  /// of 10. open() takes it from there.
  static Status map_only_what_is_touched(pid_t pid, Bytes memory);
  /// Ends what map_only_what_is_touched() did, or open() of an agent that was killed: QEMU could
  /// not protect that RAM itself. NotFound, Unsupported: there is nothing to end.
  static Status release(pid_t pid, Bytes memory);
  /// Unregisters: protection and faults end. Nothing is left of it when the process is gone.
  ~PagemapScan() override;
  PagemapScan(const PagemapScan&) = delete;
  PagemapScan& operator=(const PagemapScan&) = delete;

  Result<Microseconds> arm() override;
  Result<LogReading> read() override;
  Result<ContentReading> content() override;

 private:
  struct Enlisted {
    Process process;
    Fd uffd;
    bool fresh;  // nobody has used it yet
    Mapping ram;
  };
  static Result<Enlisted> find(pid_t pid, Bytes memory);
  static Result<Enlisted> enlist_ram(pid_t pid, Bytes memory);
  PagemapScan(Process process, Fd uffd, Fd pagemap, Mapping ram);
  Error failure(const char* what) const;

  Process process_;
  Fd uffd_;
  Fd pagemap_;
  Mapping ram_;
  std::vector<pid_t> vcpus_;
};

}  // namespace mare::dirtylog
