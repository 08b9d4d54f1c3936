#include "hypervisor/libvirt/outgoing.h"

#include <algorithm>
#include <cmath>

#include "hypervisor/libvirt/domain_xml.h"

namespace mare::libvirt {
namespace {

constexpr auto kSampleEvery = std::chrono::milliseconds{40};
constexpr auto kKeepEnded = std::chrono::minutes{10};
constexpr double kMib = 1024.0 * 1024.0;

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

}  // namespace

std::string Route::text() const {
  return libvirt_uri + "|" + data_uri + "|" + console;
}

Result<Route> Route::parse(const std::string& text) {
  const auto first = text.find('|');
  const auto second = text.find('|', first == std::string::npos ? first : first + 1);
  if (second == std::string::npos) {
    return make_error(Code::InvalidArgument, "'" + text + "' is not an endpoint of a libvirt host",
                      "both ends of a migration must be of the same kind");
  }
  return Route{text.substr(0, first), text.substr(first + 1, second - first - 1),
               text.substr(second + 1)};
}

void RoundKeeper::sample(unsigned long long iteration, Bytes transferred, Bytes remaining,
                         double dirty_bytes_per_s, Microseconds elapsed) {
  if (iteration == 0 || closed_) return;  // not sending yet
  if (iteration != iteration_) {
    if (!rounds_.empty()) {
      Round& last = rounds_.back();
      last.duration = elapsed - last.started;
      last.sent = transferred - began_with_;
    }
    iteration_ = iteration;
    began_with_ = transferred;
    Round next;
    next.index = static_cast<int>(iteration) - 1;
    next.started = rounds_.empty() ? Microseconds{0} : elapsed;
    if (rounds_.empty()) began_with_ = Bytes{0};
    rounds_.push_back(next);
  }
  Round& now = rounds_.back();
  now.duration = elapsed - now.started;
  now.sent = transferred - began_with_;
  now.remaining = remaining;
  if (dirty_bytes_per_s > 0) now.dirty_bytes_per_s = dirty_bytes_per_s;
}

void RoundKeeper::close(Bytes transferred, Microseconds elapsed) {
  closed_ = true;
  if (rounds_.empty()) return;
  Round& last = rounds_.back();
  last.duration = std::max(last.duration, elapsed - last.started);
  if (transferred > began_with_ + last.sent) last.sent = transferred - began_with_;
}

Outgoing::~Outgoing() {
  std::map<std::string, std::shared_ptr<Job>> jobs;
  {
    const std::lock_guard lock(mutex_);
    jobs.swap(jobs_);
    for (auto& [uuid, job] : jobs) job->running = false;
  }
  for (auto& [uuid, job] : jobs) {
    if (job->sampler.joinable()) job->sampler.join();
    if (!job->caller.joinable()) continue;
    // Its libvirt call may last for minutes; the process ends, and libvirtd carries on.
    if (job->ended.count() == 0) {
      job->caller.detach();
    } else {
      job->caller.join();
    }
  }
}

Status Outgoing::begin(const MigrationTicket& ticket, const Route& route) {
  const std::lock_guard lock(mutex_);
  forget_old_locked();
  const auto known = jobs_.find(ticket.vm.uuid);
  if (known != jobs_.end()) {
    Job& job = *known->second;
    if (job.ticket.operation == ticket.operation) return ok_status();
    if (job.ended.count() == 0) {
      return make_error(Code::Conflict, "VM '" + ticket.vm.id.value + "' is being migrated by " +
                                            job.ticket.operation.value);
    }
    if (job.caller.joinable()) job.caller.join();
    if (job.sampler.joinable()) job.sampler.join();
    jobs_.erase(known);
  }
  auto job = std::make_shared<Job>();
  job->ticket = ticket;
  job->route = route;
  job->began = clock_.now();
  job->status.phase = OutgoingPhase::PreCopying;
  job->status.operation = ticket.operation;
  job->status.memory_total = ticket.vm.memory;
  job->status.remaining = ticket.vm.memory;
  jobs_.emplace(ticket.vm.uuid, job);
  job->caller = std::thread([this, job] { call(job); });
  job->sampler = std::thread([this, job] { sample(job); });
  return ok_status();
}

void Outgoing::call(const std::shared_ptr<Job>& job) {
  const MigrationTicket& ticket = job->ticket;
  auto connection = connection_.open_another();
  if (!connection) return finish(*job, OutgoingPhase::Failed, connection.error().message);
  const DomainHandle domain = find(connection->get(), ticket.vm.uuid);
  if (!domain) {
    return finish(*job, OutgoingPhase::Failed, last_error("the VM is not here").message);
  }
  if (ticket.downtime_limit) {
    virDomainMigrateSetMaxDowntime(
        domain.get(), static_cast<unsigned long long>(ticket.downtime_limit->count()), 0);
  }
  char* raw = virDomainGetXMLDesc(domain.get(), VIR_DOMAIN_XML_MIGRATABLE | VIR_DOMAIN_XML_SECURE);
  const std::string xml = raw != nullptr ? raw : "";
  free(raw);
  Params params;
  params.add(VIR_MIGRATE_PARAM_URI, job->route.data_uri);
  const std::string moved = with_console(xml, job->route.console);
  if (!moved.empty()) params.add(VIR_MIGRATE_PARAM_DEST_XML, moved);
  if (ticket.bandwidth_limit) {
    // libvirt counts in MiB/s and takes 0 for no limit.
    params.add(VIR_MIGRATE_PARAM_BANDWIDTH,
               static_cast<unsigned long long>(
                   std::max(1.0, std::floor(ticket.bandwidth_limit->value / kMib))));
  }
  const unsigned flags = VIR_MIGRATE_LIVE | VIR_MIGRATE_PEER2PEER;
  const int done = virDomainMigrateToURI3(domain.get(), job->route.libvirt_uri.c_str(),
                                          params.list(), params.count(), flags);
  if (done == 0) return finish(*job, OutgoingPhase::Completed, "");
  const Error error = last_error("migration");
  finish(*job, error.code == Code::Cancelled ? OutgoingPhase::Cancelled : OutgoingPhase::Failed,
         error.message);
}

void Outgoing::sample(const std::shared_ptr<Job>& job) {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (!job->running) return;
    }
    auto connection = connection_.get();
    if (connection) {
      const DomainHandle domain = find(connection->get(), job->ticket.vm.uuid);
      if (domain) take_sample(*job, domain.get());
    }
    clock_.sleep_for(kSampleEvery);
  }
}

void Outgoing::take_sample(Job& job, virDomainPtr domain) {
  JobStats stats;
  if (!stats.read(domain, 0) || stats.type() == VIR_DOMAIN_JOB_NONE) return;
  const auto page = stats.natural(VIR_DOMAIN_JOB_MEMORY_PAGE_SIZE);
  const double dirty = static_cast<double>(stats.natural(VIR_DOMAIN_JOB_MEMORY_DIRTY_RATE)) *
                       static_cast<double>(page == 0 ? 4096 : page);
  const Bytes transferred{stats.natural(VIR_DOMAIN_JOB_DATA_PROCESSED)};
  const Bytes remaining{stats.natural(VIR_DOMAIN_JOB_DATA_REMAINING)};
  const Microseconds elapsed = std::chrono::duration_cast<Microseconds>(clock_.now() - job.began);
  const std::lock_guard lock(mutex_);
  if (!job.running) return;
  job.rounds.sample(stats.natural(VIR_DOMAIN_JOB_MEMORY_ITERATION), transferred, remaining, dirty,
                    elapsed);
  OutgoingStatus& status = job.status;
  if (const Bytes total{stats.natural(VIR_DOMAIN_JOB_MEMORY_TOTAL)}; total.count > 0) {
    status.memory_total = total;
  }
  status.transferred = transferred;
  status.remaining = remaining;
  status.dirty_bytes_per_s = dirty;
}

void Outgoing::finish(Job& job, OutgoingPhase phase, const std::string& error) {
  const std::lock_guard lock(mutex_);
  job.running = false;
  job.ended = clock_.now();
  job.status.phase = phase;
  job.status.error = error;
  if (phase == OutgoingPhase::Completed) {
    job.status.transferred = job.status.transferred + job.status.remaining;
    job.status.remaining = Bytes{0};
  }
  job.rounds.close(job.status.transferred,
                   std::chrono::duration_cast<Microseconds>(job.ended - job.began));
  log_.info("libvirt", "migration of '" + job.ticket.vm.id.value + "': " +
                           std::string(to_string(phase)) + (error.empty() ? "" : ", " + error));
}

OutgoingStatus Outgoing::status(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  const auto known = jobs_.find(uuid);
  if (known == jobs_.end()) return {};
  const Job& job = *known->second;
  OutgoingStatus out = job.status;
  out.rounds = job.rounds.rounds();
  const MonotonicTime end = job.ended.count() != 0 ? job.ended : clock_.now();
  out.elapsed = std::chrono::duration_cast<Microseconds>(end - job.began);
  return out;
}

void Outgoing::on_paused(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  const auto known = jobs_.find(uuid);
  if (known == jobs_.end() || !known->second->running) return;
  known->second->status.phase = OutgoingPhase::Switching;
  known->second->status.paused_at = clock_.wall_now();
}

void Outgoing::forget_old_locked() {
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    Job& job = *it->second;
    if (job.ended.count() == 0 || clock_.now() - job.ended < kKeepEnded) {
      ++it;
      continue;
    }
    if (job.caller.joinable()) job.caller.join();
    if (job.sampler.joinable()) job.sampler.join();
    it = jobs_.erase(it);
  }
}

}  // namespace mare::libvirt
