// What the two threads of a migration do: one sits in libvirt's call, the other looks and steers.
#include <algorithm>
#include <chrono>

#include "hypervisor/libvirt/copies.h"
#include "hypervisor/libvirt/domain_xml.h"
#include "hypervisor/libvirt/outgoing.h"
#include "hypervisor/libvirt/sending.h"
#include "hypervisor/libvirt/watching.h"

namespace mare::libvirt {

bool set_rate(virDomainPtr domain, BytesPerSecond rate) {
  const auto mebibytes = static_cast<unsigned long>(mebibytes_per_s(rate));
  return virDomainMigrateSetMaxSpeed(domain, mebibytes, 0) == 0;
}

namespace {

/// It stops for its last round when that would take less.
bool set_downtime(virDomainPtr domain, Milliseconds limit) {
  const auto least = std::max<Milliseconds::rep>(1, limit.count());
  return virDomainMigrateSetMaxDowntime(domain, static_cast<unsigned long long>(least), 0) == 0;
}

bool has_downtime(virDomainPtr domain, Milliseconds limit) {
  unsigned long long told = 0;
  return virDomainMigrateGetMaxDowntime(domain, &told, 0) == 0 && Milliseconds{told} == limit;
}

constexpr auto kSampleEvery = std::chrono::milliseconds{40};
// One that is far from its end has nothing to steer, and QEMU answers on the thread that its guest
// waits for; where a round begins an event tells.
constexpr auto kSampleFarEvery = std::chrono::milliseconds{160};
constexpr auto kAtOnce = std::chrono::milliseconds{2};
// libvirt's job begins before the destination's QEMU does: seconds, on a host that is busy. Longer
// than that, and no longer, as it may be by a way on which nothing is to be seen.
constexpr auto kConnectsWithin = std::chrono::seconds{10};
// libvirt's last event comes on another connection than the call's answer.
constexpr auto kFiguresWithin = std::chrono::milliseconds{250};
constexpr double kUsualPage = 4096;
// No rest that a VM leaves that runs is sent so soon: with it as its limit a migration does not
// end, as long as its rounds are longer than the guest's pauses (holding_pace()).
constexpr Milliseconds kNeverDowntime{1};

DomainHandle find(virConnectPtr connection, const std::string& uuid) {
  return DomainHandle{virDomainLookupByUUIDString(connection, uuid.c_str())};
}

/// Owns libvirt's list of named parameters while it is built.
class Params {
 public:
  explicit Params(const MigrateCall& call) {
    for (const auto& [name, value] : call.parameters) {
      std::visit([this, name = name](const auto& given) { add(name, given); }, value);
    }
  }
  ~Params() { virTypedParamsFree(list_, count_); }
  Params(const Params&) = delete;
  Params& operator=(const Params&) = delete;
  virTypedParameterPtr list() const { return list_; }
  unsigned count() const { return static_cast<unsigned>(count_); }

 private:
  void add(const char* name, const std::string& value) {
    virTypedParamsAddString(&list_, &count_, &capacity_, name, value.c_str());
  }
  void add(const char* name, unsigned long long value) {
    virTypedParamsAddULLong(&list_, &count_, &capacity_, name, value);
  }
  void add(const char* name, int value) {
    virTypedParamsAddInt(&list_, &count_, &capacity_, name, value);
  }

  virTypedParameterPtr list_ = nullptr;
  int count_ = 0;
  int capacity_ = 0;
};

Status ask(virDomainPtr domain, const Route& route, const MigrateCall& call) {
  const Params params(call);
  const int done = virDomainMigrateToURI3(domain, route.libvirt_uri.c_str(), params.list(),
                                          params.count(), call.flags);
  return done == 0 ? ok_status() : Status(last_error("libvirt"));
}

/// The whole migration, as one libvirt call.
Status migrate(virDomainPtr domain, const MigrationTicket& ticket, const Route& route) {
  // Always set: a migration that was cancelled may have left its own.
  const bool holds = ticket.holds_switch && holds_its_switch(ticket.sending.strategy);
  const auto downtime = holds ? kNeverDowntime : ticket.downtime_limit.value_or(kUsualDowntime);
  if (!set_downtime(domain, downtime)) return last_error("the downtime limit can't be set");
  const std::string xml =
      take_text(virDomainGetXMLDesc(domain, VIR_DOMAIN_XML_MIGRATABLE | VIR_DOMAIN_XML_SECURE));
  if (xml.empty()) return last_error("its description can't be read");
  const std::string there = retarget(xml, route.bridge, route.console, route.preloads);
  Status done = ask(domain, route, call_for(ticket, route, there));
  // A VM that an older QEMU started, before the host got its present one, does not know it.
  if (done || !refuses_switchover_bandwidth(ticket.sending, done.error().message)) return done;
  MigrationTicket without = ticket;
  without.sending.switchover_bandwidth.reset();
  return ask(domain, route, call_for(without, route, there));
}

}  // namespace

bool allow_switch(virDomainPtr domain) {
  // The rate first, or it would switch at that at which it held.
  if (has_downtime(domain, kNeverDowntime)) set_rate(domain, kNoLimit);
  return set_downtime(domain, kUsualDowntime);
}

// --- the caller

void Outgoing::call(const std::shared_ptr<Shared>& shared, const JobPtr& job,
                    const std::string& uri, bool mending) {
  auto connection = open_connection(uri);
  const DomainHandle domain = connection ? find(connection->get(), job->ticket.vm.uuid) : nullptr;
  if (!domain) {
    const Error why = connection ? last_error("the VM is not here") : connection.error();
    // Without a copy there is nothing to mend either: the destination tells what came of it.
    if (!mending || why.code == Code::NotFound)
      return finish(*shared, *job, OutgoingPhase::Failed, why.message);
    const std::lock_guard lock(shared->mutex);
    job->broken = true;
    job->status.error = why.message;
    return;
  }
  if (mending) {
    return call_ended(shared, job, domain.get(),
                      ask(domain.get(), job->route, call_to_mend(job->ticket, job->route)));
  }
  {
    const std::lock_guard lock(shared->mutex);
    if (shared->closed) return;
    if (!job->cancel) job->calling = true;
  }
  if (!job->calling) return finish(*shared, *job, OutgoingPhase::Cancelled, "cancelled");
  open_notice(*shared, *job);
  call_ended(shared, job, domain.get(), migrate(domain.get(), job->ticket, job->route));
}

void Outgoing::call_ended(const std::shared_ptr<Shared>& shared, const JobPtr& job,
                          virDomainPtr domain, const Status& done) {
  if (done) {
    wait_for_figures(*shared, *job);
    return finish(*shared, *job, OutgoingPhase::Completed, "");
  }
  // Not over: the source holds pages that the destination needs.
  if (in_post_copy(domain) != PostCopy::None) {
    const std::lock_guard lock(shared->mutex);
    if (shared->closed) return;
    job->broken = true;
    job->switched = true;
    job->status.phase = OutgoingPhase::PostCopying;
    job->status.error = done.error().message;
    shared->log.warn(
        "libvirt", "post-copy of '" + job->ticket.vm.id.value + "' broke: " + done.error().message);
    return;
  }
  draw_back(*shared, *job, domain);
  bool cancelled = done.error().code == Code::Cancelled;
  {
    // Of one that was told to end QEMU now and then says that its channel broke.
    const std::lock_guard lock(shared->mutex);
    cancelled = cancelled || job->cancel;
  }
  const std::string remedy = remedy_for(job->route, done.error().message);
  finish(*shared, *job, cancelled ? OutgoingPhase::Cancelled : OutgoingPhase::Failed,
         done.error().message + (remedy.empty() ? "" : "; " + remedy));
}

/// The destination is to hear when the VM stands still.
void Outgoing::open_notice(Shared& shared, Job& job) {
  const auto address = NoticeAddress::parse(job.route.notice);
  if (!address) return;
  auto notice = NoticeSender::open(*address, job.ticket.vm.uuid);
  const std::lock_guard lock(shared.mutex);
  if (notice) {
    job.notice.emplace(std::move(*notice));
  } else if (!shared.closed) {
    shared.log.warn("libvirt",
                    "the destination of '" + job.ticket.vm.id.value +
                        "' will not hear when it stands still: " + notice.error().text());
  }
}

/// A VM that stays is announced anew: the destination drew its frames when it stood still. Only if
/// it runs here, as one that does not may run there.
void Outgoing::draw_back(Shared& shared, Job& job, virDomainPtr domain) {
  int state = VIR_DOMAIN_NOSTATE;
  const bool runs =
      virDomainGetState(domain, &state, nullptr, 0) == 0 && state == VIR_DOMAIN_RUNNING;
  const std::lock_guard lock(shared.mutex);
  if (shared.closed || !runs || !job.paused || !job.notice) return;
  const VmSpec& vm = job.ticket.vm;
  if (const auto sent = shared.announcer.announce(vm.mac, vm.ip); !sent) {
    shared.log.warn("libvirt", "VM '" + vm.id.value +
                                   "', which stays, is not announced: " + sent.error().text());
  }
}

void Outgoing::wait_for_figures(Shared& shared, Job& job) {
  std::unique_lock lock(shared.mutex);
  shared.changed.wait_for(lock, kFiguresWithin,
                          [&] { return shared.closed || job.figures.has_value(); });
}

void Outgoing::finish(Shared& shared, Job& job, OutgoingPhase phase, const std::string& error) {
  const std::lock_guard lock(shared.mutex);
  if (shared.closed) return;  // the clock and the log are gone, and nobody asks any more
  const auto since_began = [&](MonotonicTime when) {
    return std::chrono::duration_cast<Microseconds>(when - job.began);
  };
  const MonotonicTime now = shared.clock.now();
  const bool post_copied = job.status.phase == OutgoingPhase::PostCopying;
  job.ended = now;
  job.status.phase = phase;
  job.status.error = error;
  RoundKeeper::End end;
  end.elapsed = since_began(now);
  if (job.paused) end.paused = since_began(*job.paused);
  if (phase == OutgoingPhase::Completed) {
    // Without QEMU's own figure: nobody could look after the last round, it sent what was left.
    job.status.transferred = job.figures && job.figures->transferred > job.status.transferred
                                 ? job.figures->transferred
                                 : job.status.transferred + job.status.remaining;
    job.status.remaining = Bytes{0};
    // The call tidies up after the VM runs there; the last round was over before.
    if (job.figures) end.elapsed = std::min(end.elapsed, since_began(job.figures_at));
    if (job.paused && !post_copied && job.figures && job.figures->downtime) {
      end.elapsed = std::min(end.elapsed, *end.paused + *job.figures->downtime);
    }
  }
  end.transferred = job.status.transferred;
  job.rounds.close(end);
  shared.changed.notify_all();
  shared.log.info("libvirt", "migration of '" + job.ticket.vm.id.value +
                                 "': " + std::string(to_string(phase)) +
                                 (error.empty() ? "" : ", " + error));
}

// --- the sampler

/// Under the mutex.
bool Outgoing::needs_no_close_look(const Job& job) const {
  const bool asked = job.cancel || job.stop || job.post_copy || job.switched || job.paused;
  if (asked || job.holding || !job.connected) return false;
  const Strategy strategy = job.ticket.sending.strategy;
  const bool left_alone = strategy == Strategy::PreCopy || strategy == Strategy::Throttled ||
                          strategy == Strategy::StopAndCopy;
  return left_alone && is_far_from_end(job.status.remaining, BytesPerSecond{link_});
}

std::optional<Outgoing::Chores> Outgoing::next_chores(const JobPtr& job) {
  std::unique_lock lock(shared_->mutex);
  auto wait = std::chrono::duration_cast<std::chrono::nanoseconds>(
      needs_no_close_look(*job) ? kSampleFarEvery : kSampleEvery);
  // A guest that sweeps over its memory in 1.5 s has gone far in 40 ms.
  if (job->switch_at && !job->post_copy) {
    wait =
        std::clamp<std::chrono::nanoseconds>(*job->switch_at - shared_->clock.now(), kAtOnce, wait);
  }
  shared_->changed.wait_for(
      lock, wait, [&] { return shared_->closed || job->ended.has_value() || job->look_now; });
  if (shared_->closed || job->ended) return std::nullopt;
  job->look_now = false;
  Chores chores;
  chores.cancel = job->cancel && job->calling && !job->switched;
  chores.post_copy = job->post_copy && !job->switched && !job->cancel;
  chores.stop = job->stop && !job->paused && !job->switched && !job->cancel;
  chores.watch_post_copy = job->switched;
  if (job->holds_since && shared_->clock.now() - *job->holds_since > kHoldsAtMost) {
    job->released = true;
  }
  chores.release = job->holding && job->released && !job->paused && !job->switched;
  return chores;
}

void Outgoing::sample(const JobPtr& job) {
  while (const auto chores = next_chores(job)) {
    auto connection = connection_.get();
    if (!connection) continue;
    const DomainHandle domain = find(connection->get(), job->ticket.vm.uuid);
    if (!domain) {
      if (last_error_code() == VIR_ERR_NO_DOMAIN) end_if_broken(*job);
      continue;
    }
    bound_queues(*job);
    watch_link(*job, domain.get());
    // Before libvirt's job has begun there is nothing to steer: what was asked of it in that moment
    // would be lost. So everything is asked again and again until it is done.
    if (!take_sample(*job, domain.get())) continue;
    Chores todo = *chores;
    todo.post_copy |= follow_sweep(*job, domain.get()) && !todo.cancel;
    do_chores(*job, domain.get(), todo);
    control_rate(*job, domain.get());
    follow_limit(*job, domain.get());
    hold(*job, domain.get());
  }
}

/// Nobody sits in a call that could tell of its end.
void Outgoing::end_if_broken(Job& job) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (!job.broken || job.ended || shared_->closed) return;
    job.broken = false;
  }
  finish(*shared_, job, OutgoingPhase::Failed, "the VM's copy here ended in post-copy");
}

void Outgoing::do_chores(Job& job, virDomainPtr domain, const Chores& chores) {
  if (chores.cancel) {
    virDomainAbortJob(domain);
    return;
  }
  if (chores.stop && virDomainSuspend(domain) == 0) on_paused(job.ticket.vm.uuid);
  if (chores.post_copy) switch_to_post_copy(job, domain);
  if (chores.release) {
    const Sending& sending = job.ticket.sending;
    // The others of its job switch now: a limit that nobody asked for is not worth another round.
    const auto limit = sending.later_downtime_limit
                           ? *sending.later_downtime_limit
                           : job.ticket.downtime_limit.value_or(kUsualDowntime);
    auto rate = job.ticket.bandwidth_limit;
    if (job.rate) rate = job.rate->rate();
    // In this order, or it would switch at the rate at which it held.
    if (set_rate(domain, rate.value_or(kNoLimit)) && set_downtime(domain, limit)) {
      const std::lock_guard lock(shared_->mutex);
      job.holding = false;
      job.status.holds = false;
    }
  }
  // The event may have been missed; only the domain's state says that there is no way back.
  if (chores.watch_post_copy && in_post_copy(domain) == PostCopy::Going) {
    on_post_copy(job.ticket.vm.uuid);
  }
}

/// Asked for until libvirt takes it. The stream is to be known by then, both here and at the
/// destination, which looks as often: what connects later carries what the guest waits for.
void Outgoing::switch_to_post_copy(Job& job, virDomainPtr domain) {
  const MonotonicTime now = shared_->clock.now();
  if (!job.switches_since) job.switches_since = now;
  const bool known = job.connected || job.unbounded;
  if (!known && job.queues && now - *job.switches_since < kConnectsWithin) return;
  if (virDomainMigrateStartPostCopy(domain, 0) != 0) return;
  const std::lock_guard lock(shared_->mutex);
  job.switched = true;
}

/// libvirt's call may wait without end for a destination whose emulator waits for a page: only the
/// domain's state tells then that the connection broke.
void Outgoing::watch_link(Job& job, virDomainPtr domain) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (!job.switched || job.broken || job.ended) return;
  }
  const bool starved = in_post_copy(domain) == PostCopy::Broken;
  const std::lock_guard lock(shared_->mutex);
  if (shared_->closed || job.broken || job.ended || job.starved == starved) return;
  job.starved = starved;
  job.status.phase = OutgoingPhase::PostCopying;
  job.status.error = starved ? "the connection between the hosts broke" : "";
}

/// Connections come one by one, and anew when a broken post-copy is mended.
void Outgoing::bound_queues(Job& job) {
  if (job.unbounded) return;
  if (!job.queues) {
    auto pid = find_qemu(pid_directory(connection_.uri()), job.ticket.vm.key());
    auto queues = pid ? dirtylog::TcpQueues::open(*pid) : Result<dirtylog::TcpQueues>(pid.error());
    if (!queues) return;  // it ends
    job.queues.emplace(std::move(*queues));
  }
  auto way = dirtylog::Way::Bulk;
  {
    // From the switch on a second connection carries what the guest waits for.
    const std::lock_guard lock(shared_->mutex);
    if (job.switched) way = dirtylog::Way::Urgent;
  }
  const auto bounded = job.queues->bound_unsent(job.unsent, way);
  if (bounded) {
    job.connected = job.connected || *bounded > 0;
    return;
  }
  job.unbounded = true;
  const std::lock_guard lock(shared_->mutex);
  if (shared_->closed) return;
  shared_->log.warn("libvirt", "what waits to be sent for '" + job.ticket.vm.id.value +
                                   "' is not bounded: " + bounded.error().text());
}

/// False when it is not being sent at this moment.
bool Outgoing::take_sample(Job& job, virDomainPtr domain) {
  JobStats stats;
  if (!stats.read(domain, 0) || !stats.sending()) return false;
  const auto page = static_cast<double>(stats.natural(VIR_DOMAIN_JOB_MEMORY_PAGE_SIZE));
  const auto pages = static_cast<double>(stats.natural(VIR_DOMAIN_JOB_MEMORY_DIRTY_RATE));
  RoundKeeper::Sample sample;
  sample.iteration = stats.natural(VIR_DOMAIN_JOB_MEMORY_ITERATION);
  sample.transferred = Bytes{stats.natural(VIR_DOMAIN_JOB_DATA_PROCESSED)};
  sample.remaining = Bytes{stats.natural(VIR_DOMAIN_JOB_DATA_REMAINING)};
  sample.dirty_bytes_per_s = pages * (page > 0 ? page : kUsualPage);
  const Bytes total{stats.natural(VIR_DOMAIN_JOB_MEMORY_TOTAL)};
  const std::lock_guard lock(shared_->mutex);
  if (shared_->closed || job.ended) return false;
  if (total.count == 0) return true;  // nothing was sent yet
  sample.elapsed = std::chrono::duration_cast<Microseconds>(shared_->clock.now() - job.began);
  job.rounds.add(sample);
  job.status.memory_total = total;
  job.status.transferred = sample.transferred;
  job.status.remaining = sample.remaining;
  job.status.dirty_bytes_per_s = sample.dirty_bytes_per_s;
  job.iteration = sample.iteration;
  // QEMU counts from 1: the first round after so many whole ones.
  const Sending& sending = job.ticket.sending;
  if (sending.strategy == Strategy::Hybrid &&
      sample.iteration > static_cast<unsigned long long>(std::max(1, sending.pre_copy_rounds))) {
    if (!job.rounds_over) job.rounds_over = shared_->clock.now();
    if (sending.sweep_switch.waits.empty()) job.post_copy = true;
  }
  return true;
}

/// Rounds that hover above the limit that was chosen may fit into the longer one.
void Outgoing::follow_hovering(Job& job, Milliseconds later) {
  const auto& rounds = job.rounds.rounds();
  if (rounds.size() < 2 || rounds.size() == job.hovering_seen) return;
  if (rounds.back().remaining.count == 0) return;  // no sample of it yet
  const auto fits = fits_into(later, job.ticket, rounds, job.status.transferred);
  if (!fits) return;
  job.hovering_seen = rounds.size();
  const Bytes marked = rounds.back().remaining + rounds.back().sent;
  job.limit_rises =
      job.hovering.limit_rises(static_cast<double>(marked.count), static_cast<double>(fits->count));
}

/// A limit of the downtime that was chosen, and that its rounds hang above, gives way. And one that
/// goes by the rate that it was told is less on a link that has become slower.
void Outgoing::follow_limit(Job& job, virDomainPtr domain) {
  Milliseconds limit{0};
  {
    const std::lock_guard lock(shared_->mutex);
    // One that was released has its last limit.
    if (job.holding || job.paused || (job.ticket.holds_switch && job.released)) return;
    const auto& rounds = job.rounds.rounds();
    const Sending& sending = job.ticket.sending;
    // What throttles or limits its rounds says nothing of the last one.
    const bool at_full_rate = sending.strategy == Strategy::PreCopy && !job.ticket.bandwidth_limit;
    const auto seen = at_full_rate ? recent_rate(rounds) : std::nullopt;
    const auto on_this_link = [&](Milliseconds asked) {
      if (!sending.switchover_bandwidth || !seen) return asked;
      return limit_on_slower_link(asked, *sending.switchover_bandwidth, *seen);
    };
    limit = on_this_link(downtime_limit_of(job.ticket, rounds.size(), kUsualDowntime));
    if (sending.limit_rises_early && sending.later_downtime_limit) {
      const Milliseconds later = on_this_link(*sending.later_downtime_limit);
      follow_hovering(job, later);
      if (job.limit_rises) limit = later;
    }
    if (limit == job.limit.value_or(downtime_limit_of(job.ticket, 0, kUsualDowntime))) return;
  }
  if (!set_downtime(domain, limit)) return;  // tried again at the next look
  const std::lock_guard lock(shared_->mutex);
  job.limit = limit;
}

/// From the moment at which it could switch it only keeps up with what the guest writes, at a rate
/// of its own for each round.
void Outgoing::hold(Job& job, virDomainPtr domain) {
  std::optional<BytesPerSecond> pace;
  std::size_t round = 0;
  {
    const std::lock_guard lock(shared_->mutex);
    if (!job.holding || job.released || job.paused) return;
    const MonotonicTime now = shared_->clock.now();
    const auto& rounds = job.rounds.rounds();
    if (!job.holds_since) {
      if (!could_be_last(rounds, job.status.transferred,
                         std::chrono::duration_cast<Microseconds>(now - job.began),
                         downtime_limit_of(job.ticket, rounds.size(), kUsualDowntime))) {
        return;
      }
      job.holds_since = now;
      job.status.holds = true;
    }
    round = rounds.size();
    if (round == job.held_rounds) return;
    pace = holding_pace(rounds);
    if (!pace) return;
    if (const auto& limit = job.ticket.bandwidth_limit) {
      pace->value = std::min(pace->value, limit->value);
    }
  }
  if (set_rate(domain, *pace)) job.held_rounds = round;
}

void Outgoing::control_rate(Job& job, virDomainPtr domain) {
  BytesPerSecond rate;
  {
    const std::lock_guard lock(shared_->mutex);
    const auto& rounds = job.rounds.rounds();
    if (!job.rate || job.paused || rounds.size() < 2 || rounds.size() == job.rated_rounds) return;
    if (job.holds_since && job.holding) return;
    const Round& before = rounds[rounds.size() - 2];
    const Round& now = rounds.back();
    if (now.remaining.count == 0 && now.sent.count == 0) return;  // no sample of it yet
    job.rated_rounds = rounds.size();
    // What the round has sent already was dirtied in the one before as well.
    rate = job.rate->next_round(now.remaining + now.sent, before.duration);
  }
  set_rate(domain, rate);
}

}  // namespace mare::libvirt
