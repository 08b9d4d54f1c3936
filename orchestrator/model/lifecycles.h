// The tables of every kind of operation but migration, which has its own header. Each kind has the
// same shape: State, Event, next(). A state's name says what is durably true. All pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mare {

enum class HostAddState : std::uint8_t { Planned, Done, Failed };
enum class HostAddEvent : std::uint8_t { Connected, Refused };

enum class HostRemoveState : std::uint8_t { Planned, Done, Failed };
enum class HostRemoveEvent : std::uint8_t { Removed, Refused };

enum class HostDrainState : std::uint8_t {
  Planned,
  Moving,  // the host takes no new VMs; children move the ones it has
  Done,
  Failed,  // the host is in use again
};
enum class HostDrainEvent : std::uint8_t { Begin, Emptied, GiveUp };

enum class HostEvacuateState : std::uint8_t {
  Planned,
  Leaving,  // the host takes no new VMs; children plan, move and save until the deadline
  Done,     // of what it had nothing is lost if it fails now
  Partial,  // the deadline has passed and something is left; the host takes no new VMs
  Failed,   // cancelled; the host is in use as before
};
enum class HostEvacuateEvent : std::uint8_t { Begin, Safe, TimeIsUp, GiveUp };

enum class PoolCreateState : std::uint8_t {
  Planned,      // the pool and its VMs have rows, nothing runs
  Starting,     // a child start exists for every VM
  RollingBack,  // what was started is being stopped
  Done,
  Failed,  // the pool is gone again
};
enum class PoolCreateEvent : std::uint8_t { Begin, AllRun, GiveUp, AllGone };

enum class PoolScaleState : std::uint8_t {
  Planned,      // which VMs come or go is decided; those that come have rows
  Growing,      // the VMs that come are being started
  Shrinking,    // the VMs that go are being ended
  RollingBack,  // the VMs that came are being ended
  Done,         // the pool has the size that was asked for
  Partial,      // its size has changed, but not as was asked for
  Failed,       // it has the size that it had before
};
enum class PoolScaleEvent : std::uint8_t {
  Grow,
  Shrink,
  GiveUp,
  Reached,
  PartlyReached,
  NothingReached
};

enum class PoolDeleteState : std::uint8_t {
  Planned,
  EndingJobs,  // its jobs were told to stop
  Stopping,    // its VMs are being stopped
  Done,        // the pool is gone
  Failed,
};
enum class PoolDeleteEvent : std::uint8_t { Begin, JobsEnded, AllGone, GiveUp };

enum class VmStartState : std::uint8_t {
  Planned,
  Placed,    // VM.host and VM.uuid are set, its memory is accounted for; a copy may exist there
  Booting,   // the host said that the copy runs
  Cleaning,  // gave up; the copy is being ended
  Done,
  Failed,
  NeedsOperator,
};
enum class VmStartEvent : std::uint8_t { Place, Created, Ready, Abort, Gone, GiveUp };

enum class VmStopState : std::uint8_t {
  Planned,
  PoweringOff,  // the guest was asked
  Destroying,   // the host is told to end the copy
  Done,
  NeedsOperator,
};
enum class VmStopEvent : std::uint8_t { AskGuest, Destroy, Gone, GiveUp };

enum class JobRunState : std::uint8_t {
  Queued,    // waits for VMs
  Starting,  // its VMs are its own; the launcher may have been started
  Running,
  Stopping,  // the launcher was told to end
  Done,
  Failed,
};
enum class JobRunEvent : std::uint8_t { Assign, Started, Stop, Ended, Abort };

// Its noun is not "vm": it holds up nothing else that works on the VM.
enum class ForecastMakeState : std::uint8_t {
  Planned,
  Measuring,  // both hosts are being asked
  Done,       // the forecast is stored
  Failed,
};
enum class ForecastMakeEvent : std::uint8_t { Begin, Made, GiveUp };

// Of plan.drain, plan.evacuate, plan.layout and plan.rebalance.
enum class PlanningState : std::uint8_t {
  Planned,
  Asking,  // children forecast the moves
  Done,
  Failed,
};
enum class PlanningEvent : std::uint8_t { Begin, AllMade, GiveUp };

// Of layout.change, and of cluster.rebalance with the cluster in the place of the job.
enum class LayoutChangeState : std::uint8_t {
  Planned,
  Costing,  // a child plans the moves and what they cost
  Moving,   // they are worth it; children move the VMs
  Done,     // the job's VMs are where the plan wanted them, or no move helps it
  Partial,  // some moves were made
  Failed,   // none was
};
enum class LayoutChangeEvent : std::uint8_t { Ask, Move, Reached, PartlyReached, GiveUp };

#define MARE_LIFECYCLE(Kind)                                            \
  std::string_view to_string(Kind##State state);                        \
  std::string_view to_string(Kind##Event event);                        \
  std::optional<Kind##State> next(Kind##State from, Kind##Event event); \
  bool state_from(std::string_view text, Kind##State& state);

MARE_LIFECYCLE(HostAdd)
MARE_LIFECYCLE(HostRemove)
MARE_LIFECYCLE(HostDrain)
MARE_LIFECYCLE(HostEvacuate)
MARE_LIFECYCLE(PoolCreate)
MARE_LIFECYCLE(PoolScale)
MARE_LIFECYCLE(PoolDelete)
MARE_LIFECYCLE(VmStart)
MARE_LIFECYCLE(VmStop)
MARE_LIFECYCLE(JobRun)
MARE_LIFECYCLE(ForecastMake)
MARE_LIFECYCLE(Planning)
MARE_LIFECYCLE(LayoutChange)
#undef MARE_LIFECYCLE

}  // namespace mare
