#include "hypervisor/dirtylog/memory_scan.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "hypervisor/dirtylog/kernel_abi.h"
#include "hypervisor/dirtylog/own_memory.h"
#include "hypervisor/dirtylog/packing.h"

namespace mare::dirtylog {
namespace {

/// A quarter of the pages, 4 to 64 packets of them, so 32 MiB at most; 120 MB of a guest were
/// packed in 0.15 s of CPU time.
constexpr std::size_t kMostPackets = 64;
constexpr std::size_t kFewestPackets = 4;
constexpr std::size_t kShareOfPages = 4;
/// A packet is made of short runs from many places: memory is alike over some MiB and differs
/// beyond that. Of four guests of 192 MiB, 16 whole packets missed by 4 to 13% (1 deviation) what
/// 512 runs tell within one. Longer matches are few: runs are packed 1% worse.
constexpr std::size_t kRunPages = 16;
/// A guest page is read at some 4 GiB/s; with 1 GiB the call stays below its millisecond a MiB, and
/// below the deadline of a remote call.
constexpr std::size_t kMostPagesRead = (1U << 30U) / kPage;
constexpr std::size_t kEntriesAtOnce = 65'536;  // 256 MiB of memory a read of pagemap
constexpr std::size_t kPagesAtOnce = 256;

/// Addresses of the pages that exist. Pages in swap are `swapped`: they hold something, and to look
/// would bring them back. So are a clone's that it has not touched yet, where its template's file
/// has something.
struct Present {
  std::vector<std::uint64_t> pages;
  std::size_t swapped = 0;
};

/// Which pages of a file hold something; all, if it can't be told.
class FileContent {
 public:
  explicit FileContent(const std::string& path)
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  /// Asked in order.
  bool has(std::uint64_t offset) {
    if (!file_ || offset < data_) return !file_;
    if (offset < hole_) return true;
    const off_t data = lseek(file_.get(), static_cast<off_t>(offset), SEEK_DATA);
    data_ = data < 0 ? UINT64_MAX : static_cast<std::uint64_t>(data);
    const off_t hole = data < 0 ? 0 : lseek(file_.get(), data, SEEK_HOLE);
    hole_ = hole < 0 ? UINT64_MAX : static_cast<std::uint64_t>(hole);
    return offset >= data_ && offset < hole_;
  }

 private:
  Fd file_;
  std::uint64_t data_ = 0;
  std::uint64_t hole_ = 0;
};

Result<Present> find_present(const Process& process, const Mapping& ram) {
  FileContent behind(ram.is_file() ? ram.path : "");
  auto pagemap = process.pagemap();
  if (!pagemap) return pagemap.error();
  Present out;
  std::vector<std::uint64_t> entries(kEntriesAtOnce);
  for (std::uint64_t at = ram.start; at < ram.end;) {
    const std::size_t want = std::min<std::size_t>(entries.size(), (ram.end - at) / kPage);
    const auto offset = static_cast<off_t>(at / kPage * sizeof(std::uint64_t));
    const ssize_t got = pread(pagemap->get(), entries.data(), want * sizeof(std::uint64_t), offset);
    if (got <= 0) break;  // it ended: its memory is gone
    for (std::size_t i = 0; i < static_cast<std::size_t>(got) / sizeof(std::uint64_t); ++i) {
      const std::uint64_t entry = entries[i];
      if ((entry & abi::kEntryPresent) != 0) {
        out.pages.push_back(at);
      } else if ((entry & abi::kEntrySwapped) != 0 &&
                 (entry & abi::kEntrySwapTypes) != abi::kEntryMarker) {
        ++out.swapped;
      } else if (ram.is_file() && behind.has(at - ram.start)) {
        ++out.swapped;
      }
      at += kPage;
    }
  }
  return out;
}

/// The pages' contents, one after the other; fewer when the process has ended.
std::size_t read_pages(pid_t pid, std::span<const std::uint64_t> pages, std::byte* to) {
  std::vector<iovec> from;
  for (const std::uint64_t page : pages) {
    if (!from.empty()) {
      auto& last = from.back();
      if (reinterpret_cast<std::uint64_t>(last.iov_base) + last.iov_len == page) {
        last.iov_len += kPage;
        continue;
      }
    }
    from.push_back({reinterpret_cast<void*>(page), kPage});
  }
  const iovec into{to, pages.size() * kPage};
  const ssize_t got = process_vm_readv(pid, &into, 1, from.data(), from.size(), 0);
  return got <= 0 ? 0 : static_cast<std::size_t>(got) / kPage;
}

/// Every `step`-th run of kPagesAtOnce pages is looked at.
struct Looked {
  std::size_t pages = 0;
  std::size_t zero = 0;
  std::vector<std::uint64_t> filled;
};

Looked look_at_pages(pid_t pid, const std::vector<std::uint64_t>& pages, std::size_t step) {
  Looked out;
  std::vector<std::byte> content(kPagesAtOnce * kPage);
  for (std::size_t i = 0; i < pages.size(); i += kPagesAtOnce * step) {
    const std::span run =
        std::span(pages).subspan(i, std::min<std::size_t>(kPagesAtOnce, pages.size() - i));
    const std::size_t got = read_pages(pid, run, content.data());
    for (std::size_t j = 0; j < got; ++j) {
      if (is_zero_page(content.data() + j * kPage)) {
        ++out.zero;
      } else {
        out.filled.push_back(run[j]);
      }
    }
    out.pages += got;
  }
  return out;
}

struct Sample {
  Packed packed;
  double bytes = 0;
};

/// Runs at even distances over these pages, in packets, as a move sends them; `weight` is
/// what a page counts for, and one of 0 is not looked at. Nothing, if that are all.
std::optional<Sample> sample_compression(pid_t pid, const std::vector<std::uint64_t>& filled,
                                         const std::function<double(std::uint64_t)>& weight,
                                         Unpack unpack = Unpack::No) {
  std::vector<std::uint64_t> pages;
  std::vector<double> up_to;  // sum of the weights
  for (const std::uint64_t page : filled) {
    const double one = weight(page);
    if (!(one > 0)) continue;
    pages.push_back(page);
    up_to.push_back(one + (up_to.empty() ? 0 : up_to.back()));
  }
  if (pages.empty()) return std::nullopt;
  const std::size_t packets =
      std::clamp(pages.size() / kPacketPages / kShareOfPages, kFewestPackets, kMostPackets);
  const std::size_t wanted = std::min(pages.size(), packets * kPacketPages);
  const std::size_t runs = (wanted + kRunPages - 1) / kRunPages;
  // In small pages 32 MiB would be 8,192 faults: 0.12 s where one takes 15 us.
  const OwnMemory content(wanted * kPage);
  if (!content) return std::nullopt;
  content.prefer_large_pages();
  std::size_t have = 0;
  for (std::size_t i = 0; have < wanted; ++i) {
    const std::size_t size = std::min(kRunPages, wanted - have);
    const double middle = up_to.back() * (static_cast<double>(i) + 0.5) / static_cast<double>(runs);
    const auto found = std::lower_bound(up_to.begin(), up_to.end(), middle);
    const auto at = static_cast<std::size_t>(found - up_to.begin());
    const std::size_t begin = std::min(at - std::min(at, size / 2), pages.size() - size);
    const auto run = std::span(pages).subspan(begin, size);
    const std::size_t got = read_pages(pid, run, content.data() + have * kPage);
    if (got < size) break;
    have += got;
  }
  return Sample{pack(std::span<const std::byte>(content.data(), have * kPage), unpack),
                static_cast<double>(have * kPage)};
}

}  // namespace

bool is_zero_page(const std::byte* page) {
  // Its first bytes are zero, and each of the others equals the one 16 before it.
  static constexpr std::array<std::byte, 16> kNothing{};
  return std::memcmp(page, kNothing.data(), kNothing.size()) == 0 &&
         std::memcmp(page, page + kNothing.size(), kPage - kNothing.size()) == 0;
}

Result<MemoryContent> scan_memory(pid_t pid, Bytes memory, const std::vector<double>& heat,
                                  const PageSet& written) {
  auto process = Process::open(pid);
  if (!process) return process.error();
  auto ram = process->guest_ram(memory);
  if (!ram) return ram.error();
  auto present = find_present(*process, *ram);
  if (!present) return present.error();
  const std::size_t step = (present->pages.size() + kMostPagesRead - 1) / kMostPagesRead;
  const Looked looked = look_at_pages(pid, present->pages, std::max<std::size_t>(1, step));
  MemoryContent out;
  out.total = Bytes{ram->size()};
  const auto all = sample_compression(
      pid, looked.filled, [](std::uint64_t) { return 1.0; }, Unpack::Yes);
  if (all) {
    out.compressed_fraction = all->packed.fraction;
    const auto rate = [&all](double cpu_s) {
      return cpu_s > 0 ? BytesPerSecond{all->bytes / cpu_s} : BytesPerSecond{};
    };
    out.compress_rate = rate(all->packed.pack_cpu_s);
    out.unpack_rate = rate(all->packed.unpack_cpu_s);
  }
  std::optional<Sample> hot;
  if (!written.empty()) {
    // Not where, but what: a region has other pages, too, that may be packed much better.
    hot = sample_compression(pid, looked.filled, [&](std::uint64_t page) {
      return written.has((page - ram->start) / kPage) ? 1.0 : 0.0;
    });
  } else if (std::any_of(heat.begin(), heat.end(), [](double share) { return share > 0; })) {
    const std::uint64_t width = (ram->size() + heat.size() - 1) / heat.size();
    hot = sample_compression(pid, looked.filled,
                             [&](std::uint64_t page) { return heat[(page - ram->start) / width]; });
  }
  out.hot_compressed_fraction = hot ? hot->packed.fraction : out.compressed_fraction;
  if (!process->lives()) return make_error(Code::NotFound, "its process has ended");
  if (looked.pages == 0 && !present->pages.empty()) {
    return make_error(Code::Unavailable, "the memory of its process can't be read",
                      "the agent needs CAP_SYS_PTRACE");
  }
  const double filled_share = looked.pages == 0 ? 0.0
                                                : static_cast<double>(looked.filled.size()) /
                                                      static_cast<double>(looked.pages);
  const auto filled =
      static_cast<std::uint64_t>(filled_share * static_cast<double>(present->pages.size()));
  out.zero = out.total - Bytes{(filled + present->swapped) * kPage};
  return out;
}

}  // namespace mare::dirtylog
