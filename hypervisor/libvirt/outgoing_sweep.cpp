// A hybrid migration of a guest that sweeps: where it is, and when to switch (docs/adr/0014). All
// on the sampler's thread.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "hypervisor/libvirt/copies.h"
#include "hypervisor/libvirt/outgoing.h"
#include "hypervisor/libvirt/sending.h"
#include "hypervisor/libvirt/watching.h"

namespace mare::libvirt {
namespace {

using std::chrono::nanoseconds;

// A guest that sweeps is found by what it writes meanwhile, or not.
constexpr std::chrono::milliseconds kTrackedFor{100};
constexpr std::chrono::seconds kTrackedAtMost{2};
// So long before it may have to be held up it is looked for, so that it need not wait for that.
constexpr Seconds kSeenBefore{0.4};
// The rest of the last whole round is kept back until it is known where the guest is, and then
// until it is where it had best be, at the least rate that libvirt knows. So much is left then at
// the most, and more than goes meanwhile.
constexpr BytesPerSecond kHeldRate{1024.0 * 1024};
constexpr Bytes kLeastHeld = mebibytes(16);

Bytes held_rest(const SweepSwitch& how) {
  const auto held = how.longest_hold + kTrackedAtMost;
  const double goes = 1.5 * std::chrono::duration<double>(held).count() * kHeldRate.value;
  return std::max(kLeastHeld, Bytes{static_cast<std::uint64_t>(goes)});
}

}  // namespace

/// True once: now it is to be switched.
bool Outgoing::follow_sweep(Job& job, virDomainPtr domain) {
  const SweepSwitch& how = job.ticket.sending.sweep_switch;
  if (how.waits.empty()) return false;
  Bytes rest;
  bool stands_still = false;
  {
    const std::lock_guard lock(shared_->mutex);
    stands_still = job.paused || job.stop || job.switched;
    rest = job.status.remaining;
  }
  if (stands_still || job.rounds_over) {
    let_go(job, domain);
  } else {
    hold_round(job, domain, rest);
  }
  if (stands_still || !job.rounds_over)
    return false;  // somebody's limit came first, or it is early
  find_switch(job);
  if (!job.switch_at || shared_->clock.now() < *job.switch_at) return false;
  const std::lock_guard lock(shared_->mutex);
  // Asked for until it has come.
  const bool told_before = std::exchange(job.post_copy, true);
  if (told_before || shared_->closed) return false;
  if (!job.after_rounds) return true;
  const auto before = std::chrono::duration_cast<Milliseconds>(how.sweep.period);
  const auto period = std::chrono::duration_cast<Milliseconds>(job.pace.seen(how).sweep.period);
  const auto waited = std::chrono::duration_cast<Milliseconds>(*job.switch_at - *job.rounds_over);
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(),
                "was at %.2f of what it sweeps after its rounds, switches %lld ms later; it takes "
                "%lld ms for all of it, %lld before",
                job.after_rounds->place, static_cast<long long>(waited.count()),
                static_cast<long long>(period.count()), static_cast<long long>(before.count()));
  shared_->log.info("libvirt", "'" + job.ticket.vm.id.value + "' " + text.data());
  return true;
}

/// Where it was between the last look and this one. None: it is too early to look again, or nobody
/// knows yet, or, with a reason, nobody will.
std::optional<Sighting> Outgoing::sight(Job& job, std::string& why) {
  const MonotonicTime before = job.tracked;
  const MonotonicTime now = shared_->clock.now();
  const auto apart =
      std::max<nanoseconds>(kTrackedFor, job.ticket.sending.sweep_switch.sweep.period / 32);
  if (job.tracker && now - before < apart) return std::nullopt;
  if (!job.tracker) {
    const auto pid = find_qemu(pid_directory(connection_.uri()), job.ticket.vm.key());
    auto tracker = pid ? dirtylog::SweepTracker::open(*pid, job.ticket.vm.memory, job.swept)
                       : Result<dirtylog::SweepTracker>(pid.error());
    if (!tracker) {
      why = tracker.error().text();
      return std::nullopt;
    }
    job.tracker.emplace(std::move(*tracker));
  }
  const auto place = job.tracker->look();
  job.tracked = shared_->clock.now();
  if (!place) why = place.error().text();
  if (!place || !*place) return std::nullopt;
  const Sighting seen{**place, before + (now - before) / 2};
  job.pace.saw(seen, job.ticket.sending.sweep_switch.sweep);
  return seen;
}

/// The end of its last whole round comes near: it is held up until the guest is at the best place,
/// if that is near.
void Outgoing::hold_round(Job& job, virDomainPtr domain, Bytes rest) {
  const SweepSwitch how = job.pace.seen(job.ticket.sending.sweep_switch);
  if (how.longest_hold.count() == 0) return;
  const auto last =
      static_cast<unsigned long long>(std::max(1, job.ticket.sending.pre_copy_rounds));
  const double most = job.ticket.bandwidth_limit.value_or(kNoLimit).value;
  const double link = std::max(1.0, std::min(link_.load(), most));
  const Bytes held = held_rest(how);
  const Bytes near{held.count + static_cast<std::uint64_t>(link * kSeenBefore.count())};
  if (job.iteration != last || rest > near || rest.count == 0) return;
  if (job.let_go) {
    // The nearer to the round's end it was seen, the better it is known where it is then.
    std::string nowhere;
    static_cast<void>(sight(job, nowhere));
    return;
  }
  const MonotonicTime now = shared_->clock.now();
  const auto sends =
      std::chrono::duration_cast<nanoseconds>(Seconds{static_cast<double>(rest.count) / link});
  std::string why;
  if (!job.round_ends_at) {
    if (const auto seen = sight(job, why)) {
      job.round_ends_at = seen->at + sends + hold_of(how, seen->place, sends);
    } else if (job.held_since && now - *job.held_since > kTrackedAtMost) {
      why = "nothing in order";
    }
  }
  if (!why.empty() || (job.round_ends_at && now + sends >= *job.round_ends_at)) {
    job.let_go = !job.held_since;
    return let_go(job, domain);
  }
  if (job.held_since || rest > held) return;
  job.held_since = now;
  set_rate(domain, kHeldRate);
}

/// Asked again until libvirt has done it.
void Outgoing::let_go(Job& job, virDomainPtr domain) {
  if (!job.held_since || job.let_go) return;
  job.let_go = set_rate(domain, job.ticket.bandwidth_limit.value_or(kNoLimit));
}

/// Its whole rounds are over: by where it is the table tells when to switch; by its pace since, how
/// long it really takes to where it is to be then. At once if it is nowhere.
void Outgoing::find_switch(Job& job) {
  const MonotonicTime now = shared_->clock.now();
  std::string why;
  const auto seen = sight(job, why);
  if (seen && !job.after_rounds) job.after_rounds = seen;
  if (job.after_rounds) {
    const SweepSwitch how = job.pace.seen(job.ticket.sending.sweep_switch);
    const auto since = job.after_rounds->at - *job.rounds_over;
    job.switch_at = *job.rounds_over + wait_of(how, job.after_rounds->place, since);
    return;
  }
  if (job.switch_at || (why.empty() && now - *job.rounds_over <= kTrackedAtMost)) return;
  job.switch_at = now;
  const std::lock_guard lock(shared_->mutex);
  if (shared_->closed) return;
  shared_->log.info("libvirt", "'" + job.ticket.vm.id.value + "' switches at once: " +
                                   (why.empty() ? "it writes all over its memory" : why));
}

}  // namespace mare::libvirt
