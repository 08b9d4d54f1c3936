// A part's file, opened for reading. One thread at a time.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hypervisor/checkpointfile/part_tail.h"
#include "orchestrator/core/result.h"

namespace mare::checkpointfile {

/// A failed call on a file. ResourceExhausted: the disk is full; NotFound: it is not there;
/// Unavailable: another host has replaced it meanwhile, open it anew.
Error file_error(int error, const std::string& what, const std::string& path);
/// So that the file's name is on the disk as well.
void sync_directory_of(const std::string& path);
/// What stands behind a part's name in those of files that are to take its place.
inline constexpr const char* kMergingSuffix = ".merging-";
/// Removes it, what was to take its place, and the directories of its checkpoint and job once they
/// are empty. Ok if there is none.
Status remove_part(const std::string& path);
/// Does the file begin as a part does? False if it can't be read.
bool is_part(const std::string& path);

class PartFile {
 public:
  /// NotFound; FailedPrecondition: it is damaged, not whole or no part. Contents of pages are not
  /// looked at.
  static Result<std::unique_ptr<PartFile>> open(const std::string& path);
  /// By its end alone, without reading what it holds.
  static bool is_whole(const std::string& path);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::string& path() const { return path_; }
  Tail& tail() { return tail_; }
  /// Is it still the one that its path leads to?
  bool in_place() const;
  /// On the disk.
  Bytes file_size() const { return Bytes{file_size_}; }
  /// Appends so many bytes of its data. FailedPrecondition: it is damaged.
  Status read(std::uint64_t place, std::size_t size, std::string& to);

 private:
  PartFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  Status load();
  Result<Foot> read_foot();
  Result<std::string> read_raw(std::uint64_t from, std::uint64_t size) const;
  Result<const std::string*> chunk(std::uint64_t index);
  Error damaged(const std::string& what) const;

  const std::string path_;
  const int descriptor_;
  std::uint64_t file_size_ = 0;
  Tail tail_;
  std::vector<std::uint64_t> chunk_at_;  // and in the end where the last one ends
  struct Loaded {
    std::uint64_t index = 0;
    std::string data;
  };
  std::list<Loaded> loaded_;  // used last in front
};

}  // namespace mare::checkpointfile
