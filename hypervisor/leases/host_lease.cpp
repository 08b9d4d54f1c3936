#include "hypervisor/leases/host_lease.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "hypervisor/leases/storage_thread.h"
#include "hypervisor/leases/vm_processes.h"
#include "orchestrator/core/boot_clock.h"

namespace mare::leases {
namespace {

/// So often a dead watchdog is noticed; until then the agent's own thread does its work.
constexpr int kLooksBetweenWatchdogs = 20;

std::optional<MonotonicTime> time_in(const std::string& stamp, const std::string& boot) {
  const std::string prefix = boot + "/";
  if (!stamp.starts_with(prefix)) return std::nullopt;
  MonotonicTime::rep count = 0;
  const char* end = stamp.data() + stamp.size();
  const auto [stop, error] = std::from_chars(stamp.data() + prefix.size(), end, count);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return MonotonicTime{count};
}

/// On the thread that may hang with the storage: a renewal must not. Where there is no storage it
/// has no voice, and mared's has to do.
NoteSeen look_and_make_room(const std::string& note) {
  const NoteSeen seen = look_for_note(note);
  if (seen != NoteSeen::Unknown || !make_room_for_notes(note)) return seen;
  return look_for_note(note);
}

}  // namespace

Renewal renew(const LeaseTicket& ticket, const LeaseRecord& before, const std::string& boot,
              MonotonicTime now, Milliseconds longest) {
  Renewal out;
  out.answer.stamp = boot + "/" + std::to_string(now.count());
  out.answer.enforced = before.enforced;
  const auto stamped = time_in(ticket.stamp, boot);
  const auto term = longest.count() > 0 ? std::min(ticket.term, longest) : ticket.term;
  if (!stamped || *stamped > now || *stamped + term <= now) return out;
  out.answer.granted = true;
  out.answer.enforced = ticket.enforced;
  out.record = LeaseRecord{};
  if (!ticket.enforced) return out;
  const MonotonicTime said = before.enforced ? before.said_until : MonotonicTime{0};
  out.record = LeaseRecord{true, term, std::max(said, *stamped + term), ticket.note};
  return out;
}

HostLease::HostLease(HostLeaseOptions options, Log& log)
    : options_(std::move(options)),
      log_(log),
      boot_(boot_id()),
      file_(options_.places.record(), boot_),
      clock_(std::make_unique<BootClock>()),
      storage_(std::make_unique<StorageThread>(look_and_make_room)),
      enforcer_(*clock_, log,
                {[this] { return file_.read(); },
                 [this] { return end_all_vms(options_.places.vm_status_directory); },
                 [this](std::optional<MonotonicTime> until) {
                   if (deadman_) deadman_->say(until);
                 }},
                *storage_) {}

HostLease::~HostLease() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
}

Status HostLease::open() {
  std::error_code failed;
  std::filesystem::create_directories(options_.places.directory, failed);
  if (failed) {
    return make_error(Code::Unavailable,
                      "can't make '" + options_.places.directory + "': " + failed.message());
  }
  deadman_ = deadman_at(options_.places.deadman, DeadmanVoice::Agent, log_);
  if (deadman_ && !watchdog_lives(options_.places)) deadman_->forget(DeadmanVoice::Watchdog);
  step();
  thread_ = std::thread([this] { run(); });
  return ok_status();
}

void HostLease::step() {
  const std::lock_guard lock(stepping_);
  enforcer_.step();
}

void HostLease::run() {
  for (int i = 0; !ends_; ++i) {
    step();
    if (i % kLooksBetweenWatchdogs == 0 && enforcer_.enforced()) {
      auto lives = start_watchdog(options_.watchdog, options_.places);
      if (!lives) log_.warn("lease", lives.error().text());
    }
    clock_->sleep_for(kLookEvery);
  }
}

Result<LeaseAnswer> HostLease::renew(const LeaseTicket& ticket) {
  const std::lock_guard lock(renewing_);
  const auto before = file_.read();
  if (!before) return before.error();
  auto renewal = leases::renew(ticket, *before, boot_, clock_->now(), options_.longest);
  if (!renewal.record) return renewal.answer;
  if (ticket.enforced) {
    // What can't be enforced is not granted: mared would count on its end.
    auto can = can_end_vms(options_.places.vm_status_directory);
    if (can) can = start_watchdog(options_.watchdog, options_.places);
    if (!can) return can.error();
  }
  if (auto kept = file_.write(*renewal.record); !kept) return kept.error();
  // Before it is granted: were the agent to end now, the switches would know.
  step();
  return renewal.answer;
}

Status HostLease::check() const {
  if (enforcer_.may_run()) return ok_status();
  return make_error(Code::FailedPrecondition,
                    "this host's lease is over: neither mared nor the shared storage says that "
                    "VMs may run here",
                    "they may again once mared reaches this host");
}

}  // namespace mare::leases
