#include "hypervisor/dirtylog/cpu_quota.h"

#include <mntent.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace mare::dirtylog {
namespace {

/// Where the groups are that may hold a quota, by version.
struct Mounts {
  std::optional<std::string> first;
  std::optional<std::string> second;
};

/// Whether a list separated by commas has that word.
bool lists(const std::string& list, std::string_view word) {
  std::istringstream words(list);
  for (std::string one; std::getline(words, one, ',');) {
    if (one == word) return true;
  }
  return false;
}

Mounts mounts(const std::string& root) {
  Mounts out;
  const std::unique_ptr<FILE, int (*)(FILE*)> table(
      setmntent((root + "/proc/self/mounts").c_str(), "re"), endmntent);
  if (!table) return out;
  mntent entry{};
  std::array<char, 4096> text{};
  while (getmntent_r(table.get(), &entry, text.data(), text.size()) != nullptr) {
    const std::string_view kind = entry.mnt_type;
    // The last one may lie over the others.
    if (kind == "cgroup2") out.second = root + entry.mnt_dir;
    if (kind == "cgroup" && hasmntopt(&entry, "cpu") != nullptr) out.first = root + entry.mnt_dir;
  }
  return out;
}

template <typename Value>
std::optional<Value> read_number(const std::string& path) {
  std::ifstream file(path);
  Value value{};
  return file >> value ? std::optional(value) : std::nullopt;
}

/// Of one group; none: it has no quota ("max", -1), or no such controller.
std::optional<CpuQuota> quota_at(const std::string& folder) {
  double quota = 0;
  double period = 0;
  if (std::ifstream both(folder + "/cpu.max"); both >> quota >> period) {
    // "50000 100000"; "max 100000" does not begin with a number.
  } else {
    quota = read_number<double>(folder + "/cpu.cfs_quota_us").value_or(-1);
    period = read_number<double>(folder + "/cpu.cfs_period_us").value_or(0);
  }
  if (!(quota > 0) || !(period > 0)) return std::nullopt;
  return CpuQuota{quota / period, Microseconds{static_cast<std::int64_t>(period)}};
}

using Found = std::pair<std::string, CpuQuota>;  // the group's folder

/// The tightest from `path` up.
void look_up(const std::string& mount, std::string path, std::optional<Found>& tightest) {
  for (;;) {
    const std::string folder = mount + path;
    const auto quota = quota_at(folder);
    if (quota && (!tightest || quota->cpus < tightest->second.cpus))
      tightest = Found{folder, *quota};
    const auto slash = path.rfind('/');
    if (slash == std::string::npos || path.size() <= 1) return;
    path.resize(slash);
  }
}

std::optional<Found> quota_above(pid_t thread, const Mounts& mounts, const std::string& root) {
  std::optional<Found> out;
  std::ifstream file(root + "/proc/" + std::to_string(thread) + "/cgroup");
  for (std::string line; std::getline(file, line);) {
    // "4:cpu,cpuacct:/machine/vcpu0"; version 2 has "0::/machine/vcpu0"
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty() && mounts.second) look_up(*mounts.second, path, out);
    if (lists(controllers, "cpu") && mounts.first) look_up(*mounts.first, path, out);
  }
  return out;
}

}  // namespace

CpuQuota cpu_quota_of(const std::vector<pid_t>& threads, const std::string& root) {
  const Mounts where = mounts(root);
  std::map<std::string, CpuQuota> groups;
  for (const pid_t thread : threads) {
    const auto quota = quota_above(thread, where, root);
    if (!quota) return {};
    groups.insert(*quota);
  }
  CpuQuota out;
  for (const auto& [folder, quota] : groups) {
    out.cpus += quota.cpus;
    out.period = std::max(out.period, quota.period);
  }
  return out;
}

}  // namespace mare::dirtylog
