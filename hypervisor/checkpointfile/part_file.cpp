#include "hypervisor/checkpointfile/part_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "hypervisor/checkpointfile/coding.h"
#include "orchestrator/core/checksum.h"

namespace mare::checkpointfile {
namespace {
// Pages are sent nearly in their order, so are those that the parts of a chain hold.
constexpr std::size_t kChunksLoaded = 8;
}  // namespace

Error file_error(int error, const std::string& what, const std::string& path) {
  const Code code = error == ENOSPC || error == EDQUOT ? Code::ResourceExhausted
                    : error == ENOENT                  ? Code::NotFound
                    : error == EEXIST                  ? Code::AlreadyExists
                    : error == ESTALE                  ? Code::Unavailable
                                                       : Code::Internal;
  return make_error(code, what + " " + path + ": " + std::generic_category().message(error));
}

void sync_directory_of(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  const int descriptor = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)fsync(descriptor);
  close(descriptor);
}

Status remove_part(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return file_error(errno, "can't remove", path);
  const std::filesystem::path checkpoint = std::filesystem::path(path).parent_path();
  const std::string left = std::filesystem::path(path).filename().string() + kMergingSuffix;
  // Other hosts remove their parts, and the directory, meanwhile: NFS may then refuse to read on.
  std::error_code unreadable;
  std::filesystem::directory_iterator entry(checkpoint, unreadable);
  for (; !unreadable && entry != std::filesystem::directory_iterator();
       entry.increment(unreadable)) {
    const auto& path_there = entry->path();
    if (path_there.filename().string().rfind(left, 0) == 0) (void)unlink(path_there.c_str());
  }
  // Fails while there is anything in them, which is as it should be.
  if (rmdir(checkpoint.c_str()) == 0) (void)rmdir(checkpoint.parent_path().c_str());
  return ok_status();
}

bool is_part(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  std::string head(kHead.size(), '\0');
  const ssize_t got = pread(descriptor, head.data(), head.size(), 0);
  close(descriptor);
  // Of any version: who opens it says which he knows.
  constexpr std::size_t kName = 14;
  return got == static_cast<ssize_t>(head.size()) &&
         std::string_view(head).substr(0, kName) == kHead.substr(0, kName);
}

Result<std::unique_ptr<PartFile>> PartFile::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return file_error(errno, "can't open", path);
  std::unique_ptr<PartFile> file(new PartFile(path, descriptor));
  if (auto loaded = file->load(); !loaded) return loaded.error();
  return file;
}

PartFile::~PartFile() {
  close(descriptor_);
}

Error PartFile::damaged(const std::string& what) const {
  return make_error(Code::FailedPrecondition, path_ + " is damaged: " + what,
                    "restart from another checkpoint");
}

Result<std::string> PartFile::read_raw(std::uint64_t from, std::uint64_t size) const {
  if (from > file_size_ || size > file_size_ - from) return damaged("it is too short");
  std::string out(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got =
        pread(descriptor_, out.data() + done, size - done, static_cast<off_t>(from + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error(errno, "can't read", path_);
    if (got == 0) return damaged("it became shorter");
    done += static_cast<std::size_t>(got);
  }
  return out;
}

bool PartFile::in_place() const {
  struct stat mine {};
  struct stat there {};
  return fstat(descriptor_, &mine) == 0 && stat(path_.c_str(), &there) == 0 &&
         mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

bool PartFile::is_whole(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  return descriptor >= 0 && PartFile(path, descriptor).read_foot().ok();
}

Result<Foot> PartFile::read_foot() {
  struct stat facts {};
  if (fstat(descriptor_, &facts) != 0) return file_error(errno, "can't read", path_);
  file_size_ = static_cast<std::uint64_t>(facts.st_size);
  if (file_size_ < kHead.size() + kFootBytes) return damaged("it is not whole");
  auto head = read_raw(0, kHead.size());
  if (!head) return head.error();
  if (*head != kHead) {
    return make_error(Code::FailedPrecondition,
                      path_ + " is no part of a checkpoint that this version knows");
  }
  auto end = read_raw(file_size_ - kFootBytes, kFootBytes);
  if (!end) return end.error();
  const auto foot = decode_foot(*end);
  if (!foot || foot->tail_at + foot->tail_packed + kFootBytes != file_size_) {
    return damaged("it is not whole");
  }
  return *foot;
}

Status PartFile::load() {
  auto foot = read_foot();
  if (!foot) return foot.error();
  auto packed = read_raw(foot->tail_at, foot->tail_packed);
  if (!packed) return packed.error();
  Checksum sum;
  sum.add(*packed);
  if (sum.value() != foot->tail_checksum) return damaged("its index is not what was written");
  const auto plain = unpack(*packed, foot->tail_bytes);
  auto tail = plain ? decode_tail(*plain) : std::nullopt;
  if (!tail) return damaged("its index can't be read");
  tail_ = std::move(*tail);
  std::uint64_t at = kHead.size();
  for (const auto size : tail_.chunks) {
    chunk_at_.push_back(at);
    at += size;
  }
  chunk_at_.push_back(at);
  if (at != foot->tail_at) return damaged("its data has another size than its index says");
  return ok_status();
}

Result<const std::string*> PartFile::chunk(std::uint64_t index) {
  const auto known = std::find_if(loaded_.begin(), loaded_.end(),
                                  [&](const Loaded& one) { return one.index == index; });
  if (known != loaded_.end()) {
    loaded_.splice(loaded_.begin(), loaded_, known);
    return &loaded_.front().data;
  }
  auto packed = read_raw(chunk_at_[index], tail_.chunks[index]);
  if (!packed) return packed.error();
  const std::uint64_t left = tail_.data_bytes - index * kChunkBytes;
  auto data = unpack(*packed, std::min<std::uint64_t>(left, kChunkBytes));
  if (!data) return damaged("chunk " + std::to_string(index) + " can't be unpacked");
  if (loaded_.size() >= kChunksLoaded) loaded_.pop_back();
  loaded_.push_front({index, std::move(*data)});
  return &loaded_.front().data;
}

Status PartFile::read(std::uint64_t place, std::size_t size, std::string& to) {
  if (place > tail_.data_bytes || size > tail_.data_bytes - place) {
    return damaged("its index names data that it does not have");
  }
  while (size > 0) {
    auto data = chunk(place / kChunkBytes);
    if (!data) return data.error();
    const std::size_t from = place % kChunkBytes;
    const std::size_t piece = std::min(size, (*data)->size() - from);
    to.append(**data, from, piece);
    place += piece;
    size -= piece;
  }
  return ok_status();
}

}  // namespace mare::checkpointfile
