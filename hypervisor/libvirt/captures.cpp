#include "hypervisor/libvirt/captures.h"

#include <algorithm>

#include "hypervisor/libvirt/copies.h"
#include "hypervisor/libvirt/handles.h"
#include "hypervisor/libvirt/monitor.h"

namespace mare::libvirt {
namespace {

constexpr std::size_t kDroppedKept = 1'000;
constexpr auto kDropWithin = std::chrono::seconds{10};

bool is_active(CapturePhase phase) {
  return phase == CapturePhase::Holding || phase == CapturePhase::Taken;
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
  return found != jobs_.end() && is_active(found->second->status.phase);
}

bool Captures::active(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  return is_active_locked(uuid);
}

bool Captures::holds(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  return is_active_locked(uuid) && !jobs_.at(uuid)->released;
}

void Captures::note_loaded(const std::string& uuid, const CheckpointId& from) {
  const std::lock_guard lock(mutex_);
  loaded_[uuid] = from;
}

bool Captures::was_loaded(const std::string& uuid, const CheckpointId& from) {
  const std::lock_guard lock(mutex_);
  const auto found = loaded_.find(uuid);
  return found != loaded_.end() && found->second == from;
}

Error Captures::failed_locked(const Job& job) const {
  return make_error(Code::FailedPrecondition,
                    "VM '" + job.ticket.vm.id.value + "' was not captured: " + job.status.error);
}

std::optional<Result<CaptureStatus>> Captures::known(const CaptureTicket& ticket) {
  const std::lock_guard lock(mutex_);
  const auto same = std::make_pair(ticket.vm.uuid, ticket.checkpoint);
  if (std::find(dropped_.begin(), dropped_.end(), same) != dropped_.end()) {
    return make_error(Code::FailedPrecondition,
                      ticket.checkpoint.value + " of VM '" + ticket.vm.id.value + "' was dropped");
  }
  const auto found = jobs_.find(ticket.vm.uuid);
  if (found == jobs_.end()) return std::nullopt;
  if (found->second->ticket.checkpoint == ticket.checkpoint) return found->second->status;
  if (!is_active(found->second->status.phase)) return std::nullopt;
  return make_error(Code::Conflict, "VM '" + ticket.vm.id.value + "' is being captured for " +
                                        found->second->ticket.checkpoint.value);
}

Result<CaptureStatus> Captures::begin(const CaptureTicket& ticket, bool copy_on_write) {
  auto job = std::make_shared<Job>();
  job->ticket = ticket;
  job->copy_on_write = copy_on_write;
  job->status.checkpoint = ticket.checkpoint;
  job->status.phase = CapturePhase::Holding;
  JobPtr former;
  {
    const std::lock_guard lock(mutex_);
    if (is_active_locked(ticket.vm.uuid)) {
      return make_error(Code::Conflict, "VM '" + ticket.vm.id.value + "' is being captured");
    }
    former = std::exchange(jobs_[ticket.vm.uuid], job);
  }
  join(former);
  const auto give_up = [&](const Error& error) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.erase(ticket.vm.uuid);
    }
    // QEMU notices that nobody reads; what it was told is taken back.
    if (job->domain) stop_sending(job->domain.get());
    return error;
  };
  if (auto ready = make_ready(*job); !ready) return give_up(ready.error());
  job->began = clock_.now();
  if (virDomainSuspend(job->domain.get()) != 0) {
    const Error error = last_error("VM '" + ticket.vm.id.value + "' can't be paused");
    (void)virDomainResume(job->domain.get());  // it may have been paused all the same
    return give_up(error);
  }
  const std::lock_guard lock(mutex_);
  job->status.stopped = clock_.wall_now();
  job->thread = std::thread([this, job] { run(job); });
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
    const auto found = jobs_.find(vm.uuid);
    if (found == jobs_.end() || found->second->ticket.checkpoint != checkpoint) {
      return make_error(Code::NotFound,
                        "no capture of VM '" + vm.id.value + "' for " + checkpoint.value);
    }
    job = found->second;
    if (job->status.phase == CapturePhase::Failed || job->dropped) return failed_locked(*job);
    if (job->status.phase == CapturePhase::Holding) {
      return make_error(Code::FailedPrecondition,
                        "the state of VM '" + vm.id.value + "' is not taken yet");
    }
    if (job->released) return job->status;
    job->releasing = true;
  }
  auto connection = connection_.get();
  const DomainHandle domain{
      connection ? virDomainLookupByUUIDString(connection->get(), vm.uuid.c_str()) : nullptr};
  const bool runs = domain && virDomainResume(domain.get()) == 0;
  const Error error = runs         ? Error{}
                      : connection ? last_error("VM '" + vm.id.value + "' can't go on")
                                   : connection.error();
  const std::lock_guard lock(mutex_);
  job->releasing = false;
  if (!runs) return error;
  job->released = true;
  job->status.resumed = clock_.wall_now();
  changed_.notify_all();
  if (job->status.phase == CapturePhase::Failed) return failed_locked(*job);
  return job->status;
}

Status Captures::drop(const VmKey& vm, const CheckpointId& checkpoint, const std::string& path) {
  JobPtr job;
  {
    std::unique_lock lock(mutex_);
    dropped_.emplace_back(vm.uuid, checkpoint);
    if (dropped_.size() > kDroppedKept) dropped_.pop_front();
    const auto found = jobs_.find(vm.uuid);
    if (found != jobs_.end() && found->second->ticket.checkpoint == checkpoint) {
      job = found->second;
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
