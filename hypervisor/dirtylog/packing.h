// Packing and unpacking pages as the channels of a compressed move do it, to know beforehand how
// far memory shrinks and what it takes of CPUs.
#pragma once

#include <cstddef>
#include <span>

namespace mare::dirtylog {

inline constexpr std::size_t kPacketPages = 128;  // QEMU's MULTIFD_PACKET_SIZE, 512 KiB
/// Two channels: both work at the same time, so that CPUs that share a core are as quick as then.
inline constexpr std::size_t kPackers = 2;

enum class Unpack : bool { No, Yes };

struct Packed {
  double fraction = 1;      // that is left, 0 to 1
  double pack_cpu_s = 0;    // of all packers together,
  double unpack_cpu_s = 0;  // into pages that were not there yet; 0: not known
};

/// How QEMU's multifd packs with zstd at level 1: packets of 128 pages, one stream a channel,
/// flushed at each packet's end. `pages` holds whole pages, of which each packer gets a part in one
/// piece; of none all is left. To unpack takes as much memory
/// again.
Packed pack(std::span<const std::byte> pages, Unpack unpack);

}  // namespace mare::dirtylog
