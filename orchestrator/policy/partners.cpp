#include "orchestrator/policy/partners.h"

#include <algorithm>
#include <map>
#include <utility>

namespace mare::policy {
namespace {

Room* find(std::vector<Room>& rooms, const HostId& host) {
  const auto found =
      std::find_if(rooms.begin(), rooms.end(), [&](const Room& room) { return room.host == host; });
  return found == rooms.end() ? nullptr : &*found;
}

std::size_t place_of(const std::vector<Room>& rooms, const std::optional<HostId>& host) {
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    if (rooms[i].host == host) return i;
  }
  return 0;
}

bool fits(const Room& room, Bytes memory) {
  return memory + room.vm_overhead <= room.free;
}

}  // namespace

std::vector<HostId> choose_partners(const std::vector<Room>& rooms,
                                    const std::vector<PartnerSought>& parts) {
  std::vector<Room> left = rooms;
  std::map<HostId, int> kept;
  std::vector<HostId> out(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const PartnerSought& part = parts[i];
    Room* room = find(left, part.partner);
    if (room == nullptr || part.host == part.partner || !fits(*room, part.memory)) continue;
    room->free = room->free - part.memory;
    ++kept[room->host];
    out[i] = room->host;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const PartnerSought& part = parts[i];
    if (!out[i].value.empty()) continue;
    Room* best = nullptr;
    // From the host behind the VM's own on, and round: so VMs of neighbours do not meet again.
    for (std::size_t step = 0; step < left.size(); ++step) {
      Room& room = left[(place_of(left, part.host) + step) % left.size()];
      if (room.host == part.host || !fits(room, part.memory)) continue;
      const auto weight = [&kept](const Room& one) { return std::pair(kept[one.host], one.vms); };
      if (best == nullptr || weight(room) < weight(*best)) best = &room;
    }
    if (best == nullptr) continue;
    best->free = best->free - part.memory;
    ++kept[best->host];
    out[i] = best->host;
  }
  return out;
}

Result<std::vector<HostId>> place_preferred(const std::vector<Room>& rooms,
                                            const std::vector<Bytes>& memories,
                                            const std::vector<HostId>& preferred) {
  std::vector<Room> left = rooms;
  std::vector<HostId> out(memories.size());
  std::vector<Bytes> others;
  for (std::size_t i = 0; i < memories.size(); ++i) {
    Room* room = i < preferred.size() ? find(left, preferred[i]) : nullptr;
    if (room == nullptr || !fits(*room, memories[i])) {
      others.push_back(memories[i]);
      continue;
    }
    room->free = room->free - (memories[i] + room->vm_overhead);
    ++room->vms;
    out[i] = room->host;
  }
  auto rest = place_all(left, others);
  if (!rest) return place_all(rooms, memories);
  auto next = rest->begin();
  for (auto& host : out) {
    if (host.value.empty()) host = *next++;
  }
  return out;
}

}  // namespace mare::policy
