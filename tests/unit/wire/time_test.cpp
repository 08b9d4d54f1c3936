#include "rest/wire/time.h"

#include <gtest/gtest.h>

namespace mare::wire {
namespace {

TEST(Rfc3339, ReadsWhatItWrites) {
  // A year back and forth in odd steps, with every kind of fraction.
  for (std::int64_t i = 1; i < 400; ++i) {
    const WallTime time{1'700'000'000'000'000 + i * 86'399'123'457};
    EXPECT_EQ(parse_rfc3339(format_rfc3339(time)), time);
  }
}

TEST(Rfc3339, UnderstandsZonesAndFractions) {
  const auto utc = parse_rfc3339("2026-11-21T04:00:00Z");
  ASSERT_TRUE(utc);
  EXPECT_EQ(utc->count(), 1'795'233'600'000'000);
  EXPECT_EQ(parse_rfc3339("2026-11-21T05:30:00+01:30"), utc);
  EXPECT_EQ(parse_rfc3339("2026-11-21T02:00:00-02:00"), utc);
  EXPECT_EQ(parse_rfc3339("2026-11-21T04:00:00.000Z"), utc);
  EXPECT_EQ(parse_rfc3339("2026-11-21T04:00:00.1234567Z"), *utc + WallTime{123'456});
  EXPECT_EQ(parse_rfc3339("2024-02-29T00:00:00Z")->count(), 1'709'164'800'000'000);
}

TEST(Rfc3339, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "now", "2026-11-21", "2026-11-21T04:00:00", "2026-11-21 04:00:00Z",
        "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-11-21T24:00:00Z",
        "2026-11-21T04:60:00Z", "2026-11-21T04:00:61Z", "2026-11-21T04:00:00.Z",
        "2026-11-21T04:00:00+1:00", "2026-11-21T04:00:00Zx", "-026-11-21T04:00:00Z"}) {
    EXPECT_FALSE(parse_rfc3339(text)) << text;
  }
}

TEST(Duration, KnowsItsUnits) {
  EXPECT_EQ(parse_duration("250ms"), Milliseconds{250});
  EXPECT_EQ(parse_duration("30s"), Milliseconds{30'000});
  EXPECT_EQ(parse_duration("30"), Milliseconds{30'000});
  EXPECT_EQ(parse_duration("2m"), Milliseconds{120'000});
  EXPECT_EQ(parse_duration("24h"), Milliseconds{86'400'000});
  EXPECT_EQ(parse_duration("7d"), Milliseconds{604'800'000});
  for (const char* text : {"", "s", "-1s", "1w", "1.5s", "99999999999999999999s", " 1s"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(Units, AreExactBothWays) {
  EXPECT_EQ(mib_json(mebibytes(192)).dump(), "192");
  for (const std::uint64_t bytes : {0ULL, 1ULL, 1048575ULL, 4294967296ULL, 270532608001ULL}) {
    EXPECT_EQ(from_mib(mib_json(Bytes{bytes}).get<double>()), Bytes{bytes});
  }
  for (const std::int64_t micros : {0L, 1L, 999L, 86'400'000'001L, 4'503'599'627'370'497L}) {
    EXPECT_EQ(from_ms(to_ms(Microseconds{micros})), Microseconds{micros});
  }
}

TEST(Time, NotYetIsNull) {
  EXPECT_TRUE(time_json(WallTime{0}).is_null());
  EXPECT_EQ(time_json(WallTime{1'795'233'600'000'000}), "2026-11-21T04:00:00.000000Z");
}

}  // namespace
}  // namespace mare::wire
