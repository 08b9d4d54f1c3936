#include "orchestrator/policy/placement.h"

#include <algorithm>
#include <cstdio>

namespace mare::policy {
namespace {

const Room* best(const std::vector<Room>& rooms, Bytes memory) {
  const Room* found = nullptr;
  for (const auto& room : rooms) {
    if (room.free < memory + room.vm_overhead) continue;
    const bool better = found == nullptr || room.vms < found->vms ||
                        (room.vms == found->vms && room.free > found->free);
    if (better) found = &room;
  }
  return found;
}

Error no_room(const std::vector<Room>& rooms, Bytes memory) {
  if (rooms.empty()) {
    return make_error(Code::ResourceExhausted, "no host may take the VM",
                      "see 'mare host list': a host must be up and active");
  }
  const auto most = std::max_element(rooms.begin(), rooms.end(), [](const Room& a, const Room& b) {
    return (a.free - a.vm_overhead) < (b.free - b.vm_overhead);
  });
  return make_error(Code::ResourceExhausted,
                    "no host has room for a VM of " + mib_text(memory) + ": the most is " +
                        mib_text(most->free - most->vm_overhead) + " on '" + most->host.value + "'",
                    "add a host, make the VMs smaller or fewer, or delete a pool");
}

void take(std::vector<Room>& rooms, const HostId& host, Bytes memory) {
  for (auto& room : rooms) {
    if (room.host != host) continue;
    room.free = room.free - (memory + room.vm_overhead);
    ++room.vms;
  }
}

}  // namespace

std::vector<Room> rooms(const std::vector<Host>& hosts, const std::vector<Vm>& vms,
                        const std::vector<Claim>& claims, const std::vector<HostId>& allowed,
                        const std::optional<HostId>& except) {
  std::vector<Room> out;
  for (const auto& host : hosts) {
    if (host.admin != HostAdmin::Active || host.health != HostHealth::Up) continue;
    if (except && host.id == *except) continue;
    if (!allowed.empty() && std::find(allowed.begin(), allowed.end(), host.id) == allowed.end()) {
      continue;
    }
    Room room{host.id, host.memory, host.vm_overhead, 0};
    for (const auto& vm : vms) {
      if (vm.host != host.id) continue;
      room.free = room.free - (vm.memory + host.vm_overhead);
      ++room.vms;
    }
    for (const auto& claim : claims) {
      if (claim.host != host.id) continue;
      room.free = room.free - claim.memory;
      ++room.vms;
    }
    out.push_back(room);
  }
  return out;
}

Result<HostId> place(const std::vector<Room>& rooms, Bytes memory) {
  const Room* room = best(rooms, memory);
  if (room == nullptr) return no_room(rooms, memory);
  return room->host;
}

std::vector<Room> within(std::vector<Room> rooms, const HostCap& cap) {
  if (cap.used.size() >= cap.most) {
    std::erase_if(rooms, [&](const Room& room) { return !cap.used.contains(room.host); });
  }
  return rooms;
}

Placing place_most(std::vector<Room> rooms, Bytes memory, int count, std::optional<HostCap> cap) {
  Placing out;
  for (int i = 0; i < count; ++i) {
    auto host = place(cap ? within(rooms, *cap) : rooms, memory);
    if (!host) {
      out.refusal = host.error();
      return out;
    }
    take(rooms, *host, memory);
    if (cap) cap->used.insert(*host);
    out.hosts.push_back(*host);
  }
  return out;
}

Result<std::vector<HostId>> place_all(std::vector<Room> rooms, const std::vector<Bytes>& memories) {
  std::vector<HostId> out;
  for (const Bytes memory : memories) {
    auto host = place(rooms, memory);
    if (!host) {
      return host.error().during(std::to_string(out.size()) + " of " +
                                 std::to_string(memories.size()) + " VMs fit");
    }
    take(rooms, *host, memory);
    out.push_back(*host);
  }
  return out;
}

}  // namespace mare::policy
