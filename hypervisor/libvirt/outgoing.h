// Migrations out of this host: a thread for each libvirt call, a sampler beside it, and what is
// known of them. outgoing.cpp keeps the books; outgoing_threads.cpp is what the threads do.
//
// The call lasts as long as the migration; libvirtd carries on with it when this process dies. So
// a thread that is still in its call is left behind when Outgoing ends, and touches nothing of it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "hypervisor/dirtylog/page_set.h"
#include "hypervisor/dirtylog/sweep_tracker.h"
#include "hypervisor/dirtylog/tcp_queues.h"
#include "hypervisor/driver.h"
#include "hypervisor/libvirt/connection.h"
#include "hypervisor/libvirt/rounds.h"
#include "hypervisor/libvirt/route.h"
#include "hypervisor/libvirt/sweep_pace.h"
#include "hypervisor/libvirt/switch_notice.h"
#include "hypervisor/rate_control.h"
#include "orchestrator/model/hovering_rounds.h"

namespace mare::libvirt {

/// QEMU's own limit of downtime, where a ticket gives none.
constexpr Milliseconds kUsualDowntime{300};

/// Of sending, from now on.
bool set_rate(virDomainPtr domain, BytesPerSecond rate);
constexpr BytesPerSecond kNoLimit{1e12};
/// One that an agent that is gone began may switch; what its own limits were is not known.
bool allow_switch(virDomainPtr domain);

class Outgoing {
 public:
  Outgoing(Connection& connection, Announcer& announcer, Clock& clock, Log& log);
  /// Does not stop migrations.
  ~Outgoing();
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

  /// The time in which a begin() is prepared, which may be long where libvirt hangs: who asked has
  /// given up meanwhile, looked, and cancelled, and the VM must not go after that.
  class Beginning {
   public:
    Beginning(Outgoing& of, std::string uuid);
    ~Beginning();
    Beginning(const Beginning&) = delete;
    Beginning& operator=(const Beginning&) = delete;

   private:
    friend class Outgoing;
    Outgoing& of_;
    const std::string uuid_;
    bool cancelled_ = false;  // under of_'s mutex
  };

  /// What a link was measured to carry: bounds how much waits unsent while a VM is sent.
  void set_link(BytesPerSecond goodput);
  /// Idempotent for an operation, also after its end: a late repetition must not send the VM again.
  /// `swept`: of a guest that sweeps, the pages that it goes through. Cancelled if it was while it
  /// was `prepared`.
  Status begin(const Beginning& prepared, const MigrationTicket& ticket, const Route& route,
               dirtylog::PageSet swept = {});
  /// Takes up a post-copy that broke, known here or not. Ok if its pages go already.
  /// Unsupported, with that reason, if `why_not` is not "".
  Status mend(const MigrationTicket& ticket, const Route& route, const std::string& why_not);
  /// What this process knows; phase None if nothing.
  OutgoingStatus status(const std::string& uuid);
  /// Does a migration that this process began run still?
  bool running(const std::string& uuid);
  bool any_runs();
  /// Is it of this operation, and known here, running or ended?
  bool knows(const std::string& uuid, const OperationId& operation);
  /// Stops one that this process began, whenever libvirt lets it; false if none runs. In post-copy
  /// nothing is stopped. One that is being prepared will not begin.
  bool cancel(const std::string& uuid);
  /// Forces one that this process began; NotFound if none runs.
  Status force(const std::string& uuid, LimitAction how);
  /// One that holds its switch, now or later, no longer does; ok if none runs.
  Status release(const std::string& uuid);

  // libvirt's events.
  void on_paused(const std::string& uuid);
  void on_post_copy(const std::string& uuid);
  void on_iteration(const std::string& uuid, int iteration);
  void on_completed(const std::string& uuid, const CompletedJob& figures);

 private:
  struct Job {
    MigrationTicket ticket;
    Route route;
    OutgoingStatus status;
    RoundKeeper rounds;
    std::optional<RateController> rate;
    std::size_t held_rounds = 0;   // that one that holds has set its rate for
    std::size_t rated_rounds = 0;  // how many it has been told of
    MonotonicTime began{0};
    std::optional<MonotonicTime> paused;  // when the VM stopped for the last round, or post-copy
    std::optional<MonotonicTime> ended;
    std::optional<CompletedJob> figures;
    MonotonicTime figures_at{0};
    bool cancel = false;                 // asked for
    bool calling = false;                // libvirt was asked to migrate: only an abort stops that
    std::optional<NoticeSender> notice;  // sent when the VM stands still
    bool broken = false;                 // in post-copy, and the call came back without an end
    bool starved = false;  // so says the domain; the call may still wait for the other side
    bool look_now = false;
    bool post_copy = false;             // wanted, as soon as libvirt takes it
    bool switched = false;              // libvirt took it
    bool stop = false;                  // the VM is to stand still for the rest
    std::optional<Milliseconds> limit;  // of its downtime: the last one that was set
    HoveringRounds hovering;
    std::size_t hovering_seen = 0;  // rounds that it was told of
    bool limit_rises = false;
    bool holding = false;                      // it is not to switch before it is released
    std::optional<MonotonicTime> holds_since;  // when it could have, and holds
    bool released = false;
    std::thread caller;
    std::thread sampler;
    // The sampler's own.
    Bytes unsent;
    bool unbounded = false;                       // the kernel refused
    bool connected = false;                       // its stream was seen
    bool let_go = false;                          // its last round, which was held up
    std::optional<MonotonicTime> switches_since;  // to post-copy; it was asked for then
    std::optional<dirtylog::TcpQueues> queues;
    dirtylog::PageSet swept;
    std::optional<dirtylog::SweepTracker> tracker;
    MonotonicTime tracked{0};                 // when it looked last
    std::optional<MonotonicTime> held_since;  // the end of the last whole round
    std::optional<MonotonicTime> round_ends_at;
    std::optional<MonotonicTime> rounds_over;  // when the last whole one before post-copy was
    std::optional<Sighting> after_rounds;      // the first one then
    std::optional<MonotonicTime> switch_at;
    SweepPace pace;
    unsigned long long iteration = 0;
  };
  using JobPtr = std::shared_ptr<Job>;
  /// What the threads share with this; `closed` once this is gone, clock and log with it.
  struct Shared {
    Shared(Announcer& with_announcer, Clock& with_clock, Log& with_log)
        : announcer(with_announcer), clock(with_clock), log(with_log) {}
    std::mutex mutex;
    std::condition_variable changed;
    bool closed = false;
    std::map<std::string, JobPtr> jobs;  // by uuid
    Announcer& announcer;
    Clock& clock;
    Log& log;
  };
  /// What the sampler is to do besides looking.
  struct Chores {
    bool cancel = false;
    bool post_copy = false;
    bool stop = false;
    bool release = false;
    bool watch_post_copy = false;
  };

  // Threads.
  static void call(const std::shared_ptr<Shared>& shared, const JobPtr& job, const std::string& uri,
                   bool mending);
  static void call_ended(const std::shared_ptr<Shared>& shared, const JobPtr& job,
                         virDomainPtr domain, const Status& done);
  static void wait_for_figures(Shared& shared, Job& job);
  static void open_notice(Shared& shared, Job& job);
  static void draw_back(Shared& shared, Job& job, virDomainPtr domain);
  static void finish(Shared& shared, Job& job, OutgoingPhase phase, const std::string& error);
  void sample(const JobPtr& job);
  bool needs_no_close_look(const Job& job) const;
  std::optional<Chores> next_chores(const JobPtr& job);
  void end_if_broken(Job& job);
  void do_chores(Job& job, virDomainPtr domain, const Chores& chores);
  void switch_to_post_copy(Job& job, virDomainPtr domain);
  bool take_sample(Job& job, virDomainPtr domain);
  void watch_link(Job& job, virDomainPtr domain);
  void bound_queues(Job& job);
  void follow_limit(Job& job, virDomainPtr domain);
  static void follow_hovering(Job& job, Milliseconds later);
  void hold(Job& job, virDomainPtr domain);
  void control_rate(Job& job, virDomainPtr domain);
  bool follow_sweep(Job& job, virDomainPtr domain);
  void hold_round(Job& job, virDomainPtr domain, Bytes rest);
  void let_go(Job& job, virDomainPtr domain);
  void find_switch(Job& job);
  std::optional<Sighting> sight(Job& job, std::string& why);

  // Books.
  Status begin_locked(const MigrationTicket& ticket, const Route& route, bool mending,
                      dirtylog::PageSet swept = {});
  Status admit_locked(const MigrationTicket& ticket);
  std::vector<JobPtr> take_old_locked(const std::string& uuid, const OperationId& operation);
  Job* running_locked(const std::string& uuid);
  static void join(const std::vector<JobPtr>& over);

  Connection& connection_;
  std::shared_ptr<Shared> shared_;
  std::vector<Beginning*> beginning_;  // under the mutex
  std::atomic<double> link_ = 0;       // bytes/s, as measured last; 0: unknown
};

}  // namespace mare::libvirt
