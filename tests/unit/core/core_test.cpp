#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <unordered_set>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/ids.h"
#include "orchestrator/core/log.h"
#include "orchestrator/core/net.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/rng.h"
#include "orchestrator/core/units.h"

namespace mare {
namespace {

TEST(ResultTest, HoldsAValueOrAnError) {
  const Result<int> good = 5;
  EXPECT_TRUE(good);
  EXPECT_EQ(*good, 5);
  const Result<int> bad =
      make_error(Code::NotFound, "VM demo-9 does not exist", "see mare vm list");
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::NotFound);
  EXPECT_EQ(bad.error().text(), "VM demo-9 does not exist; see mare vm list");
  EXPECT_TRUE(ok_status());
}

TEST(ResultTest, ContextKeepsCodeFieldAndRemedy) {
  const Error inner = field_error("ranks", "5 ranks need 5 VMs", "start more VMs");
  const Error outer = inner.during("job submit");
  EXPECT_EQ(outer.message, "job submit: 5 ranks need 5 VMs");
  EXPECT_EQ(outer.code, Code::InvalidArgument);
  EXPECT_EQ(outer.field, "ranks");
  EXPECT_EQ(outer.remedy, "start more VMs");
}

TEST(ResultTest, TheWrongSideEndsTheProcess) {
  const Result<int> good = 1;
  const Result<int> bad = make_error(Code::Internal, "x");
  EXPECT_DEATH((void)bad.value(), "assertion failed");
  EXPECT_DEATH((void)good.error(), "assertion failed");
}

TEST(ResultTest, CodesComeBackFromTheirNames) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(Code::Internal); ++i) {
    const auto code = static_cast<Code>(i);
    names.insert(to_string(code));
    EXPECT_EQ(code_from_string(to_string(code)), code) << i;
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Code::Internal) + 1);
  EXPECT_FALSE(code_from_string("Internal"));
  EXPECT_FALSE(code_from_string(""));
}

TEST(UnitsTest, DifferencesStopAtZero) {
  EXPECT_EQ(mebibytes(1) - mebibytes(3), Bytes{0});
  EXPECT_EQ(mebibytes(3) - mebibytes(1), mebibytes(2));
  EXPECT_DOUBLE_EQ((mebibytes(1) + Bytes{524288}).mib(), 1.5);
}

TEST(IdsTest, CompareAndHashByText) {
  std::unordered_set<VmId> seen{VmId{"a-0"}, VmId{"a-1"}, VmId{"a-0"}};
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_LT(VmId{"a-0"}, VmId{"a-1"});
  EXPECT_TRUE(VmId{}.empty());
}

TEST(ClockTest, AManualClockMovesOnlyWhenTold) {
  ManualClock clock(WallTime{5});
  EXPECT_EQ(clock.now(), MonotonicTime{0});
  clock.advance(std::chrono::seconds{2});
  clock.sleep_for(std::chrono::milliseconds{500});
  EXPECT_EQ(clock.now(), std::chrono::milliseconds{2500});
  EXPECT_EQ(clock.wall_now(), WallTime{2'500'005});
}

TEST(ClockTest, TheSystemsClockDoesNotGoBack) {
  const SystemClock clock;
  auto last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const auto now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(ClockTest, WritesTimesAsRfc3339) {
  EXPECT_EQ(format_rfc3339(WallTime{0}), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(format_rfc3339(WallTime{1'763'697'600'123'456}), "2025-11-21T04:00:00.123456Z");
  EXPECT_EQ(format_rfc3339(WallTime{-1}), "1969-12-31T23:59:59.999999Z");
}

TEST(RngTest, TheSameSeedGivesTheSameRun) {
  SeededRng a(42);
  SeededRng b(42);
  SeededRng c(43);
  EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(a.next(), c.next());
}

TEST(RngTest, StaysInItsBounds) {
  SeededRng rng(9);
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_LT(rng.below(7), 7U);
    const double unit = rng.unit();
    ASSERT_GE(unit, 0.0);
    ASSERT_LT(unit, 1.0);
  }
  EXPECT_FALSE(rng.chance(0.0));
  EXPECT_TRUE(rng.chance(1.0));
}

TEST(RngTest, UuidsAreRandomOnesOfVersionFour) {
  SystemRng rng;
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    const auto uuid = make_uuid(rng);
    ASSERT_THAT(uuid, testing::MatchesRegex(
                          "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
    seen.insert(uuid);
  }
  EXPECT_EQ(seen.size(), 200U);
  EXPECT_EQ(make_hex(rng, 5).size(), 10U);
}

TEST(LogTest, ALineIsAnEventAndForeignTextCannotForgeOne) {
  ManualClock clock(WallTime{0});
  std::vector<std::string> lines;
  Log log(clock, LogLevel::Info, [&](std::string_view line) { lines.emplace_back(line); });
  log.debug("engine", "too fine");
  log.warn("engine", "bad name 'x\n1970 error engine: all is lost'\r");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0],
            "1970-01-01T00:00:00.000000Z warning engine: bad name 'x 1970 error engine: all is "
            "lost' ");
}

TEST(LogTest, ManyThreadsDoNotMixTheirLines) {
  ManualClock clock;
  int count = 0;  // the log calls its sink under its lock
  Log log(clock, LogLevel::Debug, [&](std::string_view) { ++count; });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 500; ++k) log.info("test", "line");
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(count, 2000);
}

TEST(MacTest, ReadsWhatItWritesAndNothingElse) {
  const auto mac = MacAddress::parse("52:54:00:Ab:0c:ff");
  ASSERT_TRUE(mac);
  EXPECT_EQ(mac->text(), "52:54:00:ab:0c:ff");
  for (const char* bad :
       {"", "52:54:00:ab:0c", "52:54:00:ab:0c:fg", "52-54-00-ab-0c-ff",
        "52:54:00:ab:0c:ff:", "52:54:00:ab:0c: f", "+2:54:00:ab:0c:ff", "525400ab0cff00000"}) {
    EXPECT_FALSE(MacAddress::parse(bad)) << bad;
  }
}

TEST(Ipv4Test, ReadsWhatItWritesAndNothingElse) {
  const auto ip = Ipv4Address::parse("10.77.1.255");
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->value, 0x0a4d01ffU);
  EXPECT_EQ(ip->text(), "10.77.1.255");
  for (const char* bad :
       {"", "10.77.1", "10.77.1.256", "10.77.1.1 ", "0x0a.1.1.1", "::1", "host"}) {
    EXPECT_FALSE(Ipv4Address::parse(bad)) << bad;
  }
}

TEST(Ipv6Test, ReadsWhatItWritesAndNothingElse) {
  const auto ip = Ipv6Address::parse("FE80:0::1");
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->text(), "fe80::1");
  EXPECT_FALSE(Ipv6Address::parse("10.0.0.1"));
  EXPECT_FALSE(Ipv6Address::parse("fe80::1%eth0"));
}

TEST(SubnetTest, DropsHostBitsAndKnowsItsMembers) {
  const auto subnet = Ipv4Subnet::parse("10.77.1.9/24");
  ASSERT_TRUE(subnet);
  EXPECT_EQ(subnet->network.text(), "10.77.1.0");
  EXPECT_EQ(subnet->usable(), 254U);
  EXPECT_TRUE(subnet->contains(*Ipv4Address::parse("10.77.1.0")));
  EXPECT_TRUE(subnet->contains(*Ipv4Address::parse("10.77.1.255")));
  EXPECT_FALSE(subnet->contains(*Ipv4Address::parse("10.77.2.0")));
  for (const char* bad : {"10.77.1.0", "10.77.1.0/", "10.77.1.0/0", "10.77.1.0/31", "10.77.1.0/x",
                          "10.77.1.0/24x", "10.77.1.0/-1", "10.77.1/24", "/24"}) {
    EXPECT_FALSE(Ipv4Subnet::parse(bad)) << bad;
  }
}

TEST(EndpointTest, SplitsAtTheLastColon) {
  const auto plain = Endpoint::parse("10.77.0.11:7412");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host, "10.77.0.11");
  EXPECT_EQ(plain->port, 7412);
  EXPECT_EQ(Endpoint::parse("[::1]:80")->host, "[::1]");
  EXPECT_EQ(Endpoint::parse("h1.example:0")->port, 0);
  for (const char* bad : {"", "h1", ":7412", "h1:", "h1:65536", "h1:-1", "h1:7412 ", "h 1:7412",
                          "http://h1:7412", "h1:0x10"}) {
    EXPECT_FALSE(Endpoint::parse(bad)) << bad;
  }
}

}  // namespace
}  // namespace mare
