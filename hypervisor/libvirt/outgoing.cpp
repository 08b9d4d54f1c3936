#include "hypervisor/libvirt/outgoing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "hypervisor/libvirt/domain_xml.h"

namespace mare::libvirt {
namespace {

constexpr auto kSampleEvery = std::chrono::milliseconds{40};
constexpr auto kKeepEnded = std::chrono::minutes{10};
// Two threads each; more at once only slow each other on one link.
constexpr std::size_t kMostAtOnce = 64;
constexpr double kMib = 1024.0 * 1024.0;
constexpr double kUsualPage = 4096;
constexpr Milliseconds kUsualDowntime{300};  // QEMU's own

DomainHandle find(virConnectPtr connection, const std::string& uuid) {
  return DomainHandle{virDomainLookupByUUIDString(connection, uuid.c_str())};
}

/// Owns libvirt's list of named parameters while it is built.
class Params {
 public:
  ~Params() { virTypedParamsFree(list_, count_); }
  Params() = default;
  Params(const Params&) = delete;
  Params& operator=(const Params&) = delete;
  void add(const char* name, const std::string& value) {
    virTypedParamsAddString(&list_, &count_, &capacity_, name, value.c_str());
  }
  void add(const char* name, unsigned long long value) {
    virTypedParamsAddULLong(&list_, &count_, &capacity_, name, value);
  }
  virTypedParameterPtr list() const { return list_; }
  unsigned count() const { return static_cast<unsigned>(count_); }

 private:
  virTypedParameterPtr list_ = nullptr;
  int count_ = 0;
  int capacity_ = 0;
};

/// The whole migration, as one libvirt call.
Status migrate(virDomainPtr domain, const MigrationTicket& ticket, const Route& route) {
  // Always set: a migration that was cancelled may have left its own.
  const auto downtime = ticket.downtime_limit.value_or(kUsualDowntime);
  const auto downtime_ms = std::max<Milliseconds::rep>(1, downtime.count());
  if (virDomainMigrateSetMaxDowntime(domain, static_cast<unsigned long long>(downtime_ms), 0) !=
      0) {
    return last_error("the downtime limit can't be set");
  }
  const std::string xml =
      take_text(virDomainGetXMLDesc(domain, VIR_DOMAIN_XML_MIGRATABLE | VIR_DOMAIN_XML_SECURE));
  if (xml.empty()) return last_error("its description can't be read");
  Params params;
  params.add(VIR_MIGRATE_PARAM_URI, route.data_uri);
  const std::string moved = retarget(xml, route.bridge, route.console, route.preload);
  if (!moved.empty()) params.add(VIR_MIGRATE_PARAM_DEST_XML, moved);
  if (ticket.bandwidth_limit) {
    // libvirt counts in MiB/s and takes 0 for no limit.
    params.add(VIR_MIGRATE_PARAM_BANDWIDTH,
               static_cast<unsigned long long>(
                   std::max(1.0, std::floor(ticket.bandwidth_limit->value / kMib))));
  }
  // Not persistent: a definition that stays behind could be started a second time by hand.
  const unsigned flags = VIR_MIGRATE_LIVE | VIR_MIGRATE_PEER2PEER;
  const int done = virDomainMigrateToURI3(domain, route.libvirt_uri.c_str(), params.list(),
                                          params.count(), flags);
  return done == 0 ? ok_status() : Status(last_error("libvirt"));
}

}  // namespace

Outgoing::Outgoing(Connection& connection, Clock& clock, Log& log)
    : connection_(connection), shared_(std::make_shared<Shared>(clock, log)) {}

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

Status Outgoing::begin(const MigrationTicket& ticket, const Route& route) {
  std::vector<JobPtr> over;
  Status begun;
  {
    const std::lock_guard lock(shared_->mutex);
    over = take_old_locked(ticket.vm.uuid, ticket.operation);
    begun = begin_locked(ticket, route);
  }
  // They ended: their threads return at once, but the sampler may need the lock for that.
  for (const auto& job : over) {
    job->caller.join();
    job->sampler.join();
  }
  return begun;
}

Status Outgoing::begin_locked(const MigrationTicket& ticket, const Route& route) {
  auto& jobs = shared_->jobs;
  const auto known = jobs.find(ticket.vm.uuid);
  if (known != jobs.end()) {
    const OperationId& by = known->second->ticket.operation;
    if (by == ticket.operation) return ok_status();
    return make_error(Code::Conflict,
                      "VM '" + ticket.vm.id.value + "' is being migrated by " + by.value);
  }
  if (jobs.size() >= kMostAtOnce) {
    return make_error(Code::ResourceExhausted, "too many migrations out of this host",
                      "wait until some have ended");
  }
  auto job = std::make_shared<Job>();
  job->ticket = ticket;
  job->route = route;
  job->began = shared_->clock.now();
  job->status.phase = OutgoingPhase::PreCopying;
  job->status.operation = ticket.operation;
  job->status.memory_total = ticket.vm.memory;
  job->status.remaining = ticket.vm.memory;
  jobs.emplace(ticket.vm.uuid, job);
  job->caller =
      std::thread([shared = shared_, job, uri = connection_.uri()] { call(shared, job, uri); });
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

void Outgoing::call(const std::shared_ptr<Shared>& shared, const JobPtr& job,
                    const std::string& uri) {
  auto connection = open_connection(uri);
  if (!connection) {
    return finish(*shared, *job, OutgoingPhase::Failed, connection.error().message);
  }
  const DomainHandle domain = find(connection->get(), job->ticket.vm.uuid);
  if (!domain) {
    return finish(*shared, *job, OutgoingPhase::Failed, last_error("the VM is not here").message);
  }
  {
    const std::lock_guard lock(shared->mutex);
    if (shared->closed) return;
    if (!job->cancel) job->calling = true;
  }
  if (!job->calling) return finish(*shared, *job, OutgoingPhase::Cancelled, "cancelled");
  auto done = migrate(domain.get(), job->ticket, job->route);
  if (done) return finish(*shared, *job, OutgoingPhase::Completed, "");
  const bool cancelled = done.error().code == Code::Cancelled;
  finish(*shared, *job, cancelled ? OutgoingPhase::Cancelled : OutgoingPhase::Failed,
         done.error().message);
}

void Outgoing::finish(Shared& shared, Job& job, OutgoingPhase phase, const std::string& error) {
  const std::lock_guard lock(shared.mutex);
  if (shared.closed) return;  // the clock and the log are gone, and nobody asks any more
  const MonotonicTime now = shared.clock.now();
  job.ended = now;
  job.status.phase = phase;
  job.status.error = error;
  if (phase == OutgoingPhase::Completed) {
    // Nobody could look after the last round: it sent what was left.
    job.status.transferred = job.status.transferred + job.status.remaining;
    job.status.remaining = Bytes{0};
  }
  job.rounds.close(job.status.transferred,
                   std::chrono::duration_cast<Microseconds>(now - job.began));
  shared.changed.notify_all();
  shared.log.info("libvirt", "migration of '" + job.ticket.vm.id.value +
                                 "': " + std::string(to_string(phase)) +
                                 (error.empty() ? "" : ", " + error));
}

void Outgoing::sample(const JobPtr& job) {
  while (true) {
    bool cancel = false;
    {
      std::unique_lock lock(shared_->mutex);
      shared_->changed.wait_for(lock, kSampleEvery, [&] {
        return shared_->closed || job->ended.has_value() || job->look_now;
      });
      if (shared_->closed || job->ended) return;
      job->look_now = false;
      cancel = job->cancel && job->calling;
    }
    auto connection = connection_.get();
    if (!connection) continue;
    const DomainHandle domain = find(connection->get(), job->ticket.vm.uuid);
    if (!domain) continue;
    // Asked again and again: before libvirt's job has begun there is nothing to abort, and an abort
    // of that moment would be lost.
    if (take_sample(*job, domain.get()) && cancel) virDomainAbortJob(domain.get());
  }
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
  return true;
}

OutgoingStatus Outgoing::status(const std::string& uuid) {
  const std::lock_guard lock(shared_->mutex);
  const auto known = shared_->jobs.find(uuid);
  if (known == shared_->jobs.end()) return {};
  const Job& job = *known->second;
  OutgoingStatus out = job.status;
  out.rounds = job.rounds.rounds();
  const MonotonicTime end = job.ended ? *job.ended : shared_->clock.now();
  out.elapsed = std::chrono::duration_cast<Microseconds>(end - job.began);
  return out;
}

bool Outgoing::running(const std::string& uuid) {
  const std::lock_guard lock(shared_->mutex);
  const auto known = shared_->jobs.find(uuid);
  return known != shared_->jobs.end() && !known->second->ended;
}

bool Outgoing::knows(const std::string& uuid, const OperationId& operation) {
  const std::lock_guard lock(shared_->mutex);
  const auto known = shared_->jobs.find(uuid);
  return known != shared_->jobs.end() && known->second->ticket.operation == operation;
}

bool Outgoing::cancel(const std::string& uuid) {
  const std::lock_guard lock(shared_->mutex);
  const auto known = shared_->jobs.find(uuid);
  if (known == shared_->jobs.end() || known->second->ended) return false;
  known->second->cancel = true;
  known->second->look_now = true;
  shared_->changed.notify_all();
  return true;
}

void Outgoing::on_paused(const std::string& uuid) {
  const std::lock_guard lock(shared_->mutex);
  const auto known = shared_->jobs.find(uuid);
  if (known == shared_->jobs.end() || known->second->ended) return;
  known->second->status.phase = OutgoingPhase::Switching;
  known->second->status.paused_at = shared_->clock.wall_now();
}

void Outgoing::on_iteration(const std::string& uuid) {
  const std::lock_guard lock(shared_->mutex);
  const auto known = shared_->jobs.find(uuid);
  if (known == shared_->jobs.end() || known->second->ended) return;
  known->second->look_now = true;
  shared_->changed.notify_all();
}

}  // namespace mare::libvirt
