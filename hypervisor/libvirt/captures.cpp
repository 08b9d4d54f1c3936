#include "hypervisor/libvirt/captures.h"

#include <algorithm>

#include "hypervisor/libvirt/copies.h"
#include "hypervisor/libvirt/handles.h"
#include "hypervisor/libvirt/monitor.h"

namespace mare::libvirt {
namespace {

constexpr std::size_t kDroppedKept = 1'000;
constexpr Milliseconds kDropWithin{10'000};
constexpr Milliseconds kPrepareWithin{10'000};  // of another call that does
constexpr Milliseconds kStopWithin{10'000};     // of another call that does
constexpr Milliseconds kLongestAnswer{1'000};

bool is_active(CapturePhase phase) {
  return phase == CapturePhase::Ready || phase == CapturePhase::Holding ||
         phase == CapturePhase::Taken;
}

}  // namespace

Captures::Captures(Connection& connection, std::function<void(const std::string& uuid)> over,
                   Clock& clock, Log& log)
    : connection_(connection), over_(std::move(over)), clock_(clock), log_(log) {}

Captures::~Captures() {
  std::map<std::string, JobPtr> jobs;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    jobs.swap(jobs_);
  }
  changed_.notify_all();
  for (auto& [uuid, job] : jobs) join(job);
}

void Captures::join(JobPtr job) {
  if (job && job->thread.joinable()) job->thread.join();
}

bool Captures::is_active_locked(const std::string& uuid) const {
  const auto found = jobs_.find(uuid);
  return found != jobs_.end() &&
         (found->second->preparing || is_active(found->second->status.phase) ||
          found->second->waits_to_leave());
}

bool Captures::active(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  return is_active_locked(uuid);
}

bool Captures::holds(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  return is_active_locked(uuid) && !jobs_.at(uuid)->released;
}

bool Captures::left(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(uuid);
  return found != jobs_.end() && found->second->ticket.leaves && found->second->released;
}

CaptureLoad Captures::note_loaded(const std::string& uuid, const CheckpointId& from,
                                  MonotonicTime began, MonotonicTime read, bool mapped) {
  const CaptureLoad load{std::chrono::duration_cast<Microseconds>(read - began),
                         std::chrono::duration_cast<Microseconds>(clock_.now() - read), mapped};
  const std::lock_guard lock(mutex_);
  loaded_[uuid] = {from, load};
  return load;
}

std::optional<CaptureLoad> Captures::was_loaded(const std::string& uuid, const CheckpointId& from) {
  const std::lock_guard lock(mutex_);
  const auto found = loaded_.find(uuid);
  if (found == loaded_.end() || found->second.first != from) return std::nullopt;
  return found->second.second;
}

Error Captures::failed_locked(const Job& job) const {
  return make_error(Code::FailedPrecondition,
                    "VM '" + job.ticket.vm.id.value + "' was not captured: " + job.status.error);
}

Captures::JobPtr Captures::find_locked(const VmKey& vm, const CheckpointId& checkpoint) const {
  const auto found = jobs_.find(vm.uuid);
  const bool same = found != jobs_.end() && found->second->ticket.checkpoint == checkpoint;
  return same ? found->second : nullptr;
}

std::optional<Result<CaptureStatus>> Captures::known(const CaptureTicket& ticket) {
  const std::string name = "VM '" + ticket.vm.id.value + "'";
  std::unique_lock lock(mutex_);
  if (const JobPtr job = find_locked(ticket.vm, ticket.checkpoint);
      job && !changed_.wait_for(lock, kPrepareWithin, [&] { return closed_ || !job->preparing; })) {
    return make_error(Code::Unavailable, "the capture of " + name + " is still being prepared");
  }
  const auto same = std::make_pair(ticket.vm.uuid, ticket.checkpoint);
  if (std::find(dropped_.begin(), dropped_.end(), same) != dropped_.end()) {
    return make_error(Code::FailedPrecondition,
                      ticket.checkpoint.value + " of " + name + " was dropped");
  }
  if (const JobPtr job = find_locked(ticket.vm, ticket.checkpoint)) return job->status;
  if (!is_active_locked(ticket.vm.uuid)) return std::nullopt;
  return make_error(Code::Conflict, name + " is being captured for " +
                                        jobs_.at(ticket.vm.uuid)->ticket.checkpoint.value);
}

Result<CaptureStatus> Captures::prepare(const CaptureTicket& ticket, bool copy_on_write,
                                        const std::function<Status()>& make_way) {
  auto job = std::make_shared<Job>();
  job->ticket = ticket;
  job->copy_on_write = copy_on_write;
  job->status.checkpoint = ticket.checkpoint;
  JobPtr former;
  {
    const std::lock_guard lock(mutex_);
    if (is_active_locked(ticket.vm.uuid)) {
      return make_error(Code::Conflict, "VM '" + ticket.vm.id.value + "' is being captured");
    }
    former = std::exchange(jobs_[ticket.vm.uuid], job);
  }
  join(former);
  Status ready = make_way();
  if (ready) ready = make_ready(*job);
  {
    const std::lock_guard lock(mutex_);
    if (ready && !job->dropped && !closed_) {
      job->preparing = false;
      job->began = clock_.now();
      job->status.phase = CapturePhase::Ready;
      job->thread = std::thread([this, job] { run(job); });
      changed_.notify_all();
      return job->status;
    }
  }
  return give_up(job, ready);
}

Error Captures::give_up(const JobPtr& job, const Status& ready) {
  // QEMU notices that nobody reads; what it was told is taken back.
  if (job->domain) stop_sending(job->domain.get());
  job->file.reset();
  const std::lock_guard lock(mutex_);
  job->preparing = false;
  job->over = true;
  if (const auto now = jobs_.find(job->ticket.vm.uuid); now != jobs_.end() && now->second == job) {
    jobs_.erase(now);
  }
  changed_.notify_all();
  if (!ready) return ready.error();
  return make_error(Code::FailedPrecondition, job->ticket.checkpoint.value + " of VM '" +
                                                  job->ticket.vm.id.value + "' was dropped");
}

Result<CaptureStatus> Captures::begin(const CaptureTicket& ticket) {
  std::unique_lock lock(mutex_);
  const JobPtr job = find_locked(ticket.vm, ticket.checkpoint);
  if (!job || (job->dropped && job->status.phase == CapturePhase::Ready)) {
    return make_error(Code::FailedPrecondition,
                      ticket.checkpoint.value + " of VM '" + ticket.vm.id.value + "' was given up");
  }
  if (job->status.phase == CapturePhase::Ready) {
    job->status.phase = CapturePhase::Holding;
    job->stopping = job->held = true;
    job->began = clock_.now();
    lock.unlock();
    const bool stands = virDomainSuspend(job->domain.get()) == 0;
    const WallTime stopped = clock_.wall_now();
    std::optional<Error> refused;
    if (!stands) refused = last_error("VM '" + ticket.vm.id.value + "' can't be paused");
    lock.lock();
    job->stopping = false;
    job->refused = refused;
    if (stands) job->status.stopped = stopped;
    changed_.notify_all();
  }
  const auto until = [&](Milliseconds limit, auto done) {
    changed_.wait_for(lock, limit, [&] { return closed_ || done(); });
  };
  until(kStopWithin, [&] { return !job->stopping; });
  if (job->refused) {
    // It may have been paused all the same: then it goes on again.
    until(kDropWithin, [&] { return job->over; });
    return *job->refused;
  }
  until(std::min(ticket.answer_within, kLongestAnswer),
        [&] { return job->status.phase != CapturePhase::Holding; });
  return job->status;
}

CaptureStatus Captures::status(const VmKey& vm) {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(vm.uuid);
  return found == jobs_.end() ? CaptureStatus{} : found->second->status;
}

Result<CaptureStatus> Captures::release(const VmKey& vm, const CheckpointId& checkpoint) {
  JobPtr job;
  {
    const std::lock_guard lock(mutex_);
    job = find_locked(vm, checkpoint);
    if (!job) {
      return make_error(Code::NotFound,
                        "no capture of VM '" + vm.id.value + "' for " + checkpoint.value);
    }
    const CapturePhase phase = job->status.phase;
    if (phase == CapturePhase::Failed || job->dropped) return failed_locked(*job);
    const bool enough =
        phase == CapturePhase::Durable || (phase == CapturePhase::Taken && !job->ticket.leaves);
    if (!enough) {
      return make_error(Code::FailedPrecondition,
                        "the state of VM '" + vm.id.value + "' is not taken yet");
    }
    if (job->released) return job->status;
    if (job->ticket.leaves && job->releasing) {
      return make_error(Code::Unavailable, "VM '" + vm.id.value + "' is being ended already");
    }
    job->releasing = true;
  }
  const Status runs = job->ticket.leaves ? end_copy(*job) : let_go_on(*job);
  const std::lock_guard lock(mutex_);
  job->releasing = false;
  if (!runs) return runs.error();
  job->released = true;
  job->status.resumed = clock_.wall_now();
  changed_.notify_all();
  if (job->status.phase == CapturePhase::Failed) return failed_locked(*job);
  return job->status;
}

/// By the capture's own connection: nothing is looked up first. If that one broke, by the other.
Status Captures::let_go_on(const Job& job) {
  if (virDomainResume(job.domain.get()) == 0) return ok_status();
  auto connection = connection_.get();
  if (!connection) return connection.error();
  const DomainHandle domain{
      virDomainLookupByUUIDString(connection->get(), job.ticket.vm.uuid.c_str())};
  if (domain && virDomainResume(domain.get()) == 0) return ok_status();
  return last_error("VM '" + job.ticket.vm.id.value + "' can't go on");
}

/// Its file is whole, so a copy that is gone already is as good.
Status Captures::end_copy(const Job& job) {
  if (virDomainDestroyFlags(job.domain.get(), VIR_DOMAIN_DESTROY_DEFAULT) == 0) return ok_status();
  auto connection = connection_.get();
  if (!connection) return connection.error();
  const DomainHandle domain{
      virDomainLookupByUUIDString(connection->get(), job.ticket.vm.uuid.c_str())};
  if (!domain) {
    const Error error = last_read_error("VM '" + job.ticket.vm.id.value + "'");
    return error.code == Code::NotFound ? ok_status() : Status(error);
  }
  if (virDomainDestroyFlags(domain.get(), VIR_DOMAIN_DESTROY_DEFAULT) == 0) return ok_status();
  return last_error("VM '" + job.ticket.vm.id.value + "' can't be ended");
}

Status Captures::drop(const VmKey& vm, const CheckpointId& checkpoint, const std::string& path) {
  JobPtr job;
  {
    std::unique_lock lock(mutex_);
    job = find_locked(vm, checkpoint);
    if (job && job->ticket.leaves && job->releasing) {
      return make_error(Code::Unavailable, "VM '" + vm.id.value + "' is being ended");
    }
    dropped_.emplace_back(vm.uuid, checkpoint);
    if (dropped_.size() > kDroppedKept) dropped_.pop_front();
    if (job) {
      job->dropped = true;
      changed_.notify_all();
      if (!changed_.wait_for(lock, kDropWithin, [&] { return closed_ || job->over; })) {
        return make_error(Code::OutcomeUnknown,
                          "the capture of VM '" + vm.id.value + "' does not end");
      }
      if (const auto now = jobs_.find(vm.uuid); now != jobs_.end() && now->second == job) {
        jobs_.erase(now);
      }
    }
  }
  if (job) join(job);
  if (!job && !active(vm.uuid)) clear_leftovers(vm);
  return checkpointfile::remove_part(path);
}

/// What a former agent's capture left in QEMU, if it is not libvirt's own migration.
void Captures::clear_leftovers(const VmKey& vm) {
  auto connection = connection_.get();
  if (!connection) return;
  const DomainHandle domain{virDomainLookupByUUIDString(connection->get(), vm.uuid.c_str())};
  if (!domain) return;
  auto seen = look_at(domain.get(), false);
  if (!seen || seen->copy == Copy::Absent || seen->copy == Copy::Incoming || seen->sending) return;
  auto reply = ask_monitor(domain.get(), R"({"execute":"query-migrate-capabilities"})");
  const bool ours = reply && reply->find(R"("state":true,"capability":"background-snapshot")") !=
                                 std::string::npos;
  if (ours) stop_sending(domain.get());
}

}  // namespace mare::libvirt
