// Times and durations at the JSON border: RFC 3339 in UTC, milliseconds with a fraction.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/units.h"
#include "rest/wire/json.h"

namespace mare::wire {

/// "2026-11-21T04:00:00.123456Z"; also "+01:00" and fewer or no fraction digits. Digits past the
/// microsecond are cut off.
std::optional<WallTime> parse_rfc3339(std::string_view text);

/// "250ms", "30s", "30" (seconds), "2m".
std::optional<Milliseconds> parse_duration(std::string_view text);

/// null for 0, which means "not yet".
Json time_json(WallTime time);

/// Exact for every duration under 2^53 us.
inline double to_ms(Microseconds value) {
  return static_cast<double>(value.count()) / 1000.0;
}
Microseconds from_ms(double value);

/// A whole number where it is one, as memory sizes nearly always are.
Json mib_json(Bytes value);
Bytes from_mib(double value);

}  // namespace mare::wire
