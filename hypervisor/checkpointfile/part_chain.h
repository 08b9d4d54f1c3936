// A part and those that it is built on, down to a full one; and what is done with them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hypervisor/checkpointfile/part_file.h"
#include "hypervisor/checkpointfile/part_writer.h"

namespace mare::checkpointfile {

/// A part may be built on at most so many.
inline constexpr int kLongestChain = 128;

/// Takes what a stream is made of, in its order, while it is written again.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual Status bytes(std::string_view data) = 0;
  /// `headed`: with page_header() before it, which is in none of the bytes. `below`: its content is
  /// what the part below has.
  virtual Status page(const std::string& block, std::uint64_t number, bool headed, bool below,
                      std::string_view content) = 0;
  /// With zero_header() before it; those without are among the bytes.
  virtual Status zero(const std::string& block, std::uint64_t number) = 0;
};

class PartChain {
 public:
  using Take = std::function<Status(std::string_view)>;
  /// Appends kPageBytes of what the part below has there.
  using PageSource =
      std::function<Status(const std::string& block, std::uint64_t number, std::string& to)>;
  /// NotFound: that part is not there. FailedPrecondition: it is damaged, or one that it is built
  /// on is gone, damaged or another one.
  static Result<PartChain> open(const std::string& path);
  /// Its own file alone: what it is built on is known otherwise.
  static Result<PartChain> open_on(const std::string& path, PageSource below);

  const std::optional<Base>& base() const { return parts_.back()->tail().base; }
  /// Pages that the part below has and this one has not, or as zeros.
  const std::vector<std::pair<std::string, std::uint64_t>>& gone() const {
    return parts_.back()->tail().gone;
  }
  /// What its own file holds, unpacked.
  Bytes own_data() const { return Bytes{parts_.back()->tail().data_bytes}; }
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
  /// In its pieces; checked as above.
  Status replay(PieceSink& pieces);

 private:
  struct Writing;
  Status replay(Writing& to);
  Status run_script(Writing& to);
  Status run_step(Writing& to, Step what, std::uint64_t count);
  Status run_page(Writing& to, Step what);
  Status read_here(Writing& to);
  Status read_from_below(Writing& to, const std::string& block, std::uint64_t number);
  PageMap pages_of(std::size_t parts);

  std::vector<std::unique_ptr<PartFile>> parts_;  // the full one first
  PageSource below_;                              // of open_on()
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
