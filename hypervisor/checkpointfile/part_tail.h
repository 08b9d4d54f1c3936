// A part as it lies on the disk. One VM's state at one cut, in Maré's own format, version 1:
//
//   head    "MareCheckpoint", two bytes of version
//   chunks  data: contents of pages and other bytes, kChunkBytes each but the last, packed one by
//   one tail    everything else, packed: what the stream was made of, which pages are here, the
//   chunks'
//           sizes, and the part that this one is built on
//   foot    where the tail is, its checksum, its own, "MarePartIsWhole."
//
// A file without a foot is not whole. Numbers are little-endian.
//
// The script says how to write the stream again: what each Step takes from the data, or from the
// same page of the part below. What the part below has in a page is what its stream had there last;
// so a part can be replaced by another of the same stream, whatever that one is built on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hypervisor/checkpointfile/page_map.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"

namespace mare::checkpointfile {

inline constexpr std::string_view kHead{"MareCheckpoint\x01\0", 16};
inline constexpr std::size_t kChunkBytes = std::size_t{256} << 10U;
inline constexpr std::size_t kFootBytes = 64;

/// Steps of a script, each with its number; those of pages begin at the cursor and advance it.
enum class Step : std::uint8_t {
  Bytes = 0,     // so many bytes of data
  Block = 1,     // the cursor: page 0 of that block
  Jump = 2,      // the cursor: so many pages on, signed
  Zero = 3,      // so many pages of zeros, each with its header
  Here = 4,      // with their headers and contents that are here
  Below = 5,     // with their headers and contents of the part below
  HereBare = 6,  // contents without headers
  BelowBare = 7,
};

/// Names a part's content: two files of one stream are as good as one another.
struct Identity {
  Bytes size;                  // of the stream
  std::uint64_t checksum = 0;  // XXH64 of the stream
  bool operator==(const Identity&) const = default;
};

struct Base {
  std::string path;  // absolute, as all hosts see it
  Identity identity;
};

struct Tail {
  Identity identity;
  std::optional<Base> base;
  std::uint64_t data_bytes = 0;
  std::vector<std::uint64_t> chunks;  // packed sizes
  std::vector<std::string> blocks;    // as the script numbers them
  std::string script;
  PageMap pages;                                            // that are here
  std::vector<std::pair<std::string, std::uint64_t>> gone;  // below, but not in this stream
};

std::string encode(const Tail& tail);
std::optional<Tail> decode_tail(std::string_view data);

struct Foot {
  std::uint64_t tail_at = 0;
  std::uint64_t tail_packed = 0;
  std::uint64_t tail_bytes = 0;
  std::uint64_t tail_checksum = 0;  // XXH64, packed
};
std::string encode(const Foot& foot);
/// Nothing if it is none, or a damaged one.
std::optional<Foot> decode_foot(std::string_view data);

}  // namespace mare::checkpointfile
