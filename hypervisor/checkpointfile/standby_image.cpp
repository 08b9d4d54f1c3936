#include "hypervisor/checkpointfile/standby_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <system_error>
#include <vector>

#include "hypervisor/checkpointfile/part_chain.h"
#include "hypervisor/checkpointfile/ram_stream.h"

namespace mare::checkpointfile {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBuffer = std::size_t{1} << 20U;
constexpr std::uint64_t kStatBlock = 512;
const std::string kZeroPage(kPageBytes, '\0');

Error not_loadable(const std::string& why) {
  return make_error(Code::Unsupported, "its stream can't be loaded beside its memory: " + why);
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : path_(path), number_(open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool is_open() const { return number_ >= 0; }
  const std::string& path() const { return path_; }
  Status write_at(std::uint64_t place, std::string_view data) const {
    while (!data.empty()) {
      const ssize_t done = pwrite(number_, data.data(), data.size(), static_cast<off_t>(place));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return file_error(errno, "can't write", path_);
      place += static_cast<std::uint64_t>(done);
      data.remove_prefix(static_cast<std::size_t>(done));
    }
    return ok_status();
  }
  Result<std::uint64_t> size() const {
    struct stat facts {};
    if (fstat(number_, &facts) != 0) return file_error(errno, "can't read", path_);
    return static_cast<std::uint64_t>(facts.st_size);
  }
  /// Zeros behind the end.
  Status read_at(std::uint64_t place, std::size_t size, std::string& to) const {
    const std::size_t from = to.size();
    to.resize(from + size, '\0');
    std::size_t done = 0;
    while (done < size) {
      const ssize_t got =
          pread(number_, to.data() + from + done, size - done, static_cast<off_t>(place + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return file_error(errno, "can't read", path_);
      if (got == 0) return ok_status();
      done += static_cast<std::size_t>(got);
    }
    return ok_status();
  }

 private:
  const std::string path_;
  const int number_;
};

/// A block's name as a file's.
std::string file_of(std::string block) {
  std::replace(block.begin(), block.end(), '/', '_');
  return block;
}

/// The files of blocks, opened as they are needed.
class Blocks {
 public:
  explicit Blocks(std::string directory) : directory_(std::move(directory)) {}

  Status write(const std::string& block, std::uint64_t number, std::string_view content) {
    auto file = of(block);
    return file ? (*file)->write_at(number * kPageBytes, content) : file.error();
  }
  Status read(const std::string& block, std::uint64_t number, std::string& to) {
    auto file = of(block);
    return file ? (*file)->read_at(number * kPageBytes, kPageBytes, to) : file.error();
  }

 private:
  Result<const Descriptor*> of(const std::string& block) {
    auto& file = files_[block];
    if (file == nullptr) {
      file = std::make_unique<Descriptor>(directory_ + "/" + file_of(block), O_RDWR | O_CREAT);
    }
    if (!file->is_open()) return file_error(errno, "can't open", file->path());
    return static_cast<const Descriptor*>(file.get());
  }

  const std::string directory_;
  std::map<std::string, std::unique_ptr<Descriptor>> files_;
};

/// Sorts a stream's pieces: pages to their places, all else behind one another. Of the main block
/// only pages that stand behind a header of another page's are left out of the stream; so each
/// section still names the block that it is of.
class Sorter final : public PieceSink {
 public:
  Sorter(Blocks& blocks, const Descriptor& devices, bool on_below)
      : blocks_(blocks), devices_(devices), on_below_(on_below) {}

  Status bytes(std::string_view data) override { return append(data); }

  Status page(const std::string& block, std::uint64_t number, bool headed, bool below,
              std::string_view content) override {
    const bool there = below && on_below_;
    if (!there) {
      if (auto kept = write(block, number, content); !kept) return kept;
    }
    const bool main = block == StandbyImage::kMainBlock;
    if (main && headed) return ok_status();
    if (headed) return append(page_header(number) + std::string(content));
    if (main) bare_[number].push_back(at_ + buffer_.size());
    return append(content);
  }

  Status zero(const std::string& block, std::uint64_t number) override {
    // What this stream has not written is zeros already.
    if (was_written(block, number)) {
      if (auto kept = write(block, number, kZeroPage); !kept) return kept;
    }
    return block == StandbyImage::kMainBlock ? ok_status() : append(zero_header(number));
  }

  /// What the stream still has of the main block must be what comes last there.
  Status finish() {
    if (auto done = flush(); !done) return done;
    std::string content;
    for (const auto& [number, places] : bare_) {
      content.clear();
      if (auto got = blocks_.read(StandbyImage::kMainBlock, number, content); !got) return got;
      for (const auto place : places) {
        if (auto done = devices_.write_at(place, content); !done) return done;
      }
    }
    return ok_status();
  }

 private:
  Status write(const std::string& block, std::uint64_t number, std::string_view content) {
    auto& marks = written_[block];
    if (marks.size() <= number) marks.resize(number + 1);
    marks[number] = true;
    return blocks_.write(block, number, content);
  }
  bool was_written(const std::string& block, std::uint64_t number) const {
    const auto marks = written_.find(block);
    return marks != written_.end() && number < marks->second.size() && marks->second[number];
  }
  Status append(std::string_view data) {
    buffer_ += data;
    return buffer_.size() < kBuffer ? ok_status() : flush();
  }
  Status flush() {
    Status done = devices_.write_at(at_, buffer_);
    at_ += buffer_.size();
    buffer_.clear();
    return done;
  }

  Blocks& blocks_;
  const Descriptor& devices_;
  const bool on_below_;
  std::string buffer_;
  std::uint64_t at_ = 0;
  std::map<std::uint64_t, std::vector<std::uint64_t>> bare_;  // where in the stream they stand
  std::map<std::string, std::vector<bool>> written_;
};

/// What QEMU would do to the memory when it loads the stream: nothing that changes it.
class LoadCheck final : public StreamSink {
 public:
  explicit LoadCheck(Blocks& blocks) : stream_(*this), blocks_(blocks) {}

  Status run(const Descriptor& devices) {
    auto size = devices.size();
    if (!size) return size.error();
    std::string piece;
    for (std::uint64_t at = 0; at < *size; at += piece.size()) {
      piece.clear();
      const auto left = std::min<std::uint64_t>(kBuffer, *size - at);
      if (auto got = devices.read_at(at, left, piece); !got) return got;
      if (auto added = stream_.add(piece); !added) return added;
    }
    if (auto ended = stream_.end(); !ended) return ended;
    const auto& names = stream_.blocks();
    const bool known = std::find(names.begin(), names.end(), kName) != names.end();
    return known ? ok_status() : not_loadable("it names no block " + std::string(kName));
  }

  Status bytes(std::string_view /*data*/) override { return ok_status(); }
  Status page(PageId which, bool /*headed*/, std::string_view content) override {
    return expect(which, content);
  }
  Status zero(PageId which, bool /*headed*/) override { return expect(which, kZeroPage); }

 private:
  static constexpr const char* kName = StandbyImage::kMainBlock;

  Status expect(PageId which, std::string_view content) {
    if (stream_.blocks()[which.block] != kName) return ok_status();
    found_.clear();
    if (auto got = blocks_.read(kName, which.number, found_); !got) return got;
    if (found_ == content) return ok_status();
    return not_loadable("page " + std::to_string(which.number) + " is in it more than once");
  }

  RamStream stream_;
  Blocks& blocks_;
  std::string found_;
};

Status check_identity(const std::string& part, const Identity& found, const Identity& kept) {
  if (found == kept) return ok_status();
  return make_error(Code::FailedPrecondition, part + " is not what was kept of it");
}

Status sort_pieces(PartChain& chain, Blocks& blocks, const std::string& devices, bool on_below) {
  // Of an earlier state it may be longer.
  const Descriptor file(devices, O_RDWR | O_CREAT | O_TRUNC);
  if (!file.is_open()) return file_error(errno, "can't make", devices);
  Sorter sorter(blocks, file, on_below);
  if (auto done = chain.replay(sorter); !done) return done;
  if (auto done = sorter.finish(); !done) return done;
  return LoadCheck(blocks).run(file);
}

}  // namespace

std::optional<Identity> StandbyImage::holds() const {
  std::ifstream in(file("what"));
  Identity found;
  std::string end;
  if (!(in >> found.size.count >> found.checksum >> end) || end != "whole") return std::nullopt;
  std::error_code ignored;
  if (!fs::exists(memory(), ignored) || !fs::exists(devices(), ignored)) return std::nullopt;
  return found;
}

bool StandbyImage::used() const {
  std::error_code ignored;
  return fs::exists(file("used"), ignored);
}

Status StandbyImage::mark_used() const {
  const Descriptor mark(file("used"), O_WRONLY | O_CREAT);
  return mark.is_open() ? ok_status() : file_error(errno, "can't make", file("used"));
}

void StandbyImage::remove() const {
  std::error_code ignored;
  fs::remove(file("what"), ignored);
  fs::remove_all(directory_, ignored);
}

Bytes StandbyImage::size() const {
  Bytes sum;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory_, ignored)) {
    struct stat facts {};
    if (stat(entry.path().c_str(), &facts) != 0) continue;
    sum = sum + Bytes{static_cast<std::uint64_t>(facts.st_blocks) * kStatBlock};
  }
  return sum;
}

Status StandbyImage::write_what(const Identity& identity) const {
  const std::string fresh = file("what.fresh");
  std::ofstream out(fresh, std::ios::trunc);
  out << identity.size.count << " " << identity.checksum << " whole\n" << std::flush;
  std::error_code failed;
  if (out) fs::rename(fresh, file("what"), failed);
  return out && !failed ? ok_status()
                        : Status(make_error(Code::ResourceExhausted, "can't write " + fresh));
}

Status StandbyImage::unfold(const std::string& part, const Identity& kept, const Room& room) {
  const auto there = holds();
  if (there == kept) return ok_status();
  if (there && !used()) {
    if (unfold_on(part, kept, *there, room)) return ok_status();
  }
  Status done = unfold_anew(part, kept, room);
  if (!done) remove();
  return done;
}

Status StandbyImage::unfold_on(const std::string& part, const Identity& kept, const Identity& below,
                               const Room& room) {
  Blocks blocks(directory_);
  auto chain = PartChain::open_on(
      part, [&blocks](const std::string& block, std::uint64_t number, std::string& to) {
        return blocks.read(block, number, to);
      });
  if (!chain) return chain.error();
  if (auto same = check_identity(part, chain->identity(), kept); !same) return same;
  if (!chain->base() || chain->base()->identity != below) {
    return make_error(Code::FailedPrecondition, part + " is not built on what is there");
  }
  if (auto free = room(chain->own_data()); !free) return free;
  std::error_code failed;
  if (!fs::remove(file("what"), failed)) return make_error(Code::Internal, "can't begin");
  for (const auto& [block, number] : chain->gone()) {
    if (auto done = blocks.write(block, number, kZeroPage); !done) return done;
  }
  if (auto done = sort_pieces(*chain, blocks, devices(), true); !done) return done;
  return write_what(kept);
}

Status StandbyImage::unfold_anew(const std::string& part, const Identity& kept, const Room& room) {
  remove();
  auto chain = PartChain::open(part);
  if (!chain) return chain.error();
  if (auto same = check_identity(part, chain->identity(), kept); !same) return same;
  const Bytes pages{chain->pages().count() * kPageBytes};
  if (auto free = room(pages); !free) return free;
  std::error_code failed;
  fs::create_directories(directory_, failed);
  if (failed) {
    return make_error(Code::Unavailable, "can't make " + directory_ + ": " + failed.message());
  }
  Blocks blocks(directory_);
  if (auto done = sort_pieces(*chain, blocks, devices(), false); !done) return done;
  return write_what(kept);
}

}  // namespace mare::checkpointfile
