// The file of a captured VM: what `virsh save` would have written, so that libvirt restores it. It
// says of itself that it is incomplete until finish(); a CaptureFile that ends before removes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "orchestrator/core/checksum.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"

namespace mare::libvirt {

/// What stands before QEMU's own stream: libvirt's header, complete or not, and the domain. Pure.
std::string save_header(std::string_view domain_xml, bool complete);

class CaptureFile {
 public:
  /// Makes the file and the directories that lead to it. AlreadyExists.
  static Result<std::unique_ptr<CaptureFile>> create(const std::string& path,
                                                     const std::string& domain_xml);
  ~CaptureFile();
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;

  /// ResourceExhausted when the disk is full.
  Status add(std::string_view data);
  /// Whole, and on the disk.
  Status finish();
  /// It is removed in the end, whole or not.
  void discard() { whole_ = false; }
  Bytes size() const { return size_; }
  /// Of the whole file as finish() leaves it.
  std::uint64_t checksum() const { return sum_.value(); }

 private:
  CaptureFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  Status write(std::string_view data);
  Error failure(const std::string& what) const;

  const std::string path_;
  const int descriptor_;
  std::string domain_xml_;
  Bytes size_;
  Checksum sum_;
  bool whole_ = false;
};

/// Ok if the file has that size and checksum; NotFound if there is none.
Status check_file(const std::string& path, Bytes size, std::uint64_t checksum);
/// Removes it, and the directories of its checkpoint and job once they are empty. Ok if there is
/// none.
Status remove_file(const std::string& path);

}  // namespace mare::libvirt
