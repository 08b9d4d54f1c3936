#include "netarp/schedule.h"

#include <charconv>
#include <string>

namespace mare::netarp {

Result<Schedule> parse_schedule(std::string_view text) {
  Schedule schedule;
  schedule.gaps.clear();
  while (true) {
    const auto comma = text.find(',');
    const auto word = text.substr(0, comma);
    std::int64_t gap = 0;
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), gap);
    if (word.empty() || parsed.ec != std::errc{} || parsed.ptr != word.data() + word.size() ||
        gap < 0 || gap > kMaxGap.count()) {
      return field_error(
          "gaps", "'" + std::string(word) + "' is not a gap in milliseconds",
          "write whole numbers from 0 to " + std::to_string(kMaxGap.count()) + ", as in 0,50,150");
    }
    schedule.gaps.emplace_back(gap);
    if (schedule.gaps.size() > kMaxRounds) {
      return field_error("gaps", "more than " + std::to_string(kMaxRounds) + " gaps");
    }
    if (comma == std::string_view::npos) return schedule;
    text.remove_prefix(comma + 1);
  }
}

Result<Schedule> with_count(Schedule schedule, std::size_t count) {
  if (count < 1 || count > kMaxRounds) {
    return field_error("count", std::to_string(count) + " rounds can't be announced",
                       "give a count from 1 to " + std::to_string(kMaxRounds));
  }
  MARE_ASSERT(!schedule.gaps.empty());
  schedule.gaps.resize(count, schedule.gaps.back());
  return schedule;
}

}  // namespace mare::netarp
