// Migrations out of this host: a thread for each libvirt call, a sampler beside it, and what is
// known of them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "hypervisor/driver.h"
#include "hypervisor/libvirt/connection.h"

namespace mare::libvirt {

/// Where to and how; the text in an IncomingEndpoint.
struct Route {
  std::string libvirt_uri;  // of the destination's libvirtd, as the source reaches it
  std::string data_uri;     // where QEMU sends
  std::string console;      // the console's file there
  std::string text() const;
  static Result<Route> parse(const std::string& text);
};

/// Turns samples of a migration's statistics into rounds. Pure.
class RoundKeeper {
 public:
  /// `iteration` counts from 1, as QEMU does; the others are totals at that moment.
  void sample(unsigned long long iteration, Bytes transferred, Bytes remaining,
              double dirty_bytes_per_s, Microseconds elapsed);
  /// No more samples: the last round ended.
  void close(Bytes transferred, Microseconds elapsed);
  const std::vector<Round>& rounds() const { return rounds_; }

 private:
  std::vector<Round> rounds_;
  Bytes began_with_;
  unsigned long long iteration_ = 0;
  bool closed_ = false;
};

class Outgoing {
 public:
  Outgoing(Connection& connection, Clock& clock, Log& log)
      : connection_(connection), clock_(clock), log_(log) {}
  /// Does not stop migrations: libvirtd carries on with them.
  ~Outgoing();
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

  Status begin(const MigrationTicket& ticket, const Route& route);
  /// What this process knows; phase None if nothing.
  OutgoingStatus status(const std::string& uuid);
  /// The libvirt event that the copy here stopped for its last round.
  void on_paused(const std::string& uuid);

 private:
  struct Job {
    MigrationTicket ticket;
    Route route;
    OutgoingStatus status;
    RoundKeeper rounds;
    MonotonicTime began{0};
    MonotonicTime ended{0};
    bool running = true;
    std::thread caller;
    std::thread sampler;
  };
  void call(const std::shared_ptr<Job>& job);
  void sample(const std::shared_ptr<Job>& job);
  void take_sample(Job& job, virDomainPtr domain);
  void finish(Job& job, OutgoingPhase phase, const std::string& error);
  void forget_old_locked();

  Connection& connection_;
  Clock& clock_;
  Log& log_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Job>> jobs_;  // by uuid
};

}  // namespace mare::libvirt
