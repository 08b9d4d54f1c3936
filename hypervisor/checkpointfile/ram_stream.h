// QEMU's migration stream as it comes out of a pipe, cut into pages of RAM and everything else.
//
// Nothing depends on its being understood: what is no page that could be written again byte by
// byte from its block, its number and its content is handed on as bytes. So a stream of another
// QEMU, of another architecture or of noise is bytes from where it is not understood, until a
// section of RAM is recognised again.
//
// The format: savevm.c (sections) and ram.c (RAM_SAVE_FLAG_*) of QEMU's migration/, 2.4 to 10.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/core/result.h"

namespace mare::checkpointfile {

inline constexpr std::size_t kPageBytes = 4096;

struct PageId {
  std::size_t block = 0;     // an index into RamStream::blocks()
  std::uint64_t number = 0;  // within the block, in pages
  bool operator==(const PageId&) const = default;
};

/// Takes what the stream is made of, in its order.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  virtual Status bytes(std::string_view data) = 0;
  /// kPageBytes of content. `headed`: page_header() of it stands before, and was not handed on;
  /// otherwise bytes() had what stands there.
  virtual Status page(PageId which, bool headed, std::string_view content) = 0;
  /// A page of zeros. `headed`: zero_header() of it was not handed on; otherwise bytes() had it.
  virtual Status zero(PageId which, bool headed) = 0;
};

/// What QEMU writes before a page of the block that the page before was of.
std::string page_header(std::uint64_t number);
/// What it writes for one that is all zeros.
std::string zero_header(std::uint64_t number);

class RamStream {
 public:
  explicit RamStream(StreamSink& sink) : sink_(sink) {}

  /// The next piece, of any size.
  Status add(std::string_view data);
  /// Hands on what is left.
  Status end();
  /// Names of RAM's blocks as far as they are known; never fewer, never in another order.
  const std::vector<std::string>& blocks() const { return blocks_; }

 private:
  enum class State : std::uint8_t { Searching, Blocks, Pages };
  /// Did it get on? Otherwise it needs more.
  Result<bool> step();
  Result<bool> search();
  Result<bool> read_blocks();
  Result<bool> read_page();
  Result<bool> read_first_of_block(std::uint64_t header);
  Status pass(std::size_t size);
  Result<bool> lost();
  std::string_view rest() const { return std::string_view(buffer_).substr(at_); }
  bool in_block(std::uint64_t number) const;
  std::size_t block_named(const std::string& name);

  StreamSink& sink_;
  State state_ = State::Searching;
  std::string buffer_;  // from at_ on: not handed on yet
  std::size_t at_ = 0;
  std::string section_;  // the four bytes that name the section of RAM, "" before the first
  std::vector<std::string> blocks_;
  std::map<std::string, std::uint64_t> lengths_;  // in pages, as this stream says
  std::optional<std::size_t> block_;              // of the last page
};

}  // namespace mare::checkpointfile
