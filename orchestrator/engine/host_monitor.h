// Keeps an eye on every host: is its agent there, and do its copies agree with the rows? Engine's
// thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/engine/context.h"

namespace mare::engine {

class HostMonitor {
 public:
  explicit HostMonitor(Context& context) : context_(context) {}

  /// Asks every host once, then again every heartbeat.
  void begin();

 private:
  void beat();
  struct Watch {
    bool renewing = false;    // is being asked for its lease,
    bool listing = false;     // and for its copies
    bool leased = false;      // it is to have a lease,
    bool holds_none = false;  // and has said that it can't
    int misses = 0;
    MonotonicTime heard{0};  // when it answered last, or was asked first
    MonotonicTime facts_at{0};
    std::string stamp;       // the agent's last one: what the next renewal counts from
    bool withdrawn = false;  // it has confirmed that its VMs need no lease
    bool lifting = false;

    /// What its silence is told by; else by the lists of its copies.
    bool by_renewals() const { return leased && !holds_none; }
  };
  /// What is to be said of the lease with one heartbeat.
  struct Word {
    LeaseTicket ticket;
    bool any = false;
  };

  void ask(const Host& host, bool leased);
  void renew(const HostId& id, const std::shared_ptr<Driver>& driver, const Word& word);
  void list(const HostId& id, const std::shared_ptr<Driver>& driver);
  /// Whatever it answered.
  void spoke(Watch& watch);
  void heard(const HostId& id, MonotonicTime asked, const std::vector<VmObservation>& copies);
  /// A call to a host that is cut off ends long after the host must be called silent.
  void look_for_silence();
  void missed(const HostId& id, const Error& error);
  void call_down(const HostId& id, const Error& error);
  void refresh_facts(const Host& host);
  void reconcile(const Host& host, MonotonicTime asked, const std::vector<VmObservation>& copies);

  // host_leases.cpp.
  /// Hosts with ranks of jobs that are to come back by themselves.
  Result<std::set<HostId>> to_be_leased() const;
  std::optional<Word> lease_word(Host host, bool leased);
  void lease_answered(const HostId& id, const Word& word, const Result<LeaseAnswer>& answer);
  /// A fenced host answers: it is used again when nothing is left on it.
  void lift(const Host& host, const std::vector<VmObservation>& copies);
  void lifted(const HostId& id, bool empty);

  void copy_is_gone(Vm vm, const Host& host);
  void copy_is_back(Vm vm);
  /// Whoever stopped it for a moment has ended before the moment had.
  void let_go_on(const Vm& vm, const Host& host);
  /// Whoever waits for its guest need not wait any longer.
  void hang_up(const Vm& vm);
  void stray(const Host& host, const VmObservation& copy, const std::optional<Vm>& row);
  bool is_settled(const VmId& vm, MonotonicTime asked) const;

  Context& context_;
  std::map<HostId, Watch> watches_;
  MonotonicTime looked_{0};
  std::map<VmId, int> absences_;               // looks in a row that did not find a VM's copy
  std::map<VmId, int> standstills_;            // and that found it standing still, held by nobody
  std::map<std::string, MonotonicTime> told_;  // strays already reported
};

}  // namespace mare::engine
