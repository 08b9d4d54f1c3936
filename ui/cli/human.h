// Figures as people read and write them: "1.5 GiB", "98 MB/s", "2m 3s", "50MB/s". Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"

namespace mare::cli {

std::string human_bytes(double bytes);               // "512 B", "1.5 MiB"
std::string human_rate(double bytes_per_s);          // "98.2 MB/s", as link speeds are given
std::string human_ms(double milliseconds);           // "0.35 ms", "12.3 ms", "2.35 s", "2m 3s"
std::string human_age(WallTime then, WallTime now);  // "4m", "3h 2m", "" when `then` is 0
/// "2026-11-21T04:00:00.5Z" -> "2026-11-21 04:00:00Z"; anything else unchanged.
std::string short_time(const std::string& rfc3339);

/// "50MB/s", "12MiB/s", "1gbit", "100mbit/s", "800kbps" (bits), "1000000" (bytes a second).
Result<BytesPerSecond> parse_rate(std::string_view text);
/// "192" (MiB), "192MiB", "2GiB", "2g".
Result<Bytes> parse_memory(std::string_view text);

}  // namespace mare::cli
