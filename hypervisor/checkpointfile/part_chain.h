// A part and those that it is built on, down to a full one; and what is done with them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hypervisor/checkpointfile/part_file.h"
#include "hypervisor/checkpointfile/part_writer.h"

namespace mare::checkpointfile {

/// A part may be built on at most so many.
inline constexpr int kLongestChain = 128;

class PartChain {
 public:
  using Take = std::function<Status(std::string_view)>;
  /// NotFound: that part is not there. FailedPrecondition: it is damaged, or one that it is built
  /// on is gone, damaged or another one.
  static Result<PartChain> open(const std::string& path);

  Identity identity() { return parts_.back()->tail().identity; }
  /// On how many others it is built.
  int depth() const { return static_cast<int>(parts_.size()) - 1; }
  /// Its own file on the disk.
  Bytes file_size() const { return parts_.back()->file_size(); }
  /// Is its own file still the one that its path leads to?
  bool in_place() const { return parts_.back()->in_place(); }
  /// All pages of the part.
  PageMap pages();
  /// Its own file and those that it is built on.
  std::vector<std::string> files() const;
  /// Writes the stream again, in pieces, and checks what it wrote. FailedPrecondition: it is not
  /// what the part was made of.
  Status replay(const Take& take);

 private:
  struct Writing;
  Status run_script(Writing& to);
  Status run_step(Writing& to, Step what, std::uint64_t count);
  Status run_page(Writing& to, Step what);
  PageMap pages_of(std::size_t parts);

  std::vector<std::unique_ptr<PartFile>> parts_;  // the full one first
};

/// What a new part needs of the one that it is to be built on. FailedPrecondition: it is not that
/// one, or as at open().
Result<Below> read_below(const Base& base);

/// Whether the files of one that is remembered are still there and whole, by their ends alone.
bool still_there(const Below& below);

/// Makes a part full: writes it anew beside, and then in its place, so that at any time a whole one
/// is there. Those that are built on it do not notice. Ok if it is a full one. Returns its size on
/// the disk. FailedPrecondition: it is not what was kept of it.
Result<Bytes> make_full(const std::string& path, const Identity& kept, bool compress);

}  // namespace mare::checkpointfile
