// The guest port: what Maré asks of the daemon inside a VM. Implemented by orchestrator/guestlink
// for real guests and by hypervisor/sim for simulated ones. Short, idempotent calls, as in
// driver.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/ids.h"
#include "orchestrator/core/net.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"

namespace mare {

/// How to reach the guest of one VM.
struct GuestAddress {
  VmId vm;
  Ipv4Address ip;
  std::string token;
};

/// A guest that answers.
struct GuestHello {
  std::string boot_id;  // another one means: the guest was booted anew
  Bytes memory_total;
  Bytes memory_available;
  std::uint64_t taint = 0;  // /proc/sys/kernel/tainted
  int kernel_faults = 0;    // BUG, Oops, warnings... in the kernel's log since boot
  std::string kernel_first_fault;
  Microseconds uptime{0};
};

enum class RunPhase : std::uint8_t {
  Unknown,  // this guest never heard of it
  Running,
  Exited,
  Lost,  // it ran, is gone, and left no exit status
};

/// A program started in a guest; its output and exit status are files in `directory`, which is on
/// the shared job file system, so that they outlive the guest daemon and the orchestrator.
struct GuestRun {
  JobId id;
  std::string directory;  // "/jobs/job-1"
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // "K=V"
};

struct RunStatus {
  RunPhase phase = RunPhase::Unknown;
  std::optional<int> exit_code;  // 128 + signal if a signal ended it
  std::uint64_t output_bytes = 0;
};

/// Where a guest's ranks of a job are that announce safe points.
struct SafePointStatus {
  int ranks = 0;              // that announce; none before MPI_Init and after MPI_Finalize
  int inside = 0;             // of these, that are in a collective
  std::uint64_t entered = 0;  // collectives begun so far, by all
  Milliseconds outside{0};    // of those that are in none, the longest since one; some ms coarse
};

/// One run of samples of a guest's echo, taken while its VM moves.
struct ProbeReport {
  int sent = 0;
  int answered = 0;
  Microseconds period{0};
  /// Longest time between two answers; what a peer on the network sees. Includes the time between
  /// two samples before it.
  Microseconds longest_silence{0};
  WallTime silence_began{0};
  /// How far the guest's monotonic clock fell behind ours from the first to the last answer; what
  /// the guest lost. Empty when fewer than two answers came.
  std::optional<Microseconds> clock_lost;
};

/// Samples until stopped or destroyed: sparsely, since each costs the guest time that it would work
/// in; at its period as soon as an answer is late, and until the guest has answered steadily again.
class GuestProbe {
 public:
  virtual ~GuestProbe() = default;
  /// The guest is about to stand still, or it is not: more samples meanwhile, to see when it does.
  virtual void watch_closely(bool closely) = 0;
  /// What was seen so far. Ends the sampling if `stop`.
  virtual ProbeReport report(bool stop) = 0;
};

class GuestPort {
 public:
  virtual ~GuestPort() = default;
  /// Unavailable while it does not answer. Unauthenticated: somebody else's guest.
  virtual Result<GuestHello> hello(const GuestAddress& guest) = 0;
  /// Starts a program; if that id was started before, only tells its state.
  virtual Result<RunStatus> run(const GuestAddress& guest, const GuestRun& program) = 0;
  virtual Result<RunStatus> run_status(const GuestAddress& guest, const GuestRun& program) = 0;
  /// Up to `most` bytes of its output from `offset`; "" at the end.
  virtual Result<std::string> output(const GuestAddress& guest, const GuestRun& program,
                                     std::uint64_t offset, std::size_t most) = 0;
  /// To the program's process group; ok if it is gone.
  virtual Status signal(const GuestAddress& guest, const GuestRun& program, int number) = 0;
  /// Unsupported by guests of an older image.
  virtual Result<SafePointStatus> safe_points(const GuestAddress& guest, const JobId& job) = 0;
  /// The guest's wall clock falls behind by every pause.
  virtual Status set_clock(const GuestAddress& guest, WallTime now) = 0;
  /// The same for a guest that goes on from a checkpoint: it also tells the servers that it uses,
  /// which remember the life that is undone.
  virtual Status came_back(const GuestAddress& guest, WallTime now) = 0;
  /// Its VM has ended, or will be another: who waits for its answer hears Unavailable at once.
  virtual void hang_up(const GuestAddress& guest) = 0;
  /// Gives back clean page cache and leaves zeros in what is free; answers how much was given back.
  /// Some seconds at most. Unsupported by guests of an older image.
  virtual Result<Bytes> drop_cache(const GuestAddress& guest) = 0;
  virtual Status power_off(const GuestAddress& guest) = 0;
  virtual Result<std::unique_ptr<GuestProbe>> start_probe(const GuestAddress& guest,
                                                          Microseconds period) = 0;
};

}  // namespace mare
