#include "ui/cli/human.h"

#include <gtest/gtest.h>

#include <string>

namespace mare::cli {
namespace {

TEST(Human, BytesInPowersOfTwo) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1 KiB");
  EXPECT_EQ(human_bytes(1.5 * 1024 * 1024), "1.50 MiB");
  EXPECT_EQ(human_bytes(192.0 * 1024 * 1024), "192 MiB");
  EXPECT_EQ(human_bytes(1024.0 * 1024 * 1024 - 1), "1.00 GiB") << "not 1024 MiB";
}

TEST(Human, RatesInPowersOfTen) {
  EXPECT_EQ(human_rate(125e6), "125 MB/s");
  EXPECT_EQ(human_rate(98'234'000), "98.2 MB/s");
}

TEST(Human, TimesInFittingUnits) {
  EXPECT_EQ(human_ms(0.25), "0.25 ms");
  EXPECT_EQ(human_ms(85), "85 ms");
  EXPECT_EQ(human_ms(2350), "2.35 s");
  EXPECT_EQ(human_ms(-2350), "-2.35 s");
  EXPECT_EQ(human_ms(-112.4), "-112 ms");
  EXPECT_EQ(human_ms(123'000), "2m 3s");
  EXPECT_EQ(human_ms(7'260'000), "2h 1m");
}

TEST(Human, AgeOfNeverIsNothing) {
  EXPECT_EQ(human_age(WallTime{0}, WallTime{5}), "");
  EXPECT_EQ(human_age(WallTime{1'000'000}, WallTime{61'000'000}), "60s");
  EXPECT_EQ(human_age(WallTime{9'000'000}, WallTime{1'000'000}), "0s") << "clocks may differ";
}

TEST(Human, ShortTimeCutsTheFraction) {
  EXPECT_EQ(short_time("2026-11-21T04:00:00.123456Z"), "2026-11-21 04:00:00Z");
  EXPECT_EQ(short_time("soon"), "soon");
}

TEST(ParseRate, KnowsTheUnitsThatPeopleWrite) {
  const auto rate = [](const char* text) { return parse_rate(text).value().value; };
  EXPECT_DOUBLE_EQ(rate("50MB/s"), 50e6);
  EXPECT_DOUBLE_EQ(rate("12MiB/s"), 12.0 * 1048576);
  EXPECT_DOUBLE_EQ(rate("1gbit"), 125e6);
  EXPECT_DOUBLE_EQ(rate("100 mbit/s"), 12.5e6);
  EXPECT_DOUBLE_EQ(rate("800kbps"), 100e3);
  EXPECT_DOUBLE_EQ(rate("1000000"), 1e6);
}

TEST(ParseRate, RefusesNonsenseAndTheDoubtful) {
  for (const char* text :
       {"", "fast", "-5MB/s", "0", "nan", "inf", "5furlongs", "5Mb", "5Mb/s", "MB/s", "1e999"}) {
    auto parsed = parse_rate(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, Code::InvalidArgument);
    EXPECT_NE(parsed.error().message.find(text), std::string::npos);
    EXPECT_FALSE(parsed.error().remedy.empty());
  }
}

TEST(ParseMemory, WholeMebibytesOnly) {
  EXPECT_EQ(parse_memory("192").value(), mebibytes(192));
  EXPECT_EQ(parse_memory("192MiB").value(), mebibytes(192));
  EXPECT_EQ(parse_memory("1.5GiB").value(), mebibytes(1536));
  EXPECT_EQ(parse_memory("2g").value(), mebibytes(2048));
  for (const char* text : {"", "0", "-1", "1.5", "100k", "1e30", "lots", "1XiB"}) {
    EXPECT_FALSE(parse_memory(text).ok()) << text;
  }
}

}  // namespace
}  // namespace mare::cli
