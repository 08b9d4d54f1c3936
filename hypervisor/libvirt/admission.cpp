#include "hypervisor/libvirt/admission.h"

#include <chrono>

namespace mare::libvirt {
namespace {
// A sender follows its ticket within seconds. One that never comes, because mared is gone for good,
// must not hold memory for ever.
constexpr auto kPromiseHolds = std::chrono::minutes{10};
}  // namespace

std::map<std::string, Bytes> Admission::claim(const std::string& uuid, Bytes memory) {
  const std::lock_guard lock(mutex_);
  const MonotonicTime now = clock_.now();
  std::map<std::string, Bytes> others;
  for (auto it = claims_.begin(); it != claims_.end();) {
    if (now - it->second.since > kPromiseHolds) {
      it = claims_.erase(it);
      continue;
    }
    if (it->first != uuid) others.emplace(it->first, it->second.memory);
    ++it;
  }
  claims_[uuid] = {memory, now};
  return others;
}

std::map<std::string, Bytes> Admission::claims() {
  const std::lock_guard lock(mutex_);
  std::map<std::string, Bytes> all;
  for (const auto& [uuid, claim] : claims_) {
    if (clock_.now() - claim.since <= kPromiseHolds) all.emplace(uuid, claim.memory);
  }
  return all;
}

void Admission::release(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  claims_.erase(uuid);
}

}  // namespace mare::libvirt
