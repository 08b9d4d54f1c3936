#include "hypervisor/dirtylog/pagemap_scan.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "hypervisor/dirtylog/kernel_abi.h"
#include "hypervisor/dirtylog/own_memory.h"
#include "hypervisor/dirtylog/page_samples.h"
#include "orchestrator/core/thread_cpu.h"

namespace mare::dirtylog {
namespace {

constexpr std::uint64_t kFeatures = abi::kWpAsync | abi::kWpUnpopulated | abi::kWpHugetlbfsShmem;
constexpr std::size_t kPagesTimed = 1024;
constexpr int kTimesThrough = 3;
constexpr const char* kNeeds = "the dirty-page log needs Linux 6.7 or newer on the host";

/// False for a kernel without these features, and for a descriptor that had its UFFDIO_API.
bool initialize(int uffd) {
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = kFeatures;
  return ioctl(uffd, UFFDIO_API, &api) == 0;
}

bool enlist(int uffd, std::uint64_t start, std::uint64_t size) {
  uffdio_register with{};
  with.range = {start, size};
  with.mode = UFFDIO_REGISTER_MODE_WP;
  return ioctl(uffd, UFFDIO_REGISTER, &with) == 0;
}

abi::ScanArg scan_of(std::uint64_t start, std::uint64_t end) {
  abi::ScanArg scan{};
  scan.size = sizeof scan;
  scan.flags = abi::kScanCheckWpAsync;
  scan.start = start;
  scan.end = end;
  scan.category_mask = abi::kPageIsWritten;
  scan.return_mask = abi::kPageIsWritten;
  return scan;
}

bool protect(int pagemap, std::uint64_t start, std::uint64_t end) {
  abi::ScanArg scan = scan_of(start, end);
  scan.flags |= abi::kScanWpMatching;
  return ioctl(pagemap, abi::kPagemapScan, &scan) >= 0;
}

/// Pages written, as runs of addresses, handed to `each`. False on an error, with errno.
template <typename Each>
bool for_each_written(int pagemap, std::uint64_t start, std::uint64_t end, const Each& each) {
  std::array<abi::PageRegion, 2048> regions{};
  while (start < end) {
    abi::ScanArg scan = scan_of(start, end);
    scan.vec = reinterpret_cast<std::uint64_t>(regions.data());
    scan.vec_len = regions.size();
    const int found = ioctl(pagemap, abi::kPagemapScan, &scan);
    if (found < 0) return false;
    for (int i = 0; i < found; ++i) {
      const auto& region = regions.at(static_cast<std::size_t>(i));
      each(region.start, region.end);
    }
    // Where it stopped is right only when it stopped for want of room: at the end of the range
    // Linux 6.18 names a place before what it has told already.
    if (static_cast<std::size_t>(found) < regions.size() || scan.walk_end <= start) break;
    start = scan.walk_end;
  }
  return true;
}

/// Adds a run of pages to a strip of kHeatRegions over `ram`, as bytes.
void add_heat(std::vector<double>& heat, const Mapping& ram, std::uint64_t from, std::uint64_t to) {
  const std::uint64_t width = (ram.size() + kHeatRegions - 1) / kHeatRegions;
  while (from < to) {
    const std::uint64_t region = (from - ram.start) / width;
    const std::uint64_t edge = std::min(to, ram.start + (region + 1) * width);
    heat.at(region) += static_cast<double>(edge - from);
    from = edge;
  }
}

void make_shares(std::vector<double>& heat, const Mapping& ram) {
  const std::uint64_t width = (ram.size() + kHeatRegions - 1) / kHeatRegions;
  for (std::uint64_t i = 0; i < heat.size(); ++i) {
    const std::uint64_t begin = std::min(i * width, ram.size());
    const std::uint64_t size = std::min(width, ram.size() - begin);
    heat[i] = size == 0 ? 0 : heat[i] / static_cast<double>(size);
  }
}

Error lacks(const char* what) {
  return make_error(Code::Unsupported, system_text(what), kNeeds);
}

/// The one that the preloaded library opened: nobody uses it yet, or an earlier agent did. QEMU's
/// own have other features.
std::optional<Descriptor> ours_of(const Process& process) {
  for (const auto& descriptor : process.userfaultfds()) {
    const bool fresh = (descriptor.features & abi::kInitialized) == 0;
    if (fresh || (descriptor.features & abi::kWpAsync) != 0) return descriptor;
  }
  return std::nullopt;
}

/// Everything but its file: the descriptor is ready and the RAM is under it.
Status prepare(int uffd, bool fresh, const Mapping& ram) {
  // Whether its failure is the kernel's, or another agent was quicker, the next call tells.
  if (fresh) static_cast<void>(initialize(uffd));
  if (enlist(uffd, ram.start, ram.size())) return ok_status();
  if (errno == EINVAL) return lacks("userfaultfd without asynchronous protection");
  if (errno == EBUSY) {
    return make_error(Code::FailedPrecondition, "QEMU itself watches its RAM at this moment");
  }
  if (errno == ESRCH) return make_error(Code::NotFound, "its process has ended");
  return make_error(Code::Unavailable, system_text("its RAM can't be registered"));
}

/// This process's own log, of memory that stays registered for as long as it is there.
struct OwnLog {
  Fd uffd;
  Fd pagemap;
};

Result<OwnLog> watch_own(const OwnMemory& memory, std::uint64_t size) {
  OwnLog out{Fd{static_cast<int>(syscall(
                 SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | static_cast<int>(abi::kUserModeOnly)))},
             {}};
  if (!out.uffd) return lacks("userfaultfd");
  if (!initialize(out.uffd.get())) return lacks("userfaultfd without asynchronous protection");
  out.pagemap = Fd{open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
  if (!out.pagemap) return lacks("/proc/self/pagemap");
  const auto begin = reinterpret_cast<std::uint64_t>(memory.data());
  if (!memory || !enlist(out.uffd.get(), begin, size)) return lacks("a page of this process");
  return out;
}

}  // namespace

Status pagemap_scan_works() {
  const OwnMemory page(kPage);
  const auto log = watch_own(page, kPage);
  if (!log) return log.error();
  const auto begin = reinterpret_cast<std::uint64_t>(page.data());
  const auto write = [&page] {
    *reinterpret_cast<volatile std::byte*>(page.data()) = std::byte{1};
  };
  write();
  const std::uint64_t end = begin + kPage;
  if (!protect(log->pagemap.get(), begin, end)) return lacks("PAGEMAP_SCAN");
  std::uint64_t written = 0;
  const auto count = [&](std::uint64_t from, std::uint64_t to) { written += to - from; };
  if (!for_each_written(log->pagemap.get(), begin, end, count)) return lacks("PAGEMAP_SCAN");
  const bool armed = written == 0;
  write();
  const bool read = for_each_written(log->pagemap.get(), begin, end, count);
  if (armed && read && written == kPage) return ok_status();
  return make_error(Code::Unsupported, "PAGEMAP_SCAN does not see a write", kNeeds);
}

Result<std::chrono::nanoseconds> measure_first_write() {
  constexpr auto kSize = kPagesTimed * kPage;
  const OwnMemory memory(kSize);
  const auto log = watch_own(memory, kSize);
  if (!log) return log.error();
  const auto begin = reinterpret_cast<std::uint64_t>(memory.data());
  const auto write_all = [&memory] {
    const auto before = thread_cpu_time();
    for (std::size_t page = 0; page < kPagesTimed; ++page) {
      *reinterpret_cast<volatile std::byte*>(memory.data() + page * kPage) = std::byte{1};
    }
    return std::chrono::duration_cast<std::chrono::nanoseconds>(thread_cpu_time() - before);
  };
  write_all();
  auto quickest = std::chrono::nanoseconds::max();
  for (int i = 0; i < kTimesThrough; ++i) {
    if (!protect(log->pagemap.get(), begin, begin + kSize)) return lacks("PAGEMAP_SCAN");
    const auto first = write_all();
    quickest = std::min(quickest, std::max(first - write_all(), std::chrono::nanoseconds{0}));
  }
  return quickest / static_cast<std::int64_t>(kPagesTimed);
}

PagemapScan::PagemapScan(Process process, Fd uffd, Fd pagemap, Mapping ram)
    : process_(std::move(process)),
      uffd_(std::move(uffd)),
      pagemap_(std::move(pagemap)),
      ram_(std::move(ram)),
      vcpus_(process_.vcpu_threads()) {}

PagemapScan::~PagemapScan() {
  uffdio_range range{ram_.start, ram_.size()};
  // Fails only when the process, and all that was registered with it, is gone.
  static_cast<void>(ioctl(uffd_.get(), UFFDIO_UNREGISTER, &range));
}

Result<PagemapScan::Enlisted> PagemapScan::find(pid_t pid, Bytes memory) {
  auto process = Process::open(pid);
  if (!process) return process.error();
  const auto descriptor = ours_of(*process);
  if (!descriptor) {
    if (!process->lives()) return make_error(Code::NotFound, "its process has ended");
    return make_error(Code::Unsupported, "its QEMU has no userfaultfd for the agent",
                      "it was started without libmare-dirtylog.so: start or move it anew");
  }
  auto uffd = process->take(descriptor->number);
  if (!uffd) return uffd.error();
  auto ram = process->guest_ram(memory);
  if (!ram) return ram.error();
  const bool fresh = (descriptor->features & abi::kInitialized) == 0;
  return Enlisted{std::move(*process), std::move(*uffd), fresh, std::move(*ram)};
}

Result<PagemapScan::Enlisted> PagemapScan::enlist_ram(pid_t pid, Bytes memory) {
  auto found = find(pid, memory);
  if (!found) return found.error();
  if (auto ready = prepare(found->uffd.get(), found->fresh, found->ram); !ready) {
    return ready.error();
  }
  return found;
}

Status PagemapScan::map_only_what_is_touched(pid_t pid, Bytes memory) {
  auto enlisted = enlist_ram(pid, memory);
  return enlisted ? ok_status() : Status(enlisted.error());
}

Status PagemapScan::release(pid_t pid, Bytes memory) {
  auto found = find(pid, memory);
  if (!found) return found.error();
  if (found->fresh) return ok_status();
  uffdio_range range{found->ram.start, found->ram.size()};
  if (ioctl(found->uffd.get(), UFFDIO_UNREGISTER, &range) == 0) return ok_status();
  if (errno == ESRCH) return make_error(Code::NotFound, "its process has ended");
  return make_error(Code::Unavailable, system_text("its RAM stays registered"));
}

Result<std::unique_ptr<PageLog>> PagemapScan::open(pid_t pid, Bytes memory) {
  auto found = enlist_ram(pid, memory);
  if (!found) return found.error();
  auto pagemap = found->process.pagemap();
  if (!pagemap) return pagemap.error();
  return std::unique_ptr<PageLog>(new PagemapScan(std::move(found->process), std::move(found->uffd),
                                                  std::move(*pagemap), std::move(found->ram)));
}

Error PagemapScan::failure(const char* what) const {
  const std::string text = system_text(what);
  if (!process_.lives()) return make_error(Code::NotFound, "its process has ended");
  return make_error(Code::Unavailable, text);
}

Result<Microseconds> PagemapScan::arm() {
  if (vcpus_.empty()) vcpus_ = process_.vcpu_threads();
  const Microseconds before = process_.cpu_time(vcpus_);
  if (!protect(pagemap_.get(), ram_.start, ram_.end)) {
    return failure("PAGEMAP_SCAN can't protect its RAM");
  }
  if (!process_.lives()) return make_error(Code::NotFound, "its process has ended");
  return (before + process_.cpu_time(vcpus_)) / 2;
}

Result<LogReading> PagemapScan::read() {
  LogReading out;
  out.heat.assign(kHeatRegions, 0);
  const Microseconds before = process_.cpu_time(vcpus_);
  const bool read = for_each_written(
      pagemap_.get(), ram_.start, ram_.end, [&](std::uint64_t from, std::uint64_t to) {
        out.unique.count += to - from;
        add_heat(out.heat, ram_, from, to);
        out.written.add((from - ram_.start) / kPage, (to - ram_.start) / kPage);
      });
  if (!read) return failure("PAGEMAP_SCAN can't read its RAM");
  // A process that ends meanwhile has no memory left, and looks idle.
  if (!process_.lives()) return make_error(Code::NotFound, "its process has ended");
  out.progress = (before + process_.cpu_time(vcpus_)) / 2;
  out.waited = process_.waiting_time(vcpus_);
  out.vcpus = vcpus_.size();
  make_shares(out.heat, ram_);
  return out;
}

Result<ContentReading> PagemapScan::content() {
  return content_of(process_, pagemap_, ram_, vcpus_);
}

}  // namespace mare::dirtylog
