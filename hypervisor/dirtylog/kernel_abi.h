// Parts of the kernel's interface that the headers of Debian 12 (6.1) lack. Names, numbers and
// layout as in include/uapi/linux/{fs,userfaultfd}.h of Linux 6.7; internal to this room.
#pragma once

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#include <cstdint>

namespace mare::dirtylog::abi {

// userfaultfd.h
inline constexpr std::uint64_t kWpHugetlbfsShmem = 1U << 12U;
inline constexpr std::uint64_t kWpUnpopulated = 1U << 13U;
inline constexpr std::uint64_t kWpAsync = 1U << 15U;
inline constexpr unsigned kUserModeOnly = 1;
/// Not of the interface, but shown by /proc/PID/fdinfo: UFFDIO_API was done.
inline constexpr std::uint64_t kInitialized = 1U << 31U;

// fs.h
struct PageRegion {
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t categories;
};
struct ScanArg {
  std::uint64_t size;
  std::uint64_t flags;
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t walk_end;
  std::uint64_t vec;
  std::uint64_t vec_len;
  std::uint64_t max_pages;
  std::uint64_t category_inverted;
  std::uint64_t category_mask;
  std::uint64_t category_anyof_mask;
  std::uint64_t return_mask;
};
inline constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArg);
inline constexpr std::uint64_t kScanWpMatching = 1U << 0U;
inline constexpr std::uint64_t kScanCheckWpAsync = 1U << 1U;
inline constexpr std::uint64_t kPageIsWritten = 1U << 1U;

// Documentation/admin-guide/mm/pagemap.rst: one entry of /proc/PID/pagemap.
inline constexpr std::uint64_t kEntryPresent = 1ULL << 63U;
inline constexpr std::uint64_t kEntrySwapped = 1ULL << 62U;
inline constexpr std::uint64_t kEntrySwapTypes = 0x1f;
/// The last swap type is no device but a mark on a page that does not exist (include/linux/swap.h:
/// SWP_PTE_MARKER); a write-protected page that was never touched looks like that.
inline constexpr std::uint64_t kEntryMarker = 31;

}  // namespace mare::dirtylog::abi
