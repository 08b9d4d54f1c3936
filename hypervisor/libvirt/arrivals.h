// VMs that come to this host by migration: expected, then running, then announced.
//
// Each expected one is a small file, so that an agent that was restarted while a VM was on its way
// still knows what to announce. Thread-safe. on_resumed() runs on libvirt's event thread, where
// every millisecond is downtime: it writes no file and waits for nothing.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "hypervisor/driver.h"
#include "orchestrator/core/log.h"

namespace mare::libvirt {

struct Arrival {
  OperationId operation;
  VmKey key;
  MacAddress mac;
  Ipv4Address ip;
  WallTime prepared_at{0};
  bool expected = false;  // prepared, and has not run here yet
  bool drawn = false;     // what is sent to it comes here already
  WallTime resumed_at{0};
  WallTime announced_at{0};
};

/// One arrival as the text of its file, and back. Pure.
std::string to_text(const Arrival& arrival);
std::optional<Arrival> arrival_from(const std::string& text);

class Arrivals {
 public:
  Arrivals(std::string directory, Announcer& announcer, Clock& clock, Log& log);

  /// Reads what an earlier agent expected.
  Status load();
  /// Known from now on, durably. An earlier arrival of the VM is forgotten.
  Status expect(const MigrationTicket& ticket);
  std::optional<Arrival> find(const std::string& uuid) const;
  bool expected(const std::string& uuid) const;
  std::vector<Arrival> all_expected() const;
  void forget(const std::string& uuid);

  /// Its source says that it stands still: from now on what is sent to it comes here, and waits for
  /// it. Nothing if it is not expected, runs already, or was said to stand still before.
  void on_standing_still(const std::string& uuid);
  /// The copy runs: announces it if it was expected. `at` 0: it did so while nobody looked.
  void on_resumed(const std::string& uuid, WallTime at);
  Status announce(const VmSpec& vm);
  int frames_sent(const Arrival& arrival) const { return announcer_.frames_sent(arrival.mac); }

 private:
  std::string path_of(const std::string& uuid) const { return directory_ + "/" + uuid; }

  const std::string directory_;
  Announcer& announcer_;
  Clock& clock_;
  Log& log_;
  mutable std::mutex mutex_;
  std::map<std::string, Arrival> arrivals_;  // by uuid
};

}  // namespace mare::libvirt
