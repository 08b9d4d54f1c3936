#include "hypervisor/sim/sim_guests.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "hypervisor/sim/world.h"

namespace mare::sim {
namespace {

/// The value of "mare.token=" on the guest's kernel line, as its daemon would read it.
std::string_view token_of(const VmSpec& spec) {
  constexpr std::string_view kKey = "mare.token=";
  const std::string_view line = spec.kernel_args;
  const auto at = line.find(kKey);
  if (at == std::string_view::npos) return {};
  const auto rest = line.substr(at + kKey.size());
  return rest.substr(0, rest.find(' '));
}

/// The guest behind that address, if it answers.
Result<std::shared_ptr<Guest>> reach(World& world, const GuestAddress& address) {
  const auto silent = make_error(Code::Unavailable, "guest " + address.vm.value + " at " +
                                                        address.ip.text() + " does not answer");
  const auto where = world.runs_on(address.vm);
  if (!where) return silent;
  auto guest = world.hosts.at(*where).copies.at(address.vm).guest;
  if (guest->spec.ip != address.ip || !world.answers(*guest)) return silent;
  const auto token = token_of(guest->spec);
  if (!token.empty() && token != address.token) {
    return make_error(Code::Unauthenticated,
                      "guest " + address.vm.value + " does not take our token");
  }
  return guest;
}

/// reach(), through the faults of the network.
Result<std::shared_ptr<Guest>> call(World& world, const GuestAddress& address) {
  const double lost = world.faults.guest_unanswered;
  if (lost > 0 && world.rng.chance(lost)) {
    return make_error(Code::Unavailable, "guest " + address.vm.value + ": no answer in time");
  }
  return reach(world, address);
}

RunStatus status_of(World& world, Run& run) {
  world.settle(run);
  RunStatus status;
  status.phase = run.lost ? RunPhase::Lost : run.exit_code ? RunPhase::Exited : RunPhase::Running;
  status.exit_code = run.exit_code;
  status.output_bytes = world.output_of(run).size();
  return status;
}

Result<Run*> find_run(World& world, const GuestRun& program) {
  const auto found = world.runs.find(program.directory);
  if (found == world.runs.end()) {
    return make_error(Code::NotFound, "nothing was started in " + program.directory);
  }
  if (found->second.program.id != program.id) {
    return make_error(Code::AlreadyExists,
                      program.directory + " belongs to " + found->second.program.id.value);
  }
  return &found->second;
}

/// Samples nothing: works out from the guest's stops what samples would have shown.
class SimProbe final : public GuestProbe {
 public:
  SimProbe(World& world, std::shared_ptr<Guest> guest, Microseconds period)
      : world_(world), guest_(std::move(guest)), period_(period), began_(world.now) {}

  void watch_closely(bool /*closely*/) override {}  // it knows when the guest stood still

  ProbeReport report(bool stop) override {
    const Locked locked(world_);
    const Time end = ended_.value_or(world_.now);
    if (stop && !ended_) ended_ = end;
    ProbeReport report;
    report.period = period_;
    Time stopped{0};
    const auto count = [&](Time from, Time to) {
      const Time first = std::max(from, began_);
      const Time last = std::min(to, end);
      if (last <= first) return;
      stopped += last - first;
      const auto silence = std::chrono::duration_cast<Microseconds>(last - first) + period_;
      if (silence <= report.longest_silence) return;
      report.longest_silence = silence;
      report.silence_began = world_.wall(first);
    };
    for (const auto& gap : guest_->stops) count(gap.from, gap.to);
    if (guest_->stopped) count(*guest_->stopped, end);
    report.sent = static_cast<int>((end - began_) / period_);
    report.answered = static_cast<int>((end - began_ - stopped) / period_);
    report.longest_silence = std::max(report.longest_silence, period_);
    if (report.answered >= 2) {
      report.clock_lost = std::chrono::duration_cast<Microseconds>(stopped);
    }
    return report;
  }

 private:
  World& world_;
  std::shared_ptr<Guest> guest_;
  Microseconds period_;
  Time began_;
  std::optional<Time> ended_;
};

}  // namespace

Result<GuestHello> SimGuests::hello(const GuestAddress& address) {
  Locked world = cluster_.lock();
  auto found = call(*world, address);
  if (!found) return found.error();
  const Guest& guest = **found;
  GuestHello hello;
  hello.boot_id = guest.boot_id;
  hello.memory_total = guest.spec.memory;
  hello.memory_available = guest.spec.memory;
  // 128: the taint bit of a kernel that has had an Oops (TAINT_DIE, bit 7).
  hello.taint = guest.kernel_faults > 0 ? 128 : 0;
  hello.kernel_faults = guest.kernel_faults;
  hello.kernel_first_fault = guest.first_fault;
  hello.uptime =
      std::chrono::duration_cast<Microseconds>(nanoseconds_up(guest.uptime.at(world->now)));
  return hello;
}

Result<RunStatus> SimGuests::run(const GuestAddress& address, const GuestRun& program) {
  Locked world = cluster_.lock();
  auto guest = reach(*world, address);
  if (!guest) return guest.error();
  const bool lost =
      world->faults.guest_unanswered > 0 && world->rng.chance(world->faults.guest_unanswered);
  if (lost && world->rng.chance(0.5)) {
    return make_error(Code::Unavailable, "guest " + address.vm.value + ": no answer in time");
  }
  if (!world->runs.contains(program.directory)) world->start_run(program, *guest);
  if (lost) {
    return make_error(Code::OutcomeUnknown, "guest " + address.vm.value + ": the answer was lost");
  }
  auto run = find_run(*world, program);
  if (!run) return run.error();
  return status_of(*world, **run);
}

Result<RunStatus> SimGuests::run_status(const GuestAddress& address, const GuestRun& program) {
  Locked world = cluster_.lock();
  auto guest = call(*world, address);
  if (!guest) return guest.error();
  (*guest)->looked_at = world->now;
  auto run = find_run(*world, program);
  if (run) return status_of(*world, **run);
  if (run.error().code == Code::NotFound) return RunStatus{};
  return run.error();
}

Result<std::string> SimGuests::output(const GuestAddress& address, const GuestRun& program,
                                      std::uint64_t offset, std::size_t most) {
  Locked world = cluster_.lock();
  auto guest = call(*world, address);
  if (!guest) return guest.error();
  auto run = find_run(*world, program);
  if (!run) return run.error();
  world->settle(**run);
  const std::string text = world->output_of(**run);
  if (offset >= text.size()) return std::string{};
  return text.substr(offset, most);
}

Status SimGuests::signal(const GuestAddress& address, const GuestRun& program, int number) {
  Locked world = cluster_.lock();
  auto guest = call(*world, address);
  if (!guest) return guest.error();
  auto run = find_run(*world, program);
  if (!run) return run.error().code == Code::NotFound ? Status() : Status(run.error());
  constexpr int kInterrupt = 2;
  constexpr int kKill = 9;
  constexpr int kTerminate = 15;
  // Only where the program runs can its process group be reached.
  if ((*run)->launcher != *guest) return ok_status();
  if (number == kInterrupt || number == kKill || number == kTerminate) {
    world->end_run(**run, 128 + number, "mpirun: ended by signal " + std::to_string(number));
  }
  return ok_status();
}

Result<SafePointStatus> SimGuests::safe_points(const GuestAddress& address, const JobId& job) {
  Locked world = cluster_.lock();
  auto guest = call(*world, address);
  if (!guest) return guest.error();
  return world->safe_points_of(**guest, job);
}

Status SimGuests::set_clock(const GuestAddress& address, WallTime now) {
  Locked world = cluster_.lock();
  auto guest = call(*world, address);
  if (!guest) return guest.error();
  (*guest)->clock_set = now;
  return ok_status();
}

Status SimGuests::came_back(const GuestAddress& address, WallTime now) {
  return set_clock(address, now);
}

Result<Bytes> SimGuests::drop_cache(const GuestAddress& address) {
  Locked world = cluster_.lock();
  auto guest = call(*world, address);
  if (!guest) return guest.error();
  return Bytes{0};
}

Status SimGuests::power_off(const GuestAddress& address) {
  Locked world = cluster_.lock();
  auto guest = call(*world, address);
  if (!guest) return guest.error();
  World& there = *world;
  there.at(there.now + nanoseconds_up((*guest)->model.shutdown.count()),
           [&there, guest = *guest] { there.power_off(guest); });
  return ok_status();
}

Result<std::unique_ptr<GuestProbe>> SimGuests::start_probe(const GuestAddress& address,
                                                           Microseconds period) {
  if (period <= Microseconds{0}) {
    return make_error(Code::InvalidArgument, "a probe needs a period above 0");
  }
  Locked world = cluster_.lock();
  auto guest = reach(*world, address);
  if (!guest) return guest.error();
  return std::unique_ptr<GuestProbe>(std::make_unique<SimProbe>(*world, *guest, period));
}

}  // namespace mare::sim
