#include "rest/wire/time.h"

#include <charconv>
#include <cmath>

namespace mare::wire {
namespace {

/// Takes `digits` decimal digits off the front; nothing if there are fewer.
std::optional<int> take_number(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  int value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) return false;
  text.remove_prefix(1);
  return true;
}

/// ".123456" -> microseconds; 0 without a dot.
std::optional<std::int64_t> take_fraction(std::string_view& text) {
  if (!take(text, '.')) return 0;
  std::int64_t micros = 0;
  std::size_t digits = 0;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    if (digits < 6) micros = micros * 10 + (text.front() - '0');
    ++digits;
    text.remove_prefix(1);
  }
  if (digits == 0) return std::nullopt;
  for (; digits < 6; ++digits) micros *= 10;
  return micros;
}

/// "Z" or "+01:30" -> seconds east of UTC.
std::optional<std::int64_t> take_zone(std::string_view& text) {
  if (take(text, 'Z') || take(text, 'z')) return 0;
  const bool west = !text.empty() && text.front() == '-';
  if (!take(text, '+') && !take(text, '-')) return std::nullopt;
  const auto hours = take_number(text, 2);
  if (!hours || *hours > 23 || !take(text, ':')) return std::nullopt;
  const auto minutes = take_number(text, 2);
  if (!minutes || *minutes > 59) return std::nullopt;
  const std::int64_t seconds = *hours * 3600 + *minutes * 60;
  return west ? -seconds : seconds;
}

std::optional<std::chrono::sys_days> take_date(std::string_view& text) {
  const auto year = take_number(text, 4);
  if (!year || !take(text, '-')) return std::nullopt;
  const auto month = take_number(text, 2);
  if (!month || !take(text, '-')) return std::nullopt;
  const auto day = take_number(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{*year},
                                         std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)}};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days{date};
}

}  // namespace

std::optional<WallTime> parse_rfc3339(std::string_view text) {
  const auto date = take_date(text);
  if (!date || (!take(text, 'T') && !take(text, 't'))) return std::nullopt;
  const auto hours = take_number(text, 2);
  if (!hours || *hours > 23 || !take(text, ':')) return std::nullopt;
  const auto minutes = take_number(text, 2);
  if (!minutes || *minutes > 59 || !take(text, ':')) return std::nullopt;
  const auto seconds = take_number(text, 2);
  if (!seconds || *seconds > 60) return std::nullopt;  // 60: a leap second
  const auto fraction = take_fraction(text);
  if (!fraction) return std::nullopt;
  const auto zone = take_zone(text);
  if (!zone || !text.empty()) return std::nullopt;
  const std::chrono::seconds in_day{*hours * 3600 + *minutes * 60 + *seconds - *zone};
  return WallTime{date->time_since_epoch()} + in_day + WallTime{*fraction};
}

std::optional<Milliseconds> parse_duration(std::string_view text) {
  std::int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{} || number < 0 || number > 1'000'000'000) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  if (unit == "ms") return Milliseconds{number};
  if (unit.empty() || unit == "s") return Milliseconds{number * 1000};
  if (unit == "m") return Milliseconds{number * 60'000};
  if (unit == "h") return Milliseconds{number * 3'600'000};
  if (unit == "d") return Milliseconds{number * 86'400'000};
  return std::nullopt;
}

Json time_json(WallTime time) {
  if (time.count() == 0) return nullptr;
  return format_rfc3339(time);
}

Microseconds from_ms(double value) {
  return Microseconds{std::llround(value * 1000.0)};
}

Json mib_json(Bytes value) {
  constexpr std::uint64_t kMib = 1024 * 1024;
  if (value.count % kMib == 0) return value.count / kMib;
  return value.mib();
}

Bytes from_mib(double value) {
  return Bytes{static_cast<std::uint64_t>(std::llround(value * 1024.0 * 1024.0))};
}

}  // namespace mare::wire
