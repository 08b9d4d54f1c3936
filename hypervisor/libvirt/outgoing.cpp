#include "hypervisor/libvirt/outgoing.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "hypervisor/libvirt/sending.h"

namespace mare::libvirt {
namespace {

constexpr auto kKeepEnded = std::chrono::minutes{10};
// Two threads each; more at once only slow each other on one link.
constexpr std::size_t kMostAtOnce = 64;

Microseconds since(MonotonicTime began, MonotonicTime now) {
  return std::chrono::duration_cast<Microseconds>(now - began);
}

}  // namespace

Outgoing::Outgoing(Connection& connection, Announcer& announcer, Clock& clock, Log& log)
    : connection_(connection), shared_(std::make_shared<Shared>(announcer, clock, log)) {}

Outgoing::~Outgoing() {
  std::map<std::string, JobPtr> jobs;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->closed = true;
    jobs.swap(shared_->jobs);
  }
  shared_->changed.notify_all();
  for (auto& [uuid, job] : jobs) {
    job->sampler.join();
    if (job->ended) {
      job->caller.join();
    } else {
      job->caller.detach();
    }
  }
}

void Outgoing::set_link(BytesPerSecond goodput) {
  link_ = goodput.value;
}

Outgoing::Beginning::Beginning(Outgoing& of, std::string uuid) : of_(of), uuid_(std::move(uuid)) {
  const std::lock_guard lock(of_.shared_->mutex);
  of_.beginning_.push_back(this);
}

Outgoing::Beginning::~Beginning() {
  const std::lock_guard lock(of_.shared_->mutex);
  std::erase(of_.beginning_, this);
}

Status Outgoing::begin(const Beginning& prepared, const MigrationTicket& ticket, const Route& route,
                       dirtylog::PageSet swept) {
  std::vector<JobPtr> over;
  Status begun;
  {
    const std::lock_guard lock(shared_->mutex);
    if (prepared.cancelled_) {
      return make_error(Code::Cancelled, "the migration of VM '" + ticket.vm.id.value +
                                             "' was cancelled before it had begun");
    }
    over = take_old_locked(ticket.vm.uuid, ticket.operation);
    const auto known = shared_->jobs.find(ticket.vm.uuid);
    const bool again =
        known != shared_->jobs.end() && known->second->ticket.operation == ticket.operation;
    begun = again ? ok_status() : begin_locked(ticket, route, false, std::move(swept));
  }
  join(over);
  return begun;
}

Status Outgoing::mend(const MigrationTicket& ticket, const Route& route,
                      const std::string& why_not) {
  std::vector<JobPtr> over;
  std::thread returned;
  Status begun = ok_status();
  {
    const std::lock_guard lock(shared_->mutex);
    over = take_old_locked(ticket.vm.uuid, ticket.operation);
    const auto known = shared_->jobs.find(ticket.vm.uuid);
    const bool unknown = known == shared_->jobs.end();
    const bool broken = unknown || (known->second->broken && !known->second->ended);
    const bool starved = !unknown && known->second->starved && !known->second->ended;
    if ((broken || starved) && !why_not.empty()) {
      begun = make_error(Code::Unsupported, why_not);
    } else if (!broken && starved) {
      begun = make_error(Code::Unavailable, "libvirt's call has not come back yet");
    } else if (unknown) {
      begun = begin_locked(ticket, route, true);
    } else if (JobPtr job = known->second; job->broken && !job->ended) {
      job->broken = false;
      job->starved = false;
      job->status.error.clear();
      returned =
          std::exchange(job->caller, std::thread([shared = shared_, job, uri = connection_.uri()] {
                          call(shared, job, uri, true);
                        }));
    }
  }
  if (returned.joinable()) returned.join();  // it broke: its thread is over
  join(over);
  return begun;
}

void Outgoing::join(const std::vector<JobPtr>& over) {
  // They ended: their threads return at once, but the sampler may need the lock for that.
  for (const auto& job : over) {
    job->caller.join();
    job->sampler.join();
  }
}

Status Outgoing::admit_locked(const MigrationTicket& ticket) {
  const auto known = shared_->jobs.find(ticket.vm.uuid);
  if (known != shared_->jobs.end()) {
    return make_error(Code::Conflict, "VM '" + ticket.vm.id.value + "' is being migrated by " +
                                          known->second->ticket.operation.value);
  }
  const auto going = std::count_if(shared_->jobs.begin(), shared_->jobs.end(),
                                   [](const auto& one) { return !one.second->ended; });
  if (static_cast<std::size_t>(going) >= kMostAtOnce) {
    return make_error(Code::ResourceExhausted, "too many migrations out of this host",
                      "wait until some have ended");
  }
  return ok_status();
}

Status Outgoing::begin_locked(const MigrationTicket& ticket, const Route& route, bool mending,
                              dirtylog::PageSet swept) {
  if (auto admitted = admit_locked(ticket); !admitted) return admitted;
  auto job = std::make_shared<Job>();
  job->ticket = ticket;
  job->route = route;
  job->began = shared_->clock.now();
  job->status.phase = mending ? OutgoingPhase::PostCopying : OutgoingPhase::PreCopying;
  job->status.operation = ticket.operation;
  job->status.memory_total = ticket.vm.memory;
  job->status.remaining = ticket.vm.memory;
  job->post_copy = ticket.sending.strategy == Strategy::PostCopy && !mending;
  job->switched = mending;
  job->holding = ticket.holds_switch && holds_its_switch(ticket.sending.strategy) && !mending;
  job->swept = std::move(swept);
  job->unsent = dirtylog::unsent_limit(BytesPerSecond{link_}, connections(ticket.sending));
  if (ticket.sending.strategy == Strategy::RateControlled) {
    job->rate.emplace(ticket.sending, ticket.downtime_limit.value_or(kUsualDowntime));
  }
  shared_->jobs.emplace(ticket.vm.uuid, job);
  job->caller = std::thread([shared = shared_, job, uri = connection_.uri(), mending] {
    call(shared, job, uri, mending);
  });
  job->sampler = std::thread([this, job] { sample(job); });
  return ok_status();
}

/// Takes out the VM's last migration if it ended and is of another operation, and all that ended
/// long ago.
std::vector<Outgoing::JobPtr> Outgoing::take_old_locked(const std::string& uuid,
                                                        const OperationId& operation) {
  std::vector<JobPtr> out;
  const MonotonicTime now = shared_->clock.now();
  for (auto it = shared_->jobs.begin(); it != shared_->jobs.end();) {
    const Job& job = *it->second;
    const bool replaced = it->first == uuid && job.ticket.operation != operation;
    if (job.ended && (replaced || now - *job.ended > kKeepEnded)) {
      out.push_back(it->second);
      it = shared_->jobs.erase(it);
    } else {
      ++it;
    }
  }
  return out;
}

OutgoingStatus Outgoing::status(const std::string& uuid) {
  const std::lock_guard lock(shared_->mutex);
  const auto known = shared_->jobs.find(uuid);
  if (known == shared_->jobs.end()) return {};
  const Job& job = *known->second;
  OutgoingStatus out = job.status;
  out.rounds = job.rounds.rounds();
  out.elapsed = since(job.began, job.ended ? *job.ended : shared_->clock.now());
  return out;
}

Outgoing::Job* Outgoing::running_locked(const std::string& uuid) {
  const auto known = shared_->jobs.find(uuid);
  return known == shared_->jobs.end() || known->second->ended ? nullptr : known->second.get();
}

bool Outgoing::running(const std::string& uuid) {
  const std::lock_guard lock(shared_->mutex);
  return running_locked(uuid) != nullptr;
}

bool Outgoing::any_runs() {
  const std::lock_guard lock(shared_->mutex);
  return std::any_of(shared_->jobs.begin(), shared_->jobs.end(),
                     [](const auto& one) { return !one.second->ended; });
}

bool Outgoing::knows(const std::string& uuid, const OperationId& operation) {
  const std::lock_guard lock(shared_->mutex);
  const auto known = shared_->jobs.find(uuid);
  return known != shared_->jobs.end() && known->second->ticket.operation == operation;
}

bool Outgoing::cancel(const std::string& uuid) {
  const std::lock_guard lock(shared_->mutex);
  for (auto* one : beginning_) one->cancelled_ = one->cancelled_ || one->uuid_ == uuid;
  Job* job = running_locked(uuid);
  if (job == nullptr) return false;
  // There is no way back, and an abort of a post-copy would only break it.
  if (job->status.phase == OutgoingPhase::PostCopying) return true;
  job->cancel = true;
  job->look_now = true;
  shared_->changed.notify_all();
  return true;
}

Status Outgoing::force(const std::string& uuid, LimitAction how) {
  const std::lock_guard lock(shared_->mutex);
  Job* job = running_locked(uuid);
  if (job == nullptr) return make_error(Code::NotFound, "no migration of the VM runs here");
  if (job->status.phase == OutgoingPhase::PostCopying) return ok_status();
  switch (how) {
    case LimitAction::Cancel:
      job->cancel = true;
      break;
    case LimitAction::StopAndCopy:
      job->stop = true;
      break;
    case LimitAction::PostCopy:
      if (!may_post_copy(job->ticket.sending)) {
        return make_error(
            Code::FailedPrecondition,
            "the migration of VM '" + job->ticket.vm.id.value + "' was begun without post-copy",
            "allow it from the start");
      }
      job->post_copy = true;
      break;
  }
  job->look_now = true;
  shared_->changed.notify_all();
  return ok_status();
}

Status Outgoing::release(const std::string& uuid) {
  const std::lock_guard lock(shared_->mutex);
  Job* job = running_locked(uuid);
  if (job == nullptr) return ok_status();
  job->released = true;
  job->look_now = true;
  shared_->changed.notify_all();
  return ok_status();
}

void Outgoing::on_paused(const std::string& uuid) {
  const std::lock_guard lock(shared_->mutex);
  Job* job = running_locked(uuid);
  if (job == nullptr || job->paused) return;
  if (job->notice) job->notice->send();
  job->paused = shared_->clock.now();
  job->status.holds = false;
  job->status.paused_at = shared_->clock.wall_now();
  if (job->status.phase == OutgoingPhase::PreCopying) job->status.phase = OutgoingPhase::Switching;
}

void Outgoing::on_post_copy(const std::string& uuid) {
  on_paused(uuid);
  const std::lock_guard lock(shared_->mutex);
  Job* job = running_locked(uuid);
  if (job == nullptr) return;
  job->switched = true;
  job->status.phase = OutgoingPhase::PostCopying;
}

void Outgoing::on_iteration(const std::string& uuid, int iteration) {
  const std::lock_guard lock(shared_->mutex);
  Job* job = running_locked(uuid);
  if (job == nullptr || iteration < 1) return;
  job->rounds.turn(static_cast<unsigned long long>(iteration),
                   since(job->began, shared_->clock.now()));
  job->look_now = true;
  shared_->changed.notify_all();
}

void Outgoing::on_completed(const std::string& uuid, const CompletedJob& figures) {
  const std::lock_guard lock(shared_->mutex);
  Job* job = running_locked(uuid);
  if (job == nullptr) return;
  job->figures = figures;
  job->figures_at = shared_->clock.now();
  shared_->changed.notify_all();
}

}  // namespace mare::libvirt
