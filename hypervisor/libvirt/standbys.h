// Parts of checkpoints that this host keeps in its memory, each as files that a VM is started from
// without reading its memory: MEMORY/UUID, a checkpointfile::StandbyImage. A VM that was started so
// maps them for as long as it runs here; when another part of it takes the place, they become
// MEMORY/UUID.mapped-N until the VM is gone, so that what they take is known. Thread-safe.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hypervisor/driver.h"
#include "hypervisor/libvirt/templates.h"
#include "orchestrator/core/log.h"

namespace mare::libvirt {

/// From what a VM is started.
struct StandbyFiles {
  std::string memory;  // a file as large as the VM's memory, for QEMU to map privately
  std::string state;   // libvirt's header, and QEMU's stream without that memory
};

class Standbys {
 public:
  using IsHere = std::function<bool(const std::string& uuid)>;
  /// What the host has for VMs, and what is promised to them.
  struct Room {
    Bytes total;
    Bytes promised;
  };
  using AskRoom = std::function<Result<Room>()>;

  /// `memory`: a tmpfs, of this host's agent alone.
  Standbys(std::string memory, Log& log) : memory_(std::move(memory)), log_(log) {}

  /// `owner`: whom QEMU runs as.
  Status open(Owner owner);
  /// Driver::keep_standby().
  std::vector<StandbyAnswer> keep(const std::vector<CheckpointPart>& parts, const AskRoom& room,
                                  const IsHere& is_here);
  /// For one VM to be started from; nothing if it is not kept, or is being replaced. `room`: what
  /// is promised holds that VM already.
  std::optional<StandbyFiles> take(const CheckpointPart& part, Bytes memory, const Room& room);
  /// Forgets what no VM maps until VMs have their room, but for that VM's.
  void give_way(const Room& room, const std::string& but);
  /// What VMs of this host map: it can't be had back. Forgets what is no longer mapped.
  Bytes mapped(const IsHere& is_here);

 private:
  std::string place(const std::string& uuid) const { return memory_ + "/" + uuid; }
  StandbyAnswer keep_one(const CheckpointPart& part, const AskRoom& room, const IsHere& is_here);
  Status check_room(Bytes more, const AskRoom& room) const;
  void set_aside(const std::string& name, const IsHere& is_here);
  Status hand_over(const std::string& uuid) const;
  Bytes size() const;
  std::vector<std::string> names() const;

  const std::string memory_;
  Log& log_;
  Owner owner_;
  std::mutex keeping_;  // one call of keep() at a time
  mutable std::mutex mutex_;
  std::set<std::string> busy_;  // uuids whose files are being made or taken away
};

}  // namespace mare::libvirt
