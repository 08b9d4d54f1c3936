// Guests that go through their memory in order: found by the log's looks, followed by content.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "hypervisor/dirtylog/content_look.h"
#include "hypervisor/dirtylog/page_samples.h"
#include "hypervisor/dirtylog/sweep_finder.h"
#include "hypervisor/dirtylog/sweep_tracker.h"
#include "tests/unit/dirtylog/child.h"

namespace mare::dirtylog {
namespace {

constexpr std::size_t kBlock = 1024;  // pages, as a guest's kernel hands them out
constexpr std::size_t kBlocks = 100;
constexpr std::size_t kFirst = 3000;
constexpr std::size_t kSwept = kBlocks * kBlock;
constexpr double kPagesPerS = 6500;
constexpr std::size_t kSetUp = 140'000;

enum class Order { Up, Down, Scattered };

/// The page that is written `at` so many pages of its way.
std::size_t page_at(Order order, std::size_t at) {
  const std::size_t block = at / kBlock % kBlocks;
  const std::size_t place = order == Order::Up     ? block
                            : order == Order::Down ? kBlocks - 1 - block
                                                   : block * 37 % kBlocks;
  // With a hole, as the kernel's own memory makes one.
  return kFirst + (place < 30 ? place : place + 11) * kBlock + at % kBlock;
}

/// Looks as the watcher makes them, in cycles of 64 s, from the first one on.
class Watched {
 public:
  explicit Watched(Order order) : order_(order) {}
  void cycle(const std::vector<double>& looks_s) {
    finder_.begin_cycle(known_);
    PageSet written;
    std::size_t done = 0;
    for (const double look : looks_s) {
      for (; static_cast<double>(done) < look * kPagesPerS; ++done) {
        const std::size_t page = page_at(order_, at_++);
        written.add(page, page + 1);
      }
      // And what is written all the time, at both ends.
      written.add(10, 100);
      written.add(130'000, 130'150);
      known_.add(written);
      finder_.look(written, Microseconds{static_cast<std::int64_t>(look * 1e6)});
    }
  }
  /// The guest's boot writes here and there, in a cycle of its own.
  void boot() {
    finder_.begin_cycle(known_);
    PageSet written;
    const std::vector<std::size_t> places{70, 5, 50, 20};
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::size_t from = kFirst + places[i] * kBlock;
      written.add(from, from + 5 * kBlock / 2);
      known_.add(written);
      finder_.look(written, Microseconds{static_cast<std::int64_t>(i + 1) * 1'000'000});
    }
  }
  /// Wrote something at the end of its memory, once.
  void set_up() {
    known_.add(kSetUp, kSetUp + 20 * kBlock);
    finder_.begin_cycle(known_);
  }
  SweepFinder::Found all_found() const { return finder_.found(known_); }
  Sweep found() const { return all_found().sweep; }

 private:
  Order order_;
  std::size_t at_ = 12'345;
  PageSet known_;
  SweepFinder finder_;
};

const std::vector<double> kLong{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1, 2, 5, 10, 20};
const std::vector<double> kGlance{0.05, 0.1, 0.2};
const std::vector<double> kBegun{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1};

TEST(SweepFinder, TellsTheDirectionAndThePeriod) {
  for (const Order order : {Order::Up, Order::Down}) {
    Watched guest(order);
    guest.cycle({kLong.begin(), kLong.end() - 1});
    EXPECT_EQ(guest.found().period.count(), 0) << "not all of it has been seen";
    guest.cycle(kLong);
    // As before a forecast.
    for (int i = 0; i < 3; ++i) guest.cycle(kGlance);
    guest.cycle(kBegun);
    const Sweep found = guest.found();
    EXPECT_EQ(found.descending, order == Order::Down);
    EXPECT_NEAR(static_cast<double>(found.period.count()) / 1e6, kSwept / kPagesPerS, 0.6);
  }
}

TEST(SweepFinder, WhatABootWroteBeforeItTellsNothing) {
  Watched guest(Order::Up);
  guest.boot();
  guest.cycle(kLong);
  guest.cycle(kBegun);
  EXPECT_NEAR(static_cast<double>(guest.found().period.count()) / 1e6, kSwept / kPagesPerS, 0.6);
}

TEST(SweepFinder, WhatItGoesThroughIsWhatItWroteUntilItCameRound) {
  Watched guest(Order::Up);
  guest.set_up();
  guest.cycle(kLong);  // 1.3 periods
  guest.cycle(kBegun);
  const SweepFinder::Found found = guest.all_found();
  EXPECT_NEAR(static_cast<double>(found.sweep.period.count()) / 1e6, kSwept / kPagesPerS, 0.6);
  EXPECT_NEAR(static_cast<double>(found.pages.count()), kSwept, 300);
  EXPECT_FALSE(found.pages.has(kSetUp));

  // No cycle in which it came round: what was written in all of them.
  Watched seen_less(Order::Up);
  seen_less.set_up();
  for (int i = 0; i < 3; ++i) seen_less.cycle({kLong.begin(), kLong.end() - 1});
  EXPECT_GT(seen_less.found().period.count(), 0);
  EXPECT_TRUE(seen_less.all_found().pages.has(kSetUp));
}

TEST(SweepFinder, OneThatGoesAllOverIsNone) {
  Watched guest(Order::Scattered);
  guest.cycle(kLong);
  guest.cycle(kLong);
  guest.cycle(kBegun);
  EXPECT_EQ(guest.found().period.count(), 0);
}

TEST(SweepFinder, WhatIsSmallOrStillIsNone) {
  SweepFinder finder;
  PageSet all;
  all.add(0, kSwept);
  EXPECT_EQ(finder.found(all).sweep.period.count(), 0);
  for (int cycle = 0; cycle < 3; ++cycle) {
    finder.begin_cycle(all);
    PageSet written;
    written.add(0, 9000);
    finder.look(written, Microseconds{50'000});
    finder.look(written, Microseconds{100'000});
  }
  EXPECT_EQ(finder.found(all).sweep.period.count(), 0) << "it writes the same again and again";
}

TEST(Centre, IsOnACircle) {
  PageSet all;
  all.add(1000, 2000);
  all.add(5000, 6000);
  PageSet ends;
  ends.add(5900, 6000);
  ends.add(1000, 1100);
  const auto centre = centre_of(ends, all);
  ASSERT_TRUE(centre);
  EXPECT_LT(std::abs(centre->place - std::round(centre->place)), 0.02);
  EXPECT_GT(centre->unity, 0.95);
  const auto whole = centre_of(all, all);
  ASSERT_TRUE(whole);
  EXPECT_LT(whole->unity, 0.05);
  PageSet others;
  others.add(0, 100);
  EXPECT_FALSE(centre_of(others, all));
}

/// A guest whose pages hold how often they were written; looked at each 100 ms.
class Looked {
 public:
  explicit Looked(Order order, std::size_t known_besides = 0) : order_(order) {
    for (std::size_t at = 0; at < kSwept; ++at) {
      known_.add(page_at(order, at), page_at(order, at) + 1);
    }
    known_.add(0, kHot);
    known_.add(kSetUp, kSetUp + known_besides);
    times_.assign(kRam, 1);
  }
  void look() {
    ++times_[looks_ % kHot];
    ContentReading reading;
    reading.pages_each = kEach;
    reading.progress = Microseconds{90'000 * looks_};
    for (std::size_t i = 0; i < kRam / kEach; ++i) {
      reading.sums.push_back(times_[sampled_page(i, kEach)]);
    }
    content_.look(std::move(reading), std::chrono::milliseconds{100} * looks_++);
  }
  void write(std::size_t pages) {
    for (std::size_t i = 0; i < pages; ++i) ++times_[page_at(order_, at_++)];
  }
  std::optional<SweepSpeed> after(int looks, std::size_t pages_each) {
    look();
    for (int i = 1; i < looks; ++i) {
      write(pages_each);
      look();
    }
    return found();
  }
  std::optional<SweepSpeed> found() const { return content_.sweep(known_).speed; }
  bool sure() const { return content_.sweep(known_).sure; }
  const ContentLook& content() const { return content_; }

 private:
  static constexpr std::size_t kHot = 100;
  static constexpr std::size_t kEach = 80;
  static constexpr std::size_t kRam = 2048 * kEach;
  Order order_;
  PageSet known_;
  std::size_t at_ = 12'345;
  int looks_ = 0;
  std::vector<std::uint64_t> times_;
  ContentLook content_;
};

TEST(ContentLook, TellsTheDirectionAndTheSpeedOfASweep) {
  for (const Order order : {Order::Up, Order::Down}) {
    // 90 to 900 MB/s: some looks make a chunk, and one is a fifth of the way.
    for (const std::size_t pages_each : {2'200, 6'500, 22'000}) {
      Looked guest(order);
      const auto found = guest.after(11, pages_each);
      ASSERT_TRUE(found) << pages_each;
      EXPECT_EQ(found->descending, order == Order::Down);
      EXPECT_NEAR(found->pages_per_s / static_cast<double>(10 * pages_each), 1, 0.08);
    }
  }
}

TEST(ContentLook, TellsHowMuchWasWritten) {
  Looked guest(Order::Scattered);
  guest.after(11, 6'500);
  const auto points = guest.content().points();
  ASSERT_EQ(points.size(), 10U);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].wall, Microseconds{100'000 * (static_cast<int>(i) + 1)});
    EXPECT_EQ(points[i].progress, Microseconds{90'000 * (static_cast<int>(i) + 1)});
    const auto pages = static_cast<double>(points[i].unique.count) / 4096;
    EXPECT_NEAR(pages, 6'500.0 * static_cast<double>(i + 1), 900);
  }
  EXPECT_NEAR(static_cast<double>(guest.content().written().count()), 65'000, 2'000);
  EXPECT_TRUE(ContentLook().points().empty());
  EXPECT_TRUE(ContentLook().written().empty());
}

TEST(ContentLook, WhatWasWrittenOnceIsPassedOver) {
  Looked guest(Order::Up, 20 * kBlock);
  const auto found = guest.after(11, 6'500);
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->descending);
  EXPECT_NEAR(found->pages_per_s / 65'000, 1, 0.08);
}

TEST(ContentLook, OneThatGoesAllOverIsNone) {
  EXPECT_FALSE(Looked(Order::Scattered).after(11, 6'500));
  EXPECT_FALSE(Looked(Order::Up).after(11, kSwept)) << "all of it between two looks";
}

TEST(ContentLook, OneThatWasSeenForTooFewStepsMayBeOne) {
  Looked slow(Order::Up);
  EXPECT_FALSE(slow.after(11, 1'300)) << "three chunks";
  EXPECT_FALSE(slow.sure());
  EXPECT_TRUE(slow.after(11, 1'300)) << "in another second";
  EXPECT_TRUE(slow.sure());
  Looked idle(Order::Up);
  EXPECT_FALSE(idle.after(11, 0));
  EXPECT_FALSE(idle.sure());
  EXPECT_FALSE(Looked(Order::Up).after(1, 6'500));
  Looked scattered(Order::Scattered);
  EXPECT_FALSE(scattered.after(11, 6'500));
  EXPECT_TRUE(scattered.sure());
}

TEST(ContentLook, OneThatGoesOnAndOffHasNoSpeed) {
  Looked guest(Order::Up);
  guest.look();
  for (int beat = 0; beat < 3; ++beat) {
    for (int i = 0; i < 3; ++i) {
      guest.write(6'500);
      guest.look();
    }
    for (int i = 0; i < 4; ++i) guest.look();
  }
  EXPECT_FALSE(guest.found());
}

TEST(ContentLook, OneThatEndedMeanwhileHasNone) {
  Looked guest(Order::Up);
  ASSERT_TRUE(guest.after(8, 6'500));
  guest.look();
  EXPECT_TRUE(guest.found());
  // It goes on after a pause, and stops.
  guest.write(6'500);
  for (int i = 0; i < 10; ++i) guest.look();
  EXPECT_TRUE(guest.found()) << "one pause";
  guest.write(6'500);
  for (int i = 0; i < 10; ++i) guest.look();
  EXPECT_FALSE(guest.found());
}

TEST(SweepFinder, WhoseSpeedIsKnownGoesThroughWhatACycleSaw) {
  SweepFinder finder;
  PageSet known;
  known.add(0, 3 * kLeastSwept);
  finder.begin_cycle(known);
  PageSet written;
  written.add(0, kLeastSwept);
  finder.look(written, Microseconds{1'000'000});
  const SweepSpeed speed{true, static_cast<double>(kLeastSwept)};
  const auto too_short = finder.found(known, speed);
  EXPECT_EQ(too_short.sweep.period, Microseconds{3'000'000});
  EXPECT_EQ(too_short.pages.count(), 3 * kLeastSwept);
  finder.look(written, Microseconds{1'300'000});
  const auto found = finder.found(known, speed);
  EXPECT_TRUE(found.sweep.descending);
  EXPECT_EQ(found.sweep.period, Microseconds{1'000'000});
  EXPECT_EQ(found.pages.count(), kLeastSwept);
}

TEST(ContentLook, WhatIsSmallIsNoSweep) {
  // It is swept over twice in a second.
  const auto swept = [](std::size_t pages_each) {
    ContentLook content;
    for (std::size_t look = 0; look < 11; ++look) {
      ContentReading reading;
      reading.pages_each = pages_each;
      for (std::size_t i = 0; i < 1024; ++i) {
        reading.sums.push_back(1U + (i < look * 200 ? 1U : 0U) + (i + 1024 < look * 200 ? 1U : 0U));
      }
      content.look(std::move(reading), std::chrono::milliseconds{100} * look);
    }
    PageSet known;
    known.add(0, 1024 * pages_each);
    return content.sweep(known).speed.has_value();
  };
  EXPECT_FALSE(swept(15));
  EXPECT_TRUE(swept(16));
}

TEST(PageSamples, AreOneOfEachPart) {
  std::set<std::size_t> places;
  for (std::size_t i = 0; i < 1000; ++i) {
    const std::size_t page = sampled_page(i, 64);
    EXPECT_EQ(page / 64, i);
    places.insert(page % 64);
  }
  EXPECT_EQ(places.size(), 64U) << "not always the same one";
  EXPECT_EQ(sampled_page(7, 1), 7U);
}

TEST(SweepSteps, AStepIsTheShorterWayRound) {
  EXPECT_NEAR(step_between(0.9, 0.1), 0.2, 1e-9);
  EXPECT_NEAR(step_between(0.1, 0.9), -0.2, 1e-9);
  EXPECT_NEAR(step_between(0.2, 0.5), 0.3, 1e-9);
}

class SweepTrackerTest : public testing::Test {
 protected:
  test::Child child_{test::kRam};
};

TEST_F(SweepTrackerTest, SeesWhereItsProcessWrites) {
  child_.write(0, test::kPages);
  PageSet swept;
  swept.add(test::kPages / 4, test::kPages);
  auto tracker = SweepTracker::open(child_.pid(), test::kRam, swept);
  ASSERT_TRUE(tracker) << tracker.error().text();
  const auto first = tracker->look();
  ASSERT_TRUE(first) << first.error().text();
  EXPECT_FALSE(*first) << "nothing to compare with";
  const auto still = tracker->look();
  ASSERT_TRUE(still);
  EXPECT_FALSE(*still) << "nothing was written";
  // From 1/2 to 5/8 of all, so 1/3 to 1/2 of what is swept.
  child_.write(test::kPages / 2, test::kPages / 8);
  const auto seen = tracker->look();
  ASSERT_TRUE(seen);
  ASSERT_TRUE(*seen);
  EXPECT_NEAR(**seen, 5.0 / 12, 0.02);
  child_.write(test::kPages / 4, test::kPages * 3 / 4);
  const auto all_over = tracker->look();
  ASSERT_TRUE(all_over);
  EXPECT_FALSE(*all_over);
}

TEST_F(SweepTrackerTest, NothingSweptIsNoPlace) {
  const auto none = SweepTracker::open(child_.pid(), test::kRam, {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::NotFound);
}

}  // namespace
}  // namespace mare::dirtylog
