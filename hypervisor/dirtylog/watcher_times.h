// The times that the watcher goes by: watcher.cpp and watcher_content.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "orchestrator/core/units.h"

namespace mare::dirtylog::times {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

/// Since the arming. Dense where rounds are that may be the last, as bursts within one are steps
/// that no line between two looks can tell: 24 MiB that a guest swept over in 3 s were taken
/// for 18.7 MB after 2.5 s, by looks after 2 and 5, and were 21. Up to what round 0 of a large VM
/// takes.
inline constexpr std::array<milliseconds, 17> kPoints{
    milliseconds{50},    milliseconds{100},    milliseconds{200},    milliseconds{300},
    milliseconds{400},   milliseconds{500},    milliseconds{700},    milliseconds{1000},
    milliseconds{1500},  milliseconds{2000},   milliseconds{3000},   milliseconds{5000},
    milliseconds{7000},  milliseconds{10'000}, milliseconds{20'000}, milliseconds{40'000},
    milliseconds{64'000}};
inline constexpr milliseconds kCycle = kPoints.back();
/// The first cycle of a VM is short, and each next one twice as long: its boot, and then what a
/// program sets up, are over soon, and what they wrote is to be forgotten as soon.
inline constexpr milliseconds kFirstCycle{10'000};

/// What a cycle has seen by then tells how the VM writes now; one that is older tells how it wrote.
inline constexpr milliseconds kTells{1000};

/// A first write that takes longer than this is dear: no VM is armed before it is known how much it
/// writes.
inline constexpr std::chrono::microseconds kDear{5};

/// Whether a guest writes as it did is told by content: after so long, by so many pages at
/// least, of half as many.
inline constexpr milliseconds kUsualFor{200};

inline constexpr std::size_t kUsualPages = 4096;

/// Of content, until kTells; then as the log. So near each other that 64 MiB are not half gone
/// through between two at 300 MB/s.
inline constexpr milliseconds kContentLook{100};

/// What can't be will hardly be in a minute, but an operator may have mended it.
inline constexpr seconds kRetryHopeless{60};

/// Of the guest's time. A VM that writes so much that a cycle costs more is armed less often.
inline constexpr int kCostLimitPercent = 1;

/// To tell from them how well what is written compresses.
inline constexpr std::size_t kEnoughPages = 256;

inline Microseconds micro(nanoseconds span) {
  return std::chrono::duration_cast<Microseconds>(span);
}

/// How long a cycle of that cost must last.
inline Microseconds bounded(Microseconds length, nanoseconds cost) {
  return std::max(length, micro(cost * (100 / kCostLimitPercent)));
}

}  // namespace mare::dirtylog::times
