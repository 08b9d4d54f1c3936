#include "hypervisor/libvirt/standbys.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "hypervisor/checkpointfile/part_file.h"
#include "hypervisor/checkpointfile/standby_image.h"

namespace mare::libvirt {
namespace {

namespace fs = std::filesystem;
using checkpointfile::StandbyImage;

constexpr const char* kMapped = ".mapped-";

std::string uuid_of(const std::string& name) {
  return name.substr(0, name.find(kMapped));
}

bool is_set_aside(const std::string& name) {
  return name.find(kMapped) != std::string::npos;
}

}  // namespace

Status Standbys::open(Owner owner) {
  owner_ = owner;
  std::error_code failed;
  fs::create_directories(memory_, failed);
  if (failed) {
    return make_error(Code::Unavailable, "cannot make " + memory_ + ": " + failed.message());
  }
  return ok_status();
}

std::vector<std::string> Standbys::names() const {
  std::vector<std::string> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(memory_, ignored)) {
    out.push_back(entry.path().filename().string());
  }
  return out;
}

Bytes Standbys::size() const {
  Bytes sum;
  for (const auto& name : names()) sum = sum + StandbyImage(place(name)).size();
  return sum;
}

Bytes Standbys::mapped(const IsHere& is_here) {
  Bytes sum;
  for (const auto& name : names()) {
    const StandbyImage image(place(name));
    if (!is_set_aside(name) && !image.used()) continue;
    if (is_here(uuid_of(name))) {
      sum = sum + image.size();
    } else if (is_set_aside(name)) {
      image.remove();
    }
  }
  return sum;
}

std::vector<StandbyAnswer> Standbys::keep(const std::vector<CheckpointPart>& parts,
                                          const AskRoom& room, const IsHere& is_here) {
  const std::lock_guard one_at_a_time(keeping_);
  for (const auto& name : names()) {
    const bool wanted = std::any_of(parts.begin(), parts.end(),
                                    [&](const CheckpointPart& part) { return part.uuid == name; });
    if (is_set_aside(name) ? !is_here(uuid_of(name)) : !wanted) set_aside(name, is_here);
  }
  std::vector<StandbyAnswer> out;
  out.reserve(parts.size());
  for (const auto& part : parts) out.push_back(keep_one(part, room, is_here));
  return out;
}

/// Away with it, unless a VM of this host maps it: then out of the way.
void Standbys::set_aside(const std::string& name, const IsHere& is_here) {
  {
    const std::lock_guard lock(mutex_);
    busy_.insert(name);
  }
  const StandbyImage image(place(name));
  if (image.used() && is_here(uuid_of(name))) {
    std::error_code failed;
    int number = 1;
    while (fs::exists(place(name) + kMapped + std::to_string(number), failed)) ++number;
    fs::rename(place(name), place(name) + kMapped + std::to_string(number), failed);
  } else {
    image.remove();
  }
  const std::lock_guard lock(mutex_);
  busy_.erase(name);
}

Status Standbys::check_room(Bytes more, const AskRoom& ask) const {
  auto room = ask();
  if (!room) return room.error();
  if (room->promised + size() + more <= room->total) return ok_status();
  return make_error(Code::ResourceExhausted, "VMs and what is kept leave no " + mib_text(more) +
                                                 " of " + mib_text(room->total) + " for it");
}

Status Standbys::hand_over(const std::string& uuid) const {
  std::vector<std::string> paths{place(uuid)};
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(place(uuid), failed)) {
    paths.push_back(entry.path().string());
  }
  for (const auto& path : paths) {
    if (chown(path.c_str(), owner_.user, owner_.group) != 0) {
      return make_error(Code::Internal, "can't give " + path + " to QEMU");
    }
  }
  return ok_status();
}

StandbyAnswer Standbys::keep_one(const CheckpointPart& part, const AskRoom& room,
                                 const IsHere& is_here) {
  StandbyAnswer out;
  out.vm = part.vm;
  StandbyImage image(place(part.uuid));
  const checkpointfile::Identity kept{part.size, part.checksum};
  if (image.holds() == kept) {
    out.kept = true;
    out.memory = image.size();
    return out;
  }
  if (!checkpointfile::is_part(part.path)) {
    out.why_not = part.path + " is not there, or of a version that is only read from its file";
    return out;
  }
  if (image.used()) set_aside(part.uuid, is_here);
  {
    const std::lock_guard lock(mutex_);
    busy_.insert(part.uuid);
  }
  Status done = image.unfold(part.path, kept, [&](Bytes more) { return check_room(more, room); });
  if (done) done = hand_over(part.uuid);
  if (!done) image.remove();
  {
    const std::lock_guard lock(mutex_);
    busy_.erase(part.uuid);
  }
  out.kept = done.ok();
  if (done) out.memory = image.size();
  if (!done) out.why_not = done.error().text();
  if (!done) {
    log_.warn("libvirt", "the part of VM '" + part.vm.value + "' at " + part.path +
                             " is not kept in memory: " + out.why_not);
  }
  return out;
}

std::optional<StandbyFiles> Standbys::take(const CheckpointPart& part, Bytes memory,
                                           const Room& room) {
  const std::lock_guard lock(mutex_);
  if (busy_.contains(part.uuid)) return std::nullopt;
  const StandbyImage image(place(part.uuid));
  if (image.holds() != checkpointfile::Identity{part.size, part.checksum}) return std::nullopt;
  // As the guest writes, it comes to have all of its memory beside what it maps.
  if (room.promised + image.size() > room.total) return std::nullopt;
  std::error_code failed;
  const auto size = fs::file_size(image.memory(), failed);
  if (failed || size > memory.count || !image.mark_used()) return std::nullopt;
  if (size < memory.count) fs::resize_file(image.memory(), memory.count, failed);
  if (failed) return std::nullopt;
  return StandbyFiles{image.memory(), image.devices()};
}

void Standbys::give_way(const Room& room, const std::string& but) {
  const std::lock_guard lock(mutex_);
  Bytes taken = room.promised + size();
  for (const auto& name : names()) {
    if (taken <= room.total) return;
    const StandbyImage image(place(name));
    if (name == but || is_set_aside(name) || image.used() || busy_.contains(name)) continue;
    taken = taken - image.size();
    image.remove();
    log_.info("libvirt", "what was kept of VM " + name + " gives way to VMs");
  }
}

}  // namespace mare::libvirt
