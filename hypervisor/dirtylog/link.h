// Measures what a link between two hosts carries, by a burst over one TCP connection: the receiving
// host opens a sink, the sending one gets its address and sends.
//
// The goodput is counted where the bytes arrive, by the kernel's time stamps of the packets, so a
// busy CPU at either end hardly counts. A shaped link lets some bytes pass at once (a token
// bucket): the first 256 KiB are left out.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "hypervisor/dirtylog/process.h"
#include "orchestrator/core/clock.h"
#include "orchestrator/core/log.h"
#include "orchestrator/core/net.h"
#include "orchestrator/core/rng.h"
#include "orchestrator/model/forecast.h"

namespace mare::dirtylog {

/// Where a sink listens, and the word without which it counts nothing.
struct SinkAddress {
  Endpoint at;
  std::string token;
  /// "mare-link://10.77.0.12:40123/TOKEN"
  std::string uri() const;
  static Result<SinkAddress> parse(const std::string& uri);
};

/// So many bytes had arrived at that time.
struct ArrivalPoint {
  std::uint64_t bytes = 0;
  std::chrono::nanoseconds at{0};
};
/// As receive_stamped() told it and as this process saw it: the kernel's stamps (of the wall clock)
/// if every packet has one, else the process' own (monotonic). The kernel begins to stamp some time
/// after it was asked to, later where it is busy; the two clocks are decades apart. Pure.
struct StampedArrival {
  std::uint64_t bytes = 0;
  std::chrono::nanoseconds stamp{0};  // 0: none
  std::chrono::nanoseconds seen{0};
};
std::vector<ArrivalPoint> by_one_clock(const std::vector<StampedArrival>& arrivals);
/// Of bytes after the first 256 KiB (or the first half, when there are few), whatever held the
/// sender up for a moment; 0 when they tell nothing. Pure.
BytesPerSecond goodput_of(const std::vector<ArrivalPoint>& arrivals);

/// Sinks of this host. Thread-safe.
class LinkSinks {
 public:
  /// Listens on `address`, a number or a name of this host.
  LinkSinks(std::string address, Clock& clock, Log& log);
  /// Ends those that are open.
  ~LinkSinks();
  LinkSinks(const LinkSinks&) = delete;
  LinkSinks& operator=(const LinkSinks&) = delete;

  /// For one measurement within 10 s. ResourceExhausted while too many are open.
  Result<std::string> open();
  /// What came here in the last burst that told something; 0: none did.
  BytesPerSecond last_goodput() const { return {last_goodput_}; }

 private:
  struct Sink {
    Fd listener;
    std::string token;
    std::thread thread;
    std::atomic<bool> over = false;
  };
  void serve(Sink& sink);
  bool serve_one(int connection, const Sink& sink, MonotonicTime deadline);

  const std::string address_;
  Clock& clock_;
  Log& log_;
  SystemRng rng_;
  Fd closing_;                            // readable when this ends
  std::atomic<double> last_goodput_ = 0;  // bytes/s
  std::mutex mutex_;
  std::list<Sink> sinks_;
};

/// Sends a burst to another host's sink: at most 4 MiB or 0.5 s, and gives up after 5 s.
/// InvalidArgument for what is no sink's address; Unavailable when it does not answer.
Result<LinkMeasurement> measure_link(const std::string& uri, Clock& clock);

}  // namespace mare::dirtylog
