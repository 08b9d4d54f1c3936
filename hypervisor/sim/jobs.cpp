// Programs in guests: an mpirun over several guests goes as fast as its slowest rank and stalls
// while one of them is paused. What it leaves behind (claim, output, exit code) is on the shared
// file system and outlives every VM.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "hypervisor/sim/sim_guests.h"
#include "hypervisor/sim/world.h"

namespace mare::sim {
namespace {

constexpr double kDefaultWork_s = 5;
constexpr double kLineEvery_s = 0.5;
constexpr double kInCollective_s = 0.01;

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::string_view> after(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return text.substr(prefix.size());
}

/// The addresses of "--host a:1,b:1".
std::vector<Ipv4Address> hosts_of(const GuestRun& program) {
  std::vector<Ipv4Address> found;
  for (std::size_t i = 0; i + 1 < program.arguments.size(); ++i) {
    if (program.arguments[i] != "--host") continue;
    std::string_view list = program.arguments[i + 1];
    while (!list.empty()) {
      const auto comma = std::min(list.find(','), list.size());
      const auto item = list.substr(0, comma);
      if (auto address = Ipv4Address::parse(item.substr(0, item.find(':')))) {
        found.push_back(*address);
      }
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
  }
  return found;
}

/// What a program has written after `done_s` seconds of its work.
std::string lines(double work_s, double done_s) {
  const int total = static_cast<int>(std::floor(work_s / kLineEvery_s));
  const int written = std::min(total, static_cast<int>(std::floor(done_s / kLineEvery_s)));
  std::string text;
  for (int i = 1; i <= written; ++i) {
    text += "iteration " + std::to_string(i) + " of " + std::to_string(total) + "\n";
  }
  return text;
}

/// A value that depends on the job alone, so that a test can tell the right answer from another.
std::string last_line(const JobId& job) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : job.value) {
    hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ULL;
  }
  char text[32];
  std::snprintf(text, sizeof text, "checksum %016llx\n", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace

Run& World::start_run(const GuestRun& program, const std::shared_ptr<Guest>& launcher) {
  Run& run = runs[program.directory];
  run.program = program;
  run.launcher = launcher;
  run.progress.since = now;
  run.work_s = kDefaultWork_s;
  for (const auto& argument : program.arguments) {
    if (auto value = after(argument, "--sim-work="))
      run.work_s = number(*value).value_or(run.work_s);
    if (auto value = after(argument, "--sim-collective-every=")) {
      run.collective_every_s = number(*value).value_or(0);
    }
    if (after(argument, "MARE_SAFE_POINTS=") == program.id.value) run.announces = true;
    if (auto value = after(argument, "--sim-exit=")) {
      run.wanted_exit = static_cast<int>(number(*value).value_or(0));
    }
  }
  for (const auto& address : hosts_of(program)) {
    std::shared_ptr<Guest> found;
    for (const auto& [id, host] : hosts) {
      for (const auto& [vm, copy] : host.copies) {
        if (copy.guest->spec.ip == address) found = copy.guest;
      }
    }
    // One that is paused or away for a moment is waited for, as TCP does.
    if (!found || found->uptime.at(now) < found->model.boot.count()) {
      end_run(run, 1, "mpirun: no answer from " + address.text());
      return run;
    }
    run.ranks.push_back(found);
  }
  if (run.ranks.empty()) run.ranks.push_back(launcher);
  refresh_runs();
  return run;
}

void World::settle(Run& run) {
  if (run.ended() || run.progress.at(now) < run.work_s) return;
  run.progress.set_rate(now, 0);
  run.progress.value = run.work_s;
  run.exit_code = run.wanted_exit;
}

void World::end_run(Run& run, int exit_code, const std::string& complaint) {
  settle(run);
  if (run.ended()) return;
  run.progress.set_rate(now, 0);
  run.exit_code = exit_code;
  run.complaint = complaint;
}

void World::refresh_runs() {
  for (auto& [directory, run] : runs) {
    settle(run);
    if (run.ended()) continue;
    double rate = 1e9;
    for (const auto& guest : run.ranks) {
      double own = guest->work.rate;
      const auto where = runs_on(*guest);
      // TCP outlives a network that is away for a while; the ranks wait for each other.
      const bool away = !where || !on_network(hosts.at(*where));
      if (away && run.ranks.size() > 1) own = 0;
      rate = std::min(rate, own);
    }
    run.progress.set_rate(now, rate);
  }
}

void World::guest_ended(const std::shared_ptr<Guest>& guest) {
  for (auto& [directory, run] : runs) {
    settle(run);
    if (run.ended()) continue;
    if (run.launcher == guest) {
      run.progress.set_rate(now, 0);
      run.lost = true;  // nobody was left to write its exit status
    } else if (std::find(run.ranks.begin(), run.ranks.end(), guest) != run.ranks.end()) {
      end_run(run, 1, "mpirun: lost the connection to " + guest->spec.id.value);
    }
  }
}

std::string World::output_of(const Run& run) const {
  const double done_s = std::min(run.progress.at(now), run.work_s);
  std::string text = lines(run.work_s, done_s);
  if (!run.complaint.empty()) {
    text += run.complaint + "\n";
  } else if (run.exit_code && !run.lost) {
    text += last_line(run.program.id);
  }
  return text;
}

SafePointStatus World::safe_points_of(const Guest& guest, const JobId& job) const {
  SafePointStatus status;
  for (const auto& [directory, run] : runs) {
    const double done_s = run.progress.at(now);
    const bool runs_still = !run.ended() && done_s < run.work_s;
    if (run.program.id != job || !run.announces || !runs_still) continue;
    if (run.collective_every_s <= 0) continue;
    const auto here = std::count_if(run.ranks.begin(), run.ranks.end(),
                                    [&](const auto& rank) { return rank.get() == &guest; });
    // The first one is that of MPI_Init.
    const double since_s = std::fmod(done_s, run.collective_every_s);
    status.ranks += static_cast<int>(here);
    status.entered += static_cast<std::uint64_t>(done_s / run.collective_every_s + 1) *
                      static_cast<std::uint64_t>(here);
    if (since_s < kInCollective_s) {
      status.inside += static_cast<int>(here);
    } else if (here > 0) {
      status.outside = std::chrono::floor<Milliseconds>(Seconds{since_s - kInCollective_s});
    }
  }
  return status;
}

std::string complete_output(const JobId& job, double work_s) {
  return lines(work_s, work_s) + last_line(job);
}

}  // namespace mare::sim
