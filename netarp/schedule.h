// When an announcement is repeated. Pure.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"

namespace mare::netarp {

/// A gap is the wait before that round; the first is 0, because the time until the first frame is
/// part of the downtime. The later ones grow: they only guard against a lost frame and a switch
/// that was busy, and six rounds end 3.6 s after the VM runs.
struct Schedule {
  std::vector<Milliseconds> gaps{Milliseconds{0},   Milliseconds{50},   Milliseconds{150},
                                 Milliseconds{400}, Milliseconds{1000}, Milliseconds{2000}};
};

/// More than this is a storm, not an announcement.
constexpr std::size_t kMaxRounds = 1000;
constexpr Milliseconds kMaxGap{600'000};

/// "0,50,150": whole milliseconds, each at most kMaxGap.
Result<Schedule> parse_schedule(std::string_view text);

/// Exactly `count` rounds: cut, or going on with the last gap.
Result<Schedule> with_count(Schedule schedule, std::size_t count);

}  // namespace mare::netarp
