// Writes a part from a stream that comes piece by piece. What the part below has already is not
// written again. One thread; memory: an index of the pages here and below (some 40 bytes a page).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "hypervisor/checkpointfile/part_tail.h"
#include "hypervisor/checkpointfile/ram_stream.h"
#include "orchestrator/core/checksum.h"

namespace mare::checkpointfile {

/// The part below, with all its pages: read_below() in part_chain.h, or PartWriter::for_next().
struct Below {
  Base base;
  PageMap pages;
  std::vector<std::string> files;  // its own and those that it is built on
};

class PartWriter final : private StreamSink {
 public:
  using Write = std::function<Status(std::string_view)>;
  /// `write` appends to the file, from its beginning on.
  PartWriter(Write write, bool compress, std::optional<Below> below);
  PartWriter(const PartWriter&) = delete;
  PartWriter& operator=(const PartWriter&) = delete;

  /// Fails as `write` does; then nothing more may be added.
  Status add(std::string_view stream);
  /// The file is whole after it.
  Status finish();

  /// Once it is finished: what a next part that is built on this one needs; places are not in it.
  /// Nothing is left here. `path`: of this part's file.
  Below for_next(const std::string& path);

  /// Of the stream, so far.
  Identity identity() const { return {size_, sum_.value()}; }
  /// Of the file, so far.
  Bytes written() const { return written_; }
  std::uint64_t pages_here() const { return pages_here_; }
  std::uint64_t pages_below() const { return pages_below_; }
  bool incremental() const { return below_.has_value(); }

 private:
  Status bytes(std::string_view data) override;
  Status page(PageId which, bool headed, std::string_view content) override;
  Status zero(PageId which, bool headed) override;

  void step(Step what, std::uint64_t count);
  void flush_step();
  void move_to(PageId which);
  void at(PageId which, Step what);
  Status keep(std::string_view data);
  Status write_chunk();
  Status write(std::string_view data);

  const Write write_;
  const bool compress_;
  std::optional<Below> below_;
  RamStream stream_;
  Checksum sum_;
  Bytes size_;
  Bytes written_;
  Tail tail_;
  std::string chunk_;
  PageId cursor_;
  bool cursor_set_ = false;
  std::optional<Step> last_;
  std::uint64_t last_count_ = 0;
  std::uint64_t pages_here_ = 0;
  std::uint64_t pages_below_ = 0;
};

}  // namespace mare::checkpointfile
