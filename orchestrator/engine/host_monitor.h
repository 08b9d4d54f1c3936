// Keeps an eye on every host: is its agent there, and do its copies agree with the rows? Engine's
// thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "orchestrator/engine/context.h"

namespace mare::engine {

class HostMonitor {
 public:
  explicit HostMonitor(Context& context) : context_(context) {}

  /// Asks every host once, then again every heartbeat.
  void beat();

 private:
  struct Watch {
    bool asking = false;
    int misses = 0;
    MonotonicTime facts_at{0};
  };

  void ask(const Host& host);
  void heard(const HostId& id, MonotonicTime asked, const std::vector<VmObservation>& copies);
  void missed(const HostId& id, const Error& error);
  void refresh_facts(const Host& host);
  void reconcile(const Host& host, MonotonicTime asked, const std::vector<VmObservation>& copies);
  void copy_is_gone(Vm vm, const Host& host);
  void copy_is_back(Vm vm);
  void stray(const Host& host, const VmObservation& copy, const std::optional<Vm>& row);
  bool is_settled(const VmId& vm, MonotonicTime asked) const;

  Context& context_;
  std::map<HostId, Watch> watches_;
  std::map<VmId, int> absences_;               // looks in a row that did not find a VM's copy
  std::map<std::string, MonotonicTime> told_;  // strays already reported
};

}  // namespace mare::engine
