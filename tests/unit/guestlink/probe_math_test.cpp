#include "orchestrator/guestlink/probe_math.h"

#include <gtest/gtest.h>

#include "orchestrator/core/rng.h"

namespace mare::guestlink {
namespace {

constexpr Microseconds kPeriod{5'000};

/// A guest whose echo takes `trip`, seen every period from `begin` on; its clock stands still
/// `behind` our clock.
void add(std::vector<Sample>& samples, int count, Microseconds begin, Microseconds behind,
         Microseconds trip = Microseconds{200}) {
  for (int i = 0; i < count; ++i) {
    const MonotonicTime sent = begin + i * kPeriod;
    const auto guest = sent + trip / 2 - behind + std::chrono::hours{7};
    samples.push_back({sent, sent + trip, guest, WallTime{1'000'000} + begin + i * kPeriod + trip});
  }
}

TEST(ProbeMathTest, NothingSeenSaysNothing) {
  const auto report = evaluate({}, {}, 12, kPeriod);
  EXPECT_EQ(report.sent, 12);
  EXPECT_EQ(report.answered, 0);
  EXPECT_EQ(report.longest_silence, Microseconds{0});
  EXPECT_FALSE(report.clock_lost);
}

TEST(ProbeMathTest, OneAnswerHasNoElapsedTime) {
  std::vector<Sample> samples;
  add(samples, 1, Microseconds{0}, Microseconds{0});
  const auto report = evaluate(samples, {}, 1, kPeriod);
  EXPECT_EQ(report.answered, 1);
  EXPECT_FALSE(report.clock_lost);
}

TEST(ProbeMathTest, ASteadyGuestIsSilentForOnePeriodAndLosesNothing) {
  std::vector<Sample> samples;
  add(samples, 400, Microseconds{0}, Microseconds{0});
  const auto report = evaluate(samples, {}, 400, kPeriod);
  EXPECT_EQ(report.longest_silence, kPeriod);
  EXPECT_EQ(report.clock_lost, Microseconds{0});
}

TEST(ProbeMathTest, APauseIsSeenByPeersAndMissedByTheGuest) {
  // Silent for 400 ms, of which the guest's clock stood still for 350: the rest is the network's.
  std::vector<Sample> samples;
  add(samples, 100, Microseconds{0}, Microseconds{0});
  add(samples, 100, 99 * kPeriod + Microseconds{400'000}, Microseconds{350'000});
  std::vector<MonotonicTime> lost;
  for (int i = 1; i < 80; ++i) lost.emplace_back((99 + i) * kPeriod);
  const auto report = evaluate(samples, lost, 280, kPeriod);
  EXPECT_EQ(report.sent, 280);
  EXPECT_EQ(report.answered, 200);
  EXPECT_EQ(report.longest_silence, Microseconds{400'000});
  EXPECT_EQ(report.silence_began, samples[99].received_wall);
  EXPECT_EQ(report.clock_lost, Microseconds{350'000});
}

TEST(ProbeMathTest, WhoIsNotAskedIsNotSilent) {
  std::vector<Sample> samples;
  for (int i = 0; i < 10; ++i) add(samples, 1, i * 200 * kPeriod, Microseconds{0});
  // Four periods before it was asked it may have fallen silent; it answers in 200 us.
  EXPECT_EQ(evaluate(samples, {}, 10, kPeriod).longest_silence, 4 * kPeriod + Microseconds{200});
  // One that was lost tells where a silence began.
  const MonotonicTime lost = 5 * 200 * kPeriod + Microseconds{300'000};
  const auto report = evaluate(samples, {lost}, 11, kPeriod);
  EXPECT_EQ(report.longest_silence, Microseconds{700'200} + 4 * kPeriod);
  EXPECT_EQ(report.silence_began, WallTime{1'000'000} + 5 * 200 * kPeriod + Microseconds{280'000});
}

TEST(ProbeMathTest, AnAnswerThatWaitedForTheVmTellsWhenItWasAsked) {
  // Every 20 ms; it stood still from 10 ms after the 50th on, for 100 ms, and answered then all
  // that waited.
  std::vector<Sample> samples;
  for (int i = 0; i < 50; ++i) add(samples, 1, i * 4 * kPeriod, Microseconds{0});
  const Microseconds over = 49 * 4 * kPeriod + Microseconds{110'000};
  for (int i = 50; i < 55; ++i) {
    add(samples, 1, i * 4 * kPeriod, Microseconds{100'000}, over - i * 4 * kPeriod);
  }
  for (int i = 0; i < 20; ++i) {
    add(samples, 1, over + (i + 1) * 4 * kPeriod, Microseconds{100'000});
  }
  const auto report = evaluate(samples, {}, 75, kPeriod);
  EXPECT_EQ(report.longest_silence, Microseconds{110'000 - 200});
  EXPECT_EQ(report.clock_lost, Microseconds{100'000});
}

TEST(ProbeMathTest, SlowEchoesDoNotCountAsLostTime) {
  // Noise of up to 30 ms on the way back at both ends, and one quick echo among each 20.
  SeededRng rng(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Sample> samples;
    add(samples, 40, Microseconds{0}, Microseconds{0});
    add(samples, 40, Microseconds{500'000}, Microseconds{120'000});
    const std::size_t quick_first = rng.below(20);
    const std::size_t quick_last = 60 + rng.below(20);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (i == quick_first || i == quick_last) continue;
      samples[i].received += Microseconds{1'000 + static_cast<std::int64_t>(rng.below(29'000))};
    }
    std::vector<MonotonicTime> lost;
    for (int i = 40; i < 100; ++i) lost.emplace_back(i * kPeriod);
    const auto report = evaluate(samples, lost, 140, kPeriod);
    ASSERT_TRUE(report.clock_lost);
    // Half of the quick ones' round trip of 200 us.
    EXPECT_NEAR(static_cast<double>(report.clock_lost->count()), 120'000, 100);
  }
}

TEST(ProbeMathTest, AGuestThatSeemsToGainTimeLostNone) {
  std::vector<Sample> samples;
  add(samples, 10, Microseconds{0}, Microseconds{50});
  add(samples, 10, Microseconds{100'000}, Microseconds{0});
  EXPECT_EQ(evaluate(samples, {}, 20, kPeriod).clock_lost, Microseconds{0});
}

TEST(ProbeMathTest, TheEndsDoNotOverlapInAShortSeries) {
  std::vector<Sample> samples;
  add(samples, 1, Microseconds{0}, Microseconds{0});
  add(samples, 1, Microseconds{90'000}, Microseconds{40'000});
  EXPECT_EQ(evaluate(samples, {}, 2, kPeriod).clock_lost, Microseconds{40'000});
}

}  // namespace
}  // namespace mare::guestlink
