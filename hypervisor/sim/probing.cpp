#include "hypervisor/sim/probing.h"

#include <algorithm>
#include <array>

namespace mare::sim {
namespace {

constexpr std::string_view kLinkScheme = "simlink://";
constexpr std::chrono::seconds kSinkLives{10};
constexpr std::size_t kWordBytes = 8;
constexpr Microseconds kRoundTrip{200};
constexpr Bytes kBurst = mebibytes(4);
constexpr std::size_t kHeatRegions = 64;
constexpr int kCyclesKept = 16;
/// As the agent's watcher looks (docs/dirty-log.md).
constexpr std::array<double, 11> kPoints{0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 40, 64};

/// How it wrote at that time.
Guest::Writing writing_at(const Guest& guest, Time when) {
  for (const auto& past : guest.past_writing) {
    if (when < past.until) return past;
  }
  return {when, guest.model.dirty_bytes_per_s, guest.model.wws};
}

/// A cycle that began then, as far as it got until now.
DirtyCycle cycle_of(const World& world, const Guest& guest, Time began) {
  const Guest::Writing writing = writing_at(guest, began);
  const double wws = static_cast<double>(std::min(writing.wws, guest.spec.memory).count);
  const double watched =
      std::min(kPoints.back(), std::chrono::duration<double>(world.now - began).count());
  DirtyCycle cycle;
  cycle.began = world.wall(began);
  for (const double wall_s : kPoints) {
    if (wall_s > watched) break;
    // In seconds of running at speed 1, as statistics() counts.
    const double progress_s = guest.work.rate * wall_s;
    const auto micro = [](double span) {
      return std::chrono::duration_cast<Microseconds>(nanoseconds_up(span));
    };
    const double unique = std::min(writing.dirty_bytes_per_s * progress_s, wws);
    cycle.points.push_back(
        {micro(wall_s), micro(progress_s), Bytes{static_cast<std::uint64_t>(unique)}});
  }
  return cycle;
}

/// One cycle tells all of a guest that always wrote in the same way; of another the last ones are
/// told, one after the other since its start.
std::vector<DirtyCycle> cycles_of(const World& world, const Guest& guest) {
  const double logged = std::chrono::duration<double>(world.now - guest.log_began).count();
  const double uptime = std::min(guest.uptime.at(world.now), logged);
  const double length = kPoints.back();
  if (guest.past_writing.empty()) {
    return {cycle_of(world, guest, world.now - nanoseconds_up(std::min(length, uptime)))};
  }
  const Time start = world.now - nanoseconds_up(uptime);
  const int last = static_cast<int>(uptime / length);
  std::vector<DirtyCycle> out;
  for (int i = std::max(0, last - kCyclesKept + 1); i <= last; ++i) {
    out.push_back(cycle_of(world, guest, start + nanoseconds_up(i * length)));
  }
  return out;
}

/// The share of a link that one flow more would get: what is left, or else an equal part.
double share_of(double capacity, double used, int users) {
  return std::max(capacity - used, capacity / (users + 1));
}

/// From one host to another, beside the migrations that use any of their links.
double available(const World& world, const HostId& from, const HostId& to) {
  const auto share = [&](double capacity, const auto& uses) {
    double used = 0;
    int users = 0;
    for (const auto& [serial, move] : world.moves) {
      if (move.rate <= 0 || !uses(move)) continue;
      used += move.rate;
      ++users;
    }
    return share_of(capacity, used, users);
  };
  const double out = share(world.hosts.at(from).model.uplink.value,
                           [&](const Move& move) { return move.source == from; });
  const double in = share(world.hosts.at(to).model.uplink.value,
                          [&](const Move& move) { return move.destination == to; });
  const auto pair = std::minmax(from, to);
  const auto limit = world.links.find(pair);
  if (limit == world.links.end()) return std::min(out, in);
  const double between = share(limit->second, [&](const Move& move) {
    return std::minmax(move.source, move.destination) == pair;
  });
  return std::min({out, in, between});
}

}  // namespace

MemoryProfile profile_of(const World& world, const Guest& guest) {
  const auto memory = static_cast<double>(guest.spec.memory.count);
  MemoryProfile out;
  out.source = "sim";
  out.taken = world.wall(world.now);
  out.total = guest.spec.memory;
  out.emulated = guest.model.emulated;
  out.compressed_fraction = std::clamp(guest.model.compressed_fraction, 0.01, 1.0);
  out.hot_compressed_fraction = out.compressed_fraction;
  out.cycles = cycles_of(world, guest);
  const auto& points = out.cycles.back().points;
  const double written = points.empty() ? 0 : static_cast<double>(points.back().unique.count);
  // The WWS lies at the beginning of the memory.
  for (std::size_t i = 0; i < kHeatRegions; ++i) {
    const double regions = memory > 0 ? written / memory * kHeatRegions : 0;
    out.heat.push_back(std::clamp(regions - static_cast<double>(i), 0.0, 1.0));
  }
  return out;
}

std::string open_sink(World& world, const HostId& id, SimHost& host) {
  std::erase_if(host.link_sinks, [&](const auto& sink) { return sink.second < world.now; });
  const std::string word = make_hex(world.rng, kWordBytes);
  host.link_sinks.emplace(word, world.now + kSinkLives);
  return std::string(kLinkScheme) + id.value + "/" + word;
}

Result<LinkMeasurement> send_burst(World& world, const HostId& from, const std::string& uri) {
  const auto slash = uri.rfind('/');
  const bool good = uri.starts_with(kLinkScheme) && slash >= kLinkScheme.size();
  const HostId to{good ? uri.substr(kLinkScheme.size(), slash - kLinkScheme.size()) : ""};
  SimHost* there = world.find_host(to);
  if (there == nullptr || to == from) {
    return make_error(Code::InvalidArgument, "'" + uri + "' is not a sink of another host");
  }
  if (!world.on_network(*there) || !world.on_network(world.hosts.at(from))) {
    return make_error(Code::Unavailable, "no route from " + from.value + " to " + to.value);
  }
  const auto sink = there->link_sinks.find(uri.substr(slash + 1));
  if (sink == there->link_sinks.end() || sink->second < world.now) {
    return make_error(Code::Unavailable, "host " + to.value + " has no such sink",
                      "open a new one: each is for one measurement within 10 s");
  }
  there->link_sinks.erase(sink);
  const auto crowd = world.crowded_links.find(std::minmax(from, to));
  const bool crowded = crowd != world.crowded_links.end() && crowd->second.bursts-- > 0;
  const double share = crowded ? crowd->second.share : 1;
  return LinkMeasurement{{share * available(world, from, to)}, kRoundTrip, kBurst};
}

}  // namespace mare::sim
