// Puts announcements on the wire: a raw socket on one interface (a host's bridge) and one thread
// that repeats them by the schedule.
//
// The first round is sent by the caller of announce(), so that no thread has to wake up while the
// VM is silent; the thread does the rest. Nothing survives a restart, and nothing needs to:
// announcing again is harmless.
//
// Thread-safe. The destructor drops what is left of the schedule and returns at once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "netarp/schedule.h"
#include "orchestrator/core/clock.h"
#include "orchestrator/core/log.h"
#include "orchestrator/core/net.h"
#include "orchestrator/core/result.h"

namespace mare::netarp {

/// A MAC and the addresses that live there; at least one.
struct Subject {
  MacAddress mac;
  std::optional<Ipv4Address> ip;
  std::optional<Ipv6Address> ip6;
};

struct Progress {
  WallTime first_frame{0};   // when the first frame was handed to the kernel
  int frames = 0;            // handed to the kernel so far
  std::size_t rounds = 0;    // done, whether their frames could be sent or not
  bool finished = false;     // the schedule is through
  bool fdb_cleared = false;  // the host's own bridge had an old entry of the MAC
  std::string last_error;    // of the latest round that could not be sent, "" if none
};

class Sender {
 public:
  /// How many MACs are remembered; the oldest finished one gives way to a new one.
  static constexpr std::size_t kMaxSubjects = 1024;

  /// NotFound: no such interface. FailedPrecondition: CAP_NET_RAW is missing, or not Ethernet.
  static Result<std::unique_ptr<Sender>> open(const std::string& interface, Schedule schedule,
                                              Clock& clock, Log& log);
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  /// Sends the first round and schedules the others; the time of the first frame. Asked again for
  /// the same MAC it starts over. An error means that no frame left and none will.
  Result<WallTime> announce(const Subject& subject);

  /// The first round alone, at once and not kept. Errors as of announce().
  Status announce_once(const Subject& subject) const;

  /// What became of the MAC's latest announce(); nothing if there was none.
  std::optional<Progress> progress(const MacAddress& mac) const;

  /// Blocks until the MAC's schedule is through.
  void wait_finished(const MacAddress& mac) const;

 private:
  struct Task {
    Subject subject;
    MonotonicTime due{0};
    Progress progress;
  };

  Sender(int fd, std::string interface, Schedule schedule, Clock& clock, Log& log);
  void run();
  Status begin(const Subject& subject, Progress& progress) const;
  Status send_round(const Subject& subject, Progress& progress) const;
  Status send_frame(std::span<const std::uint8_t> frame, unsigned index, Progress& progress) const;
  bool make_room_locked();
  std::optional<MonotonicTime> next_due_locked() const;
  void repeat(std::unique_lock<std::mutex>& lock);

  const int fd_;
  const std::string interface_;
  const Schedule schedule_;
  Clock& clock_;
  Log& log_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<MacAddress, Task> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace mare::netarp
