// Migrations out of this host: a thread for each libvirt call, a sampler beside it, and what is
// known of them.
//
// The call lasts as long as the migration; libvirtd carries on with it when this process dies. So
// a thread that is still in its call is left behind when Outgoing ends, and touches nothing of it.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "hypervisor/driver.h"
#include "hypervisor/libvirt/connection.h"
#include "hypervisor/libvirt/rounds.h"
#include "hypervisor/libvirt/route.h"

namespace mare::libvirt {

class Outgoing {
 public:
  Outgoing(Connection& connection, Clock& clock, Log& log);
  /// Does not stop migrations.
  ~Outgoing();
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

  /// Idempotent for an operation, also after its end: a late repetition must not send the VM again.
  Status begin(const MigrationTicket& ticket, const Route& route);
  /// What this process knows; phase None if nothing.
  OutgoingStatus status(const std::string& uuid);
  /// Does a migration that this process began run still?
  bool running(const std::string& uuid);
  /// Is it of this operation, and known here, running or ended?
  bool knows(const std::string& uuid, const OperationId& operation);
  /// Stops one that this process began, whenever libvirt lets it; false if none runs.
  bool cancel(const std::string& uuid);

  // libvirt's events.
  void on_paused(const std::string& uuid);
  void on_iteration(const std::string& uuid);

 private:
  struct Job {
    MigrationTicket ticket;
    Route route;
    OutgoingStatus status;
    RoundKeeper rounds;
    MonotonicTime began{0};
    std::optional<MonotonicTime> ended;
    bool cancel = false;   // asked for
    bool calling = false;  // libvirt was asked to migrate: only an abort stops that
    bool look_now = false;
    std::thread caller;
    std::thread sampler;
  };
  using JobPtr = std::shared_ptr<Job>;
  /// What the threads share with this; `closed` once this is gone, clock and log with it.
  struct Shared {
    Shared(Clock& with_clock, Log& with_log) : clock(with_clock), log(with_log) {}
    std::mutex mutex;
    std::condition_variable changed;
    bool closed = false;
    std::map<std::string, JobPtr> jobs;  // by uuid
    Clock& clock;
    Log& log;
  };
  static void call(const std::shared_ptr<Shared>& shared, const JobPtr& job,
                   const std::string& uri);
  static void finish(Shared& shared, Job& job, OutgoingPhase phase, const std::string& error);
  void sample(const JobPtr& job);
  bool take_sample(Job& job, virDomainPtr domain);
  Status begin_locked(const MigrationTicket& ticket, const Route& route);
  std::vector<JobPtr> take_old_locked(const std::string& uuid, const OperationId& operation);

  Connection& connection_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace mare::libvirt
