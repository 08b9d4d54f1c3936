// The file of a captured VM: its state as `virsh save` would have written it, so that libvirt
// restores it, in Maré's own format (hypervisor/checkpointfile). A CaptureFile that ends before
// finish() removes it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "hypervisor/checkpointfile/part_chain.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"
#include "orchestrator/model/checkpoint.h"

namespace mare::libvirt {

/// What stands before QEMU's own stream: libvirt's header and the domain. Pure.
std::string save_header(std::string_view domain_xml);
/// What a file begins with.
struct SavedDomain {
  std::string xml;
  std::uint64_t stream_at = 0;  // where QEMU's own stream begins
};
/// FailedPrecondition: it does not begin so.
Result<SavedDomain> read_save_header(const std::string& path);

class CaptureFile {
 public:
  struct Form {
    bool compress = true;
    std::optional<checkpointfile::Below> below = {};  // what it is built on
  };
  /// Makes the file and the directories that lead to it. AlreadyExists.
  static Result<std::unique_ptr<CaptureFile>> create(const std::string& path,
                                                     const std::string& domain_xml, Form form);
  ~CaptureFile();
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;

  /// Of QEMU's stream. ResourceExhausted when the disk is full.
  Status add(std::string_view data) { return writer_.add(data); }
  /// Whole, and on the disk.
  Status finish();
  /// It is removed in the end, whole or not.
  void discard() { whole_ = false; }
  /// Of the state, header and stream.
  checkpointfile::Identity identity() const { return writer_.identity(); }
  /// On the disk.
  Bytes written() const { return writer_.written(); }
  bool incremental() const { return writer_.incremental(); }
  /// PartWriter::for_next(), once it is whole.
  checkpointfile::Below for_next() { return writer_.for_next(path_); }

 private:
  CaptureFile(std::string path, int descriptor, Form form);

  const std::string path_;
  const int descriptor_;
  checkpointfile::PartWriter writer_;
  bool whole_ = false;
};

/// A part's state in a file that libvirt restores, on this host's own disk; it goes with this.
/// Parts of versions that wrote the state as it is are restored from where they are.
class UnpackedPart {
 public:
  /// NotFound: there is no such part. FailedPrecondition: it is not what was kept of it.
  /// ResourceExhausted: no room in `directory`.
  static Result<std::unique_ptr<UnpackedPart>> make(const std::string& directory,
                                                    const CheckpointPart& part);
  ~UnpackedPart();
  UnpackedPart(const UnpackedPart&) = delete;
  UnpackedPart& operator=(const UnpackedPart&) = delete;
  const std::string& path() const { return path_; }

 private:
  UnpackedPart(std::string path, bool ours) : path_(std::move(path)), ours_(ours) {}
  const std::string path_;
  const bool ours_;
};
/// What a former agent left behind when it was killed.
void clear_unpacked(const std::string& directory);

/// As Driver::merge_capture().
Result<Bytes> make_part_full(const CheckpointPart& part, bool compress);

/// Ok if the file has that size and checksum; NotFound if there is none.
Status check_file(const std::string& path, Bytes size, std::uint64_t checksum);

}  // namespace mare::libvirt
