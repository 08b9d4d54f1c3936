// What the driver port knows of captures: one VM's part of a checkpoint being taken. The calls are
// in driver.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/ids.h"
#include "orchestrator/core/units.h"
#include "orchestrator/model/checkpoint.h"

namespace mare {

enum class CapturePhase : std::uint8_t {
  None,     // no capture of that VM is known here
  Ready,    // the VM runs, and all is there to begin at once
  Holding,  // the VM stands still, and must: its state is not taken yet
  Taken,    // its state is taken and nothing that the VM does can change that; the file is written
  Durable,  // released, and the file is whole, on the disk and its checksum known; of a VM that
            // leaves: before its release
  Failed,   // the VM goes on as if nothing had been, no file is left
};
std::string_view to_string(CapturePhase phase);  // "none", "holding", ...
std::optional<CapturePhase> capture_phase_from(std::string_view text);

struct CaptureStatus {
  CapturePhase phase = CapturePhase::None;
  CheckpointId checkpoint;
  std::string error;           // when Failed
  WallTime stopped{0};         // when the VM stood still
  WallTime resumed{0};         // when it went on, or was ended because it leaves
  WallTime durable{0};         // when its file was whole, by the clock of `stopped`
  Bytes size;                  // when Durable: of the state, as load_capture() makes it again
  std::uint64_t checksum = 0;  // when Durable: XXH64 of the state
  Bytes written;               // when Durable: of the file
  bool incremental = false;    // when Durable: needs the ticket's base
  std::string full_because;    // why not, when a base was named
};

/// How long a VM was being made from its part; both 0 where the host does not tell.
struct CaptureLoad {
  Microseconds reading{0};    // the part from the storage, checked, to where it is loaded from
  Microseconds restoring{0};  // the VM from that
  bool mapped = false;        // from this host's memory: pages come as the guest touches them
};

/// What became of one part that a host was asked to keep in its memory.
struct StandbyAnswer {
  VmId vm;
  bool kept = false;
  Bytes memory;         // that it takes there, when kept
  std::string why_not;  // when not
};

}  // namespace mare
