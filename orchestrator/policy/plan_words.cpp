#include "orchestrator/policy/plan_words.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

namespace mare::policy {

std::string mib_words(std::uint64_t bytes) {
  return std::to_string(bytes / (1024 * 1024)) + " MiB";
}

std::string figure(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string percent(double share) {
  return figure(share * 100, 0) + "%";
}

std::string counted(std::size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

namespace {

std::string name(const ClusterState& state, HostIndex h) {
  return "'" + state.host(h).id.value + "'";
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

struct Obstacles {
  std::array<int, 7> count{};
  HostIndex roomiest = kNowhere;

  int of(Obstacle obstacle) const { return count[static_cast<std::size_t>(obstacle)]; }
};

Obstacles obstacles_of(const ClusterState& state, VmIndex v, HostIndex except) {
  Obstacles out;
  for (int h = 0; h < state.hosts(); ++h) {
    if (h == except || h == state.host_of(v)) continue;
    const Obstacle found = state.obstacle(v, h);
    ++out.count[static_cast<std::size_t>(found)];
    const bool roomier =
        out.roomiest == kNowhere || state.free_memory(h) > state.free_memory(out.roomiest);
    if (found == Obstacle::Memory && roomier) out.roomiest = h;
  }
  return out;
}

}  // namespace

std::string no_place_words(const ClusterState& state, VmIndex v, HostIndex except, int n_plus_one) {
  const Obstacles found = obstacles_of(state, v, except);
  const auto number = [&found](Obstacle what) {
    return counted(static_cast<std::size_t>(found.of(what)), "host");
  };
  std::vector<std::string> parts;
  if (found.roomiest != kNowhere) {
    const HostIndex h = found.roomiest;
    const auto free = std::max<std::int64_t>(0, state.free_memory(h));
    parts.push_back("it needs " + mib_words(state.need(v, h)) + " and the most that is free is " +
                    mib_words(static_cast<std::uint64_t>(free)) + " on " + name(state, h));
  }
  if (n_plus_one > 0) {
    parts.push_back("on " + counted(static_cast<std::size_t>(n_plus_one), "host") +
                    " it would fit, but then the failure of one host could not be survived");
  }
  if (found.of(Obstacle::AntiAffinity) > 0) {
    parts.push_back(number(Obstacle::AntiAffinity) + " run a VM of its anti-affinity group '" +
                    state.source(v).anti_affinity + "'");
  }
  if (found.of(Obstacle::Tags) > 0) {
    parts.push_back(number(Obstacle::Tags) + " lack the tag '" +
                    joined(state.source(v).needs, "', '") + "'");
  }
  if (found.of(Obstacle::Vcpus) > 0) {
    parts.push_back(number(Obstacle::Vcpus) + " would have more than " +
                    figure(state.policy().max_vcpus_per_cpu, 1) + " vcpus for each cpu");
  }
  if (found.of(Obstacle::Unusable) > 0) {
    parts.push_back(number(Obstacle::Unusable) + " may not take VMs");
  }
  return parts.empty() ? "there is no other host" : joined(parts, "; ");
}

std::string move_words(const ClusterState& state, VmIndex v, HostIndex to, const ScoreTerms& before,
                       const ScoreTerms& after) {
  const HostIndex from = state.host_of(v);
  const std::string here = name(state, from);
  const std::string there = name(state, to);
  const auto against = [&](double ratio_here, double ratio_there, const char* of) {
    return here + " has " + percent(ratio_here) + " of its " + of + ", " + there + " " +
           percent(ratio_there);
  };
  const std::array<double, 7> gains{
      before.memory - after.memory,     before.vcpus - after.vcpus,
      before.demand - after.demand,     before.stall - after.stall,
      before.traffic - after.traffic,   before.affinity - after.affinity,
      before.conflict - after.conflict,
  };
  switch (std::max_element(gains.begin(), gains.end()) - gains.begin()) {
    case 1:
      return against(state.vcpu_ratio(from), state.vcpu_ratio(to), "cpus given to VMs");
    case 2:
      return against(state.demand_ratio(from), state.demand_ratio(to), "cpus asked for");
    case 3:
      return "the ranks on " + here + " ask for " +
             figure(state.demand_ratio(from) * state.cpus(from), 1) + " of its " +
             figure(state.cpus(from), 0) + " cpus and hold up their jobs";
    case 4:
      return "it exchanges " + figure(state.traffic_with(v, to) / 1e6, 1) + " MB/s with VMs on " +
             there + ", " + figure(state.traffic_with(v, from) / 1e6, 1) + " MB/s with those on " +
             here;
    case 5:
      return "VMs of its affinity group '" + state.source(v).affinity + "' run on " + there;
    case 6:
      return here + " runs another VM of its anti-affinity group '" +
             state.source(v).anti_affinity + "'";
    default:
      return against(state.memory_ratio(from), state.memory_ratio(to), "memory in use");
  }
}

}  // namespace mare::policy
