// A part unfolded, so that a VM can be started from it at once. In a directory of its own:
//
//   BLOCK    each block of RAM as a file, a page at its place; "pc.ram" is the guest's memory, and
//            QEMU maps it. Best in a tmpfs
//   devices  the rest of the stream: QEMU loads it, and leaves the memory as it is mapped
//   what     which state that is, and the key of who keeps it; written last, removed first
//   used     a VM was started from it: it is never written to again
//
// A part that is built on the one that is unfolded there is unfolded in its place, and then only
// what it holds itself is read. Any other is unfolded anew. One thread a directory.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "hypervisor/checkpointfile/part_tail.h"
#include "orchestrator/core/result.h"

namespace mare::checkpointfile {

class StandbyImage {
 public:
  explicit StandbyImage(std::string directory) : directory_(std::move(directory)) {}

  std::string memory() const { return directory_ + "/" + kMainBlock; }
  std::string devices() const { return directory_ + "/devices"; }

  /// The state that is there, whole; nothing if there is none.
  std::optional<Identity> holds() const;
  /// Fails like PartChain::replay(), and ResourceExhausted: no room; then nothing is left. `room`:
  /// asked for what a part may need beside what is there, before anything is written. Unsupported:
  /// its stream can't be loaded so.
  using Room = std::function<Status(Bytes more)>;
  Status unfold(const std::string& part, const Identity& kept, const Room& room);
  /// Before a VM is started from it.
  Status mark_used() const;
  bool used() const;
  void remove() const;
  /// What its files take.
  Bytes size() const;

  static constexpr const char* kMainBlock = "pc.ram";

 private:
  Status unfold_on(const std::string& part, const Identity& kept, const Identity& below,
                   const Room& room);
  Status unfold_anew(const std::string& part, const Identity& kept, const Room& room);
  Status write_what(const Identity& identity) const;
  std::string file(const char* name) const { return directory_ + "/" + name; }

  const std::string directory_;
};

}  // namespace mare::checkpointfile
