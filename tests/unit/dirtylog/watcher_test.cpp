// The watcher's schedule on a clock that stands still, over logs that are made up.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "tests/unit/dirtylog/watcher_world.h"

namespace mare::dirtylog {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(WatcherTest, AProfileIsThereWithinASecond) {
  watcher_.watch("a");
  run(milliseconds{1000});
  ASSERT_EQ(cycles().size(), 1U);
  EXPECT_EQ(walls_ms(cycles()[0]), (std::vector<int>{50, 100, 200, 300, 400, 500, 700, 1000}));
  const auto report = watcher_.report("a");
  EXPECT_EQ(report->heat.size(), kHeatRegions);
  EXPECT_TRUE(report->not_watched.empty());
}

TEST_F(WatcherTest, TheFirstCyclesAreShortAndTheOthersHaveEveryPoint) {
  watcher_.watch("a");
  run(seconds{10 + 20 + 40 + 64 + 64 + 1});
  ASSERT_EQ(cycles().size(), 6U);
  const std::vector<int> lengths_s{10, 20, 40, 64, 64};
  for (std::size_t i = 0; i < lengths_s.size(); ++i) {
    EXPECT_EQ(walls_ms(cycles()[i]).back(), lengths_s[i] * 1000);
    EXPECT_EQ(cycles()[i + 1].began - cycles()[i].began, seconds{lengths_s[i]});
  }
  EXPECT_EQ(walls_ms(cycles()[3]),
            (std::vector<int>{50, 100, 200, 300, 400, 500, 700, 1000, 1500, 2000, 3000, 5000, 7000,
                              10'000, 20'000, 40'000, 64'000}));
  EXPECT_EQ(vms_["a"].armed, 6) << "once a cycle, and not for a point";
}

TEST_F(WatcherTest, PointsAreWhatTheLogSaid) {
  watcher_.watch("a");
  run(seconds{20});
  const auto seen = cycles();
  ASSERT_GE(seen.size(), 2U);
  for (const auto& point : seen[0].points) {
    const double wall = std::chrono::duration<double>(point.wall).count();
    EXPECT_NEAR(static_cast<double>(point.unique.count), 1e6 * wall, 1);
    // Without what its 2500 faults took: these came out of its spare time.
    const double progress = wall / 2 - 1.2e-6 * 1e6 * wall / 4096;
    EXPECT_NEAR(std::chrono::duration<double>(point.progress).count(), progress, 2e-6);
  }
}

TEST_F(WatcherTest, CyclesOfAVmThatStoodStillTellNothing) {
  vms_["a"].stands_still = true;
  watcher_.watch("a");
  run(milliseconds{100});
  EXPECT_EQ(cycles().size(), 1U) << "an idle guest may do nothing for a moment";
  run(seconds{20});
  EXPECT_TRUE(cycles().empty());
  vms_["a"].stands_still = false;
  run(seconds{64});
  EXPECT_FALSE(cycles().empty());
}

TEST(PageSet, CountsRunsAcrossItsWords) {
  PageSet set;
  EXPECT_EQ(set.runs(), 0U);
  set.add(60, 70);
  EXPECT_EQ(set.runs(), 1U);
  set.add(0, 1);
  set.add(127, 128);
  set.add(129, 130);
  EXPECT_EQ(set.runs(), 4U);
  set.add(128, 129);
  EXPECT_EQ(set.runs(), 3U);
  EXPECT_EQ(set.count(), 14U);
}

TEST_F(WatcherTest, TellsWhetherPagesAreWrittenInOrder) {
  // Besides what each writes all the time, here and there.
  for (const char* vm : {"ordered", "scattered", "few"}) {
    for (std::size_t page = 0; page < 1000; page += 2) vms_[vm].pages.add(page, page + 1);
    watcher_.watch(vm);
  }
  run(seconds{9});
  EXPECT_DOUBLE_EQ(watcher_.report("ordered")->sequential, 0) << "one look tells nothing";
  vms_["ordered"].pages.add(2000, 2400);
  for (std::size_t page = 2000; page < 3000; page += 2) vms_["scattered"].pages.add(page, page + 1);
  vms_["few"].pages.add(2000, 2010);
  run(seconds{2});
  EXPECT_DOUBLE_EQ(watcher_.report("ordered")->sequential, 1 - 1.0 / 400);
  EXPECT_DOUBLE_EQ(watcher_.report("scattered")->sequential, 0);
  EXPECT_DOUBLE_EQ(watcher_.report("few")->sequential, 0) << "too few to tell";
}

TEST_F(WatcherTest, TellsHowMuchOfACpuItsVcpusGet) {
  watcher_.watch("a");
  run(milliseconds{60});
  EXPECT_DOUBLE_EQ(watcher_.report("a")->cpu_granted, 1);  // nothing is known yet
  vms_["b"].waits_as_often = 3;
  watcher_.watch("b");
  run(seconds{2});
  EXPECT_DOUBLE_EQ(watcher_.report("a")->cpu_granted, 1);
  EXPECT_DOUBLE_EQ(watcher_.report("b")->cpu_granted, 0.25);
}

TEST_F(WatcherTest, TheLastCyclesAreKept) {
  watcher_.watch("a");
  run(seconds{64 * 40});
  EXPECT_EQ(cycles().size(), kCyclesKept);
  EXPECT_EQ(cycles().back().began - cycles().front().began, seconds{64 * (kCyclesKept - 1)});
}

TEST_F(WatcherTest, HeatIsOfTheLastLongCycleAndOfWhatCameAfterIt) {
  const auto heat = [&] { return watcher_.report("a")->heat[0]; };
  vms_["a"].heat = 0.2;
  watcher_.watch("a");
  run(milliseconds{100});
  EXPECT_DOUBLE_EQ(heat(), 0.2) << "none is whole: what there is yet";
  vms_["a"].heat = 0.5;
  run(seconds{10});
  EXPECT_DOUBLE_EQ(heat(), 0.5);
  // A glance between two bursts.
  vms_["a"].heat = 0.1;
  watcher_.look_anew("a");
  run(seconds{2});
  EXPECT_DOUBLE_EQ(heat(), 0.5);
  vms_["a"].heat = 0.75;
  run(seconds{2});
  EXPECT_DOUBLE_EQ(heat(), 0.75);
  vms_["a"].heat = 0.3;
  run(seconds{140});
  EXPECT_DOUBLE_EQ(heat(), 0.3) << "a whole one since";
}

TEST_F(WatcherTest, HeatOfAVmThatIsForecastAgainAndAgainIsNotThatOfItsBoot) {
  vms_["a"].heat = 1;
  watcher_.watch("a");
  run(seconds{11});
  vms_["a"].heat = 0.25;
  vms_["a"].pages.add(0, 1000);
  const auto forecast_for = [this](int turns) {
    for (int i = 0; i < turns; ++i) {
      watcher_.look_anew("a");
      run(seconds{2});
    }
    return watcher_.report("a")->heat[0];
  };
  EXPECT_DOUBLE_EQ(forecast_for(20), 1) << "so short a time may be a part of what it goes through";
  EXPECT_DOUBLE_EQ(forecast_for(130), 0.25) << "all cycles of a whole one's time were after it";
}

TEST_F(WatcherTest, PagesAreThoseOfALookAnewIfItSawEnough) {
  const auto pages = [&](std::size_t begin, std::size_t end) {
    vms_["a"].pages = {};
    vms_["a"].pages.add(begin, end);
  };
  const auto seen = [&] { return watcher_.report("a")->written; };
  pages(0, 1000);
  watcher_.watch("a");
  run(seconds{12});
  EXPECT_EQ(seen().count(), 1000U);
  pages(2000, 2300);
  watcher_.look_anew("a");
  run(milliseconds{100});
  EXPECT_EQ(seen().count(), 300U);
  EXPECT_TRUE(seen().has(2299));
  pages(3000, 3100);
  run(milliseconds{1600});
  EXPECT_EQ(seen().count(), 400U) << "of all glances, and of the cycle after them";
  // Too little to tell: what the last long cycle saw comes to it.
  run(seconds{80});
  pages(4000, 4010);
  watcher_.look_anew("a");
  run(milliseconds{100});
  EXPECT_EQ(seen().count(), 110U);
}

TEST_F(WatcherTest, CostIsScansAndFaultsAndSmall) {
  vms_["a"].scan_takes = milliseconds{1};
  vms_["a"].rate = 1e9;
  watcher_.watch("a");
  run(seconds{10 + 20 + 40 + 64 * 25});  // the short ones are forgotten
  // A cycle: one scan of 1 ms for each of its points, 4096 faults of 1.2 us.
  const double scans = static_cast<double>(cycles().back().points.size());
  const double cost = (scans * 1e-3 + 4096 * 1.2e-6) / 64;
  EXPECT_NEAR(watcher_.report("a")->cost_fraction, cost, cost * 0.1);
}

TEST_F(WatcherTest, AVmThatWritesVeryMuchIsArmedLessOften) {
  vms_["a"].rate = 1e12;
  vms_["a"].wws = mebibytes(16 * 1024);  // 4.2 million faults: 5.03 s
  vms_["a"].content_hidden = true;
  watcher_.watch("a");
  run(seconds{3000});
  const auto seen = cycles();
  ASSERT_GE(seen.size(), 3U);
  for (std::size_t i = 1; i < seen.size(); ++i) {
    const seconds apart = std::chrono::round<seconds>(seen[i].began - seen[i - 1].began);
    EXPECT_EQ(apart, seconds{503});
  }
  EXPECT_NEAR(watcher_.report("a")->cost_fraction, 0.01, 0.0001);
}

TEST_F(WatcherTest, APointThatTookTooLongIsLeftOut) {
  vms_["a"].scan_takes = milliseconds{40};
  watcher_.watch("a");
  run(milliseconds{900});
  EXPECT_EQ(walls_ms(cycles()[0]), (std::vector<int>{220, 320, 420, 520, 720}))
      << "not the first two";
}

TEST_F(WatcherTest, ALookAnewCutsACycleShortAndGlancesSomeTimes) {
  EXPECT_EQ(watcher_.look_anew("a"), milliseconds{0}) << "not watched";
  watcher_.watch("a");
  EXPECT_EQ(watcher_.look_anew("a"), milliseconds{0}) << "its log is not open yet";
  run(seconds{25});
  ASSERT_EQ(cycles().size(), 2U);
  EXPECT_EQ(watcher_.look_anew("a"), milliseconds{1755});
  ASSERT_EQ(cycles().size(), 3U);
  EXPECT_EQ(walls_ms(cycles()[1]).back(), 15'000)
      << "what it had seen stays, and is seen to its end";
  run(milliseconds{250});
  EXPECT_EQ(watcher_.look_anew("a"), milliseconds{1505}) << "somebody else asks meanwhile";
  run(milliseconds{1505});
  ASSERT_EQ(cycles().size(), 6U);
  for (std::size_t i = 2; i < 5; ++i) {
    EXPECT_EQ(walls_ms(cycles()[i]), (std::vector<int>{50, 100, 200, 235})) << "a glance";
  }
  EXPECT_EQ(walls_ms(cycles()[5]).back(), 1000);
  // No two at the same moment of a beat of 100 ms, which most of these looks are multiples of.
  std::vector<int> moments;
  for (std::size_t i = 2; i < 6; ++i) {
    const auto since = cycles()[i].began - cycles()[2].began;
    moments.push_back(
        static_cast<int>(std::chrono::duration_cast<milliseconds>(since).count() % 100));
  }
  EXPECT_EQ(moments, (std::vector<int>{0, 35, 70, 5}));
  EXPECT_LE(watcher_.report("a")->cost_fraction, 0.0101);
  run(seconds{10});
  EXPECT_EQ(watcher_.look_anew("a"), milliseconds{0}) << "it knows";
  EXPECT_EQ(cycles().size(), 6U);
  run(seconds{5});
  EXPECT_EQ(watcher_.look_anew("a"), milliseconds{1755});
}

/// A sweep that takes 12 s, of which no cycle of 10 s sees all.
TEST_F(WatcherTest, TheFirstCycleGoesOnWithWhatTheNextOnesSaw) {
  vms_["a"].sweeps_over = 1200;
  watcher_.watch("a");
  run(milliseconds{13'100});
  ASSERT_EQ(cycles().size(), 2U);
  EXPECT_EQ(walls_ms(cycles()[1]).back(), 3000) << "its own looks alone";
  const DirtyCycle first = cycles()[0];
  EXPECT_EQ(walls_ms(first).back(), 13'000);
  std::map<int, std::uint64_t> pages;
  for (const auto& point : first.points)
    pages[static_cast<int>(point.wall.count() / 1000)] = point.unique.count / 4096;
  EXPECT_EQ(pages.at(10'000), 1000U);
  EXPECT_EQ(pages.at(11'000), 1100U);
  EXPECT_EQ(pages.at(12'000), 1200U);
  EXPECT_EQ(pages.at(13'000), 1200U) << "these were there before";
  EXPECT_NEAR(static_cast<double>(first.points.back().progress.count()), 6'500'000, 2'000);
}

TEST_F(WatcherTest, CyclesOfTheirOwnTellMore) {
  vms_["a"].sweeps_over = 1200;
  watcher_.watch("a");
  run(milliseconds{10'000 + 20'000 + 10'100});
  ASSERT_EQ(cycles().size(), 3U);
  EXPECT_EQ(walls_ms(cycles()[1]).back(), 20'000);
  for (const int wall : walls_ms(cycles()[0])) {
    EXPECT_TRUE(wall <= 10'000 || wall > 20'000) << wall;
  }
  EXPECT_EQ(walls_ms(cycles()[0]).back(), 40'000);
  run(seconds{40 + 64});
  EXPECT_EQ(walls_ms(cycles()[0]).back(), 10'000) << "there is one of 64 s now";
}

TEST_F(WatcherTest, NothingIsJoinedOverAPauseOfTheLog) {
  vms_["a"].sweeps_over = 1200;
  watcher_.watch("a");
  run(milliseconds{4100});
  watcher_.back_off("a");
  run(milliseconds{1000 + 23'100});
  ASSERT_EQ(cycles().size(), 3U);
  EXPECT_EQ(walls_ms(cycles()[0]).back(), 3000);
  EXPECT_EQ(walls_ms(cycles()[1]).back(), 23'000) << "the first one since";
}

TEST_F(WatcherTest, OneThatIsCutShortAtOnceIsNotTheFirst) {
  vms_["a"].sweeps_over = 1200;
  watcher_.watch("a");
  run(milliseconds{4100});
  watcher_.back_off("a");
  run(milliseconds{1010});
  EXPECT_EQ(watcher_.look_anew("a"), milliseconds{1755}) << "its log is open, and saw nothing yet";
  run(seconds{6});
  EXPECT_EQ(walls_ms(cycles()[0]).back(), 3000) << "what came before the pause stays as it was";
  EXPECT_EQ(walls_ms(cycles()[1]).back(), 3 * 235 + 5000) << "three glances and a cycle";
}

/// A sweep again: what it comes to between a cycle's last look and the next arming counts.
TEST_F(WatcherTest, NothingIsMissedBetweenTheLastLookAndTheNextArming) {
  vms_["a"].sweeps_over = 1200;
  watcher_.watch("a");
  run(milliseconds{4600});
  ASSERT_EQ(walls_ms(cycles()[0]).back(), 3000) << "the next look is due after 5 s";
  EXPECT_EQ(watcher_.look_anew("a"), milliseconds{1755});
  const DirtyPoint last = cycles()[0].points.back();
  EXPECT_EQ(last.wall, milliseconds{4600});
  EXPECT_NEAR(static_cast<double>(last.unique.count) / 4096, 460, 1);
  run(milliseconds{3 * 235 + 3000});
  const DirtyCycle first = cycles()[0];
  EXPECT_EQ(walls_ms(first).back(), 4600 + 3 * 235 + 3000);
  for (const auto& point : first.points) {
    // Up to it every page is a new one.
    EXPECT_NEAR(static_cast<double>(point.unique.count) / 4096,
                static_cast<double>(point.wall.count()) / 10'000, 5)
        << point.wall.count();
  }
}

TEST_F(WatcherTest, WhatIsSeenLastIsPaidForToo) {
  // 1 GB after its last look, paid for after 30 s; but by then there are 3.
  vms_["a"].rate = 100e6;
  vms_["a"].wws = mebibytes(4096);
  watcher_.watch("a");
  run(seconds{100});
  EXPECT_EQ(vms_["a"].armed, 1);
  EXPECT_LE(watcher_.report("a")->cost_fraction, 0.0101);
  run(seconds{40});
  EXPECT_EQ(vms_["a"].armed, 2) << "4 GiB took 1.26 s of its time";
}

TEST_F(WatcherTest, LatePointsAreTakenOnce) {
  watcher_.watch("a");
  watcher_.step();
  clock_.advance(milliseconds{700});  // the machine was busy
  watcher_.step();
  EXPECT_EQ(walls_ms(cycles()[0]), std::vector<int>{700});
  run(milliseconds{1500});
  EXPECT_EQ(walls_ms(cycles()[0]), (std::vector<int>{700, 1000, 1500, 2000}));
}

TEST_F(WatcherTest, BacksOffAndGoesOnAfterwards) {
  FakeVm& vm = vms_["a"];
  watcher_.watch("a");
  run(seconds{4});
  vm.open_error = make_error(Code::FailedPrecondition, "it is being sent");
  watcher_.back_off("a");
  EXPECT_EQ(vm.closed, 1) << "at once";
  run(seconds{30});
  EXPECT_EQ(vm.opened, 1);
  EXPECT_EQ(cycles().size(), 1U) << "what was seen stays";
  EXPECT_EQ(watcher_.report("a")->not_watched, "it is being sent");
  vm.open_error.reset();
  run(milliseconds{1100});
  EXPECT_EQ(vm.opened, 2);
  EXPECT_EQ(cycles().size(), 2U);
  EXPECT_EQ(walls_ms(cycles()[0]).back(), 3000) << "the cut one as far as it came";
  EXPECT_TRUE(watcher_.report("a")->not_watched.empty());
}

TEST_F(WatcherTest, BackingOffBeforeAnythingWasSeenLeavesNoEmptyCycle) {
  watcher_.watch("a");
  watcher_.step();
  watcher_.back_off("a");
  EXPECT_TRUE(cycles().empty());
  EXPECT_FALSE(watcher_.back_off("nobody"));
}

TEST_F(WatcherTest, AVmThatIsNotHereIsForgotten) {
  vms_["a"].open_error = make_error(Code::NotFound, "it ended");
  watcher_.watch("a");
  run(seconds{1});
  EXPECT_FALSE(watcher_.report("a").has_value());
}

TEST_F(WatcherTest, AVmThatEndsIsForgottenUnlessItRunsAnew) {
  FakeVm& vm = vms_["a"];
  watcher_.watch("a");
  run(seconds{1});
  vm.log_error = make_error(Code::NotFound, "its process has ended");
  vm.open_error = make_error(Code::NotFound, "no such domain");
  run(seconds{3});
  EXPECT_FALSE(watcher_.report("a").has_value());
  EXPECT_EQ(vm.closed, vm.opened);

  vm = {};
  watcher_.watch("a");
  run(seconds{1});
  vm.log_error = make_error(Code::NotFound, "its process has ended");
  run(seconds{1});
  vm.log_error.reset();
  run(seconds{2});
  EXPECT_TRUE(watcher_.report("a")->not_watched.empty());
}

TEST_F(WatcherTest, AVmThatLeftAndCameBackBetweenTwoPointsIsWatchedInItsNewProcess) {
  FakeVm& vm = vms_["a"];
  watcher_.watch("a");
  run(seconds{21});  // the next point is nine seconds away
  ASSERT_EQ(vm.opened, 1);
  watcher_.arrived("a");
  EXPECT_EQ(vm.closed, 1) << "the log of a process that ended is open still";
  run(milliseconds{1900});
  EXPECT_EQ(vm.opened, 1) << "the guest has enough to do";
  run(seconds{1});
  EXPECT_EQ(vm.opened, 2);
  EXPECT_GT(watcher_.look_anew("a"), milliseconds{0});
  run(seconds{2});
  EXPECT_EQ(cycles().size(), 7U) << "two before, its first second, three glances, and since";
}

TEST_F(WatcherTest, OneThatHasJustComeIsWatchedAtOnceWhereSomebodyAsks) {
  watcher_.watch("a");
  run(seconds{12});
  watcher_.arrived("a");
  run(milliseconds{100});
  ASSERT_EQ(vms_["a"].opened, 1);
  const auto before = cycles().size();
  const auto wait = watcher_.look_anew("a");
  EXPECT_GE(wait, seconds{1});
  run(wait);
  EXPECT_EQ(vms_["a"].opened, 2);
  ASSERT_EQ(cycles().size(), before + 1);
  EXPECT_EQ(walls_ms(cycles().back()).back(), 1000);
}

TEST_F(WatcherTest, WhatCannotBeWatchedIsTriedRarely) {
  FakeVm& vm = vms_["a"];
  vm.open_error = make_error(Code::Unsupported, "no descriptor");
  watcher_.watch("a");
  run(seconds{59});
  EXPECT_EQ(watcher_.report("a")->not_watched, "no descriptor");
  EXPECT_TRUE(watcher_.report("a")->hopeless);
  vm.open_error.reset();
  run(milliseconds{900});
  EXPECT_EQ(vm.opened, 0);
  run(seconds{1});
  EXPECT_EQ(vm.opened, 1);
  EXPECT_FALSE(watcher_.report("a")->hopeless);
}

TEST_F(WatcherTest, WatchingTwiceChangesNothingAndForgettingEndsIt) {
  watcher_.watch("a");
  run(seconds{1});
  watcher_.watch("a");
  run(seconds{1});
  EXPECT_EQ(vms_["a"].armed, 1);
  watcher_.forget("a");
  EXPECT_EQ(vms_["a"].closed, 1);
  EXPECT_FALSE(watcher_.report("a").has_value());
  watcher_.forget("a");
}

TEST_F(WatcherTest, SeveralVmsEachAtItsOwnTime) {
  watcher_.watch("a");
  run(milliseconds{1500});
  watcher_.watch("b");
  run(milliseconds{1000});
  EXPECT_EQ(walls_ms(cycles()[0]),
            (std::vector<int>{50, 100, 200, 300, 400, 500, 700, 1000, 1500, 2000}));
  EXPECT_EQ(walls_ms(watcher_.report("b")->cycles[0]),
            (std::vector<int>{50, 100, 200, 300, 400, 500, 700, 1000}));
}

TEST(WatcherThreadTest, StepsByItselfAndEnds) {
  SystemClock clock;
  Log log(clock, LogLevel::Error);
  std::atomic<int> opened = 0;
  Watcher watcher(
      [&](const std::string&) -> Result<std::unique_ptr<PageLog>> {
        ++opened;
        return make_error(Code::Unsupported, "a test");
      },
      clock, log);
  WatcherThread thread(watcher, clock);
  watcher.watch("a");
  thread.wake();
  while (opened == 0) clock.sleep_for(milliseconds{1});
  EXPECT_EQ(opened, 1);
}

}  // namespace
}  // namespace mare::dirtylog
