#include "hypervisor/dirtylog/packing.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "hypervisor/dirtylog/own_memory.h"
#include "hypervisor/dirtylog/process.h"
#include "orchestrator/core/thread_cpu.h"

namespace mare::dirtylog {
namespace {

constexpr std::size_t kPacketBytes = kPacketPages * kPage;

struct FreePacker {
  void operator()(ZSTD_CStream* stream) const noexcept { ZSTD_freeCStream(stream); }
};
struct FreeUnpacker {
  void operator()(ZSTD_DStream* stream) const noexcept { ZSTD_freeDStream(stream); }
};

struct Channel {
  std::size_t left = 0;  // bytes
  std::chrono::nanoseconds packing{0};
  std::chrono::nanoseconds unpacking{0};
};

/// The packets of channel `which`, by turns with the others. Nothing, if there is no memory for it.
std::optional<Channel> through(std::size_t which, std::span<const std::byte> pages, Unpack unpack) {
  const std::unique_ptr<ZSTD_CStream, FreePacker> packer{ZSTD_createCStream()};
  const std::unique_ptr<ZSTD_DStream, FreeUnpacker> unpacker{ZSTD_createDStream()};
  // As a guest's at the destination, where pages come into being as they are written.
  const OwnMemory there(pages.size() / kPackers + kPacketBytes);
  if (!packer || !unpacker || !there) return std::nullopt;
  there.prefer_large_pages();
  if (ZSTD_isError(ZSTD_initCStream(packer.get(), 1))) return std::nullopt;
  if (ZSTD_isError(ZSTD_initDStream(unpacker.get()))) return std::nullopt;
  std::vector<std::byte> packed(ZSTD_compressBound(kPacketBytes));
  std::byte* to = there.data();
  Channel out;
  for (std::size_t at = which * kPacketBytes; at < pages.size(); at += kPackers * kPacketBytes) {
    const auto packet = pages.subspan(at, std::min(kPacketBytes, pages.size() - at));
    const auto began = thread_cpu_time();
    ZSTD_inBuffer in{packet.data(), packet.size(), 0};
    ZSTD_outBuffer sent{packed.data(), packed.size(), 0};
    // There is room for the worst, so all of it is out after one call.
    if (ZSTD_compressStream2(packer.get(), &sent, &in, ZSTD_e_flush) != 0) return std::nullopt;
    const auto packed_at = thread_cpu_time();
    out.left += sent.pos;
    out.packing += packed_at - began;
    if (unpack == Unpack::No) continue;
    ZSTD_inBuffer come{packed.data(), sent.pos, 0};
    ZSTD_outBuffer put{to, packet.size(), 0};
    while (come.pos < come.size) {
      if (ZSTD_isError(ZSTD_decompressStream(unpacker.get(), &put, &come))) return std::nullopt;
    }
    to += packet.size();
    out.unpacking += thread_cpu_time() - packed_at;
  }
  return out;
}

}  // namespace

Packed pack(std::span<const std::byte> pages, Unpack unpack) {
  if (pages.empty()) return {};
  std::array<std::optional<Channel>, kPackers> channels;
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < kPackers && i * kPacketBytes < pages.size(); ++i) {
      others.emplace_back([&, i] { channels.at(i) = through(i, pages, unpack); });
    }
    channels.front() = through(0, pages, unpack);
  }
  Channel all;
  for (std::size_t i = 0; i < kPackers && i * kPacketBytes < pages.size(); ++i) {
    if (!channels.at(i)) return {};
    all.left += channels.at(i)->left;
    all.packing += channels.at(i)->packing;
    all.unpacking += channels.at(i)->unpacking;
  }
  return {std::min(1.0, static_cast<double>(all.left) / static_cast<double>(pages.size())),
          Seconds{all.packing}.count(), Seconds{all.unpacking}.count()};
}

}  // namespace mare::dirtylog
