#include "hypervisor/dirtylog/link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <span>

#include "hypervisor/dirtylog/sockets.h"

namespace mare::dirtylog {
namespace {

class Link : public testing::Test {
 protected:
  SystemClock clock_;
  Log log_{clock_, LogLevel::Error, [this](std::string_view) { ++complaints_; }};
  int complaints_ = 0;
  LinkSinks sinks_{"127.0.0.1", clock_, log_};
};

TEST_F(Link, OverLoopback) {
  auto sink = sinks_.open();
  ASSERT_TRUE(sink.ok()) << sink.error().text();
  auto measured = measure_link(*sink, clock_);
  ASSERT_TRUE(measured.ok()) << measured.error().text();
  // No network is slower than this over its own loopback.
  EXPECT_GT(measured->goodput.value, 20e6);
  EXPECT_LT(measured->goodput.value, 1e12);
  EXPECT_GT(measured->round_trip, Microseconds{0});
  EXPECT_LT(measured->round_trip, Microseconds{1'000'000});
  EXPECT_EQ(measured->sent, mebibytes(4));
}

TEST_F(Link, ASinkIsForOneMeasurement) {
  auto sink = sinks_.open();
  ASSERT_TRUE(sink.ok());
  ASSERT_TRUE(measure_link(*sink, clock_).ok());
  auto again = measure_link(*sink, clock_);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, Code::Unavailable);
}

TEST_F(Link, WhoeverDoesNotKnowTheWordIsSentAwayAndTheRightOneStillComesIn) {
  auto sink = sinks_.open();
  ASSERT_TRUE(sink.ok());
  auto forged = SinkAddress::parse(*sink);
  ASSERT_TRUE(forged.ok());
  forged->token = std::string(32, '0');
  auto refused = measure_link(forged->uri(), clock_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::Unavailable);
  EXPECT_TRUE(measure_link(*sink, clock_).ok());
}

TEST_F(Link, SinksAreLimitedAndFreeAgainAfterUse) {
  std::vector<std::string> open;
  for (int i = 0; i < 8; ++i) {
    auto sink = sinks_.open();
    ASSERT_TRUE(sink.ok()) << sink.error().text();
    open.push_back(*sink);
  }
  EXPECT_EQ(sinks_.open().error().code, Code::ResourceExhausted);
  for (const auto& sink : open) EXPECT_TRUE(measure_link(sink, clock_).ok());
  // The last one's thread may still be on its way out.
  Result<std::string> next = sinks_.open();
  for (int i = 0; i < 1000 && !next; ++i) {
    clock_.sleep_for(Milliseconds{5});
    next = sinks_.open();
  }
  EXPECT_TRUE(next.ok());
}

TEST_F(Link, EndsWithSinksOpen) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(sinks_.open().ok());
  // The fixture's end must not wait for their 10 s; the test's own limit would tell.
  const MonotonicTime before = clock_.now();
  {
    LinkSinks brief("127.0.0.1", clock_, log_);
    ASSERT_TRUE(brief.open().ok());
  }
  EXPECT_LT(clock_.now() - before, std::chrono::seconds{5});
}

TEST_F(Link, NobodyThere) {
  auto sink = sinks_.open();
  ASSERT_TRUE(sink.ok());
  auto nowhere = SinkAddress::parse(*sink);
  ASSERT_TRUE(nowhere.ok());
  nowhere->at.port = 1;
  EXPECT_EQ(measure_link(nowhere->uri(), clock_).error().code, Code::Unavailable);
  for (const char* bad :
       {"", "nonsense", "tcp://1.2.3.4:5", "mare-link://1.2.3.4/0", "mare-link://1.2.3.4:5/short",
        "mare-link:///0123456789abcdef0123456789abcdef"}) {
    EXPECT_EQ(measure_link(bad, clock_).error().code, Code::InvalidArgument) << bad;
  }
  LinkSinks elsewhere("192.0.2.1", clock_, log_);
  EXPECT_EQ(elsewhere.open().error().code, Code::Unavailable);
}

/// Packets of 1448 bytes that leave a token bucket of 128 kB: the bucket at line speed, then 12
/// MB/s.
TEST(Goodput, ABurstFromATokenBucketDoesNotCount) {
  std::vector<ArrivalPoint> arrivals;
  double at_ns = 0;
  for (std::uint64_t bytes = 1448; bytes <= mebibytes(2).count; bytes += 1448) {
    at_ns += bytes < 128'000 ? 1448 / 5e9 * 1e9 : 1448 / 12e6 * 1e9;
    arrivals.push_back({bytes, std::chrono::nanoseconds{static_cast<std::int64_t>(at_ns)}});
  }
  EXPECT_NEAR(goodput_of(arrivals).value, 12e6, 12e6 * 0.001);
}

/// It waits for a CPU, and what gathered in the bucket of 1 ms meanwhile goes at once.
TEST(Goodput, ASenderThatIsHeldUpForAMomentDoesNotCount) {
  for (const double held_at : {0.3e6, 1e6, 2e6, 3.5e6}) {
    std::vector<ArrivalPoint> arrivals;
    double bucket = 125e3;
    double at_s = 0;
    bool held = false;
    for (double bytes = 65536; bytes <= 4e6; bytes += 65536) {
      if (bytes > held_at && !held) {
        held = true;
        at_s += 0.004;
        bucket = 125e3;
      }
      const double at_once = std::min(bucket, 65536.0);
      bucket -= at_once;
      at_s += (65536 - at_once) / 120e6 + at_once / 5e9;
      arrivals.push_back({static_cast<std::uint64_t>(bytes),
                          std::chrono::nanoseconds{static_cast<std::int64_t>(at_s * 1e9)}});
    }
    EXPECT_NEAR(goodput_of(arrivals).value, 120e6, 120e6 * 0.005) << held_at;
  }
}

/// The kernel's stamps are of the wall clock: one that is missing must not be of another.
TEST(Goodput, OfStampsOnlyIfNoneIsMissing) {
  using std::chrono::milliseconds;
  constexpr milliseconds kWall{1'790'000'000'000};
  const std::vector<StampedArrival> all{{1'000'000, kWall, milliseconds{70}},
                                        {2'000'000, kWall + milliseconds{10}, milliseconds{90}},
                                        {3'000'000, kWall + milliseconds{20}, milliseconds{95}}};
  EXPECT_DOUBLE_EQ(goodput_of(by_one_clock(all)).value, 100e6);
  auto late = all;
  late.front().stamp = milliseconds{0};
  EXPECT_DOUBLE_EQ(goodput_of(by_one_clock(late)).value, 2e6 / 0.025);
  auto last = all;
  last.back().stamp = milliseconds{0};
  EXPECT_DOUBLE_EQ(goodput_of(by_one_clock(last)).value, 2e6 / 0.025);
  EXPECT_TRUE(by_one_clock({}).empty());
}

TEST(Goodput, OfLittleIsOfItsSecondHalfAndOfNothingNothing) {
  using std::chrono::nanoseconds;
  EXPECT_EQ(goodput_of({}).value, 0);
  EXPECT_EQ(goodput_of({{1000, nanoseconds{5}}}).value, 0);
  EXPECT_EQ(goodput_of({{1000, nanoseconds{5}}, {2000, nanoseconds{5}}}).value, 0);
  EXPECT_DOUBLE_EQ(
      goodput_of({{1000, nanoseconds{0}}, {2000, nanoseconds{10}}, {4000, nanoseconds{1010}}})
          .value,
      2e9);
}

}  // namespace
}  // namespace mare::dirtylog
