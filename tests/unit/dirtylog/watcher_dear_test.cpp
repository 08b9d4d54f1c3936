// The watcher where a guest feels that its log is armed: what it costs, and what is seen by content
// instead.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include "tests/unit/dirtylog/watcher_world.h"

namespace mare::dirtylog {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// On a machine that is itself a guest.
class DearWatcherTest : public WatcherTest {
 protected:
  DearWatcherTest() : WatcherTest(std::chrono::microseconds{15}) {}
  /// 1.5 s of faults a cycle; by content nobody can see it, so it is armed at once.
  void writes_everywhere() {
    vms_["a"].content_hidden = true;
    vms_["a"].rate = 1e9;
    vms_["a"].wws = mebibytes(384);
  }
};

TEST_F(DearWatcherTest, CyclesLastTheLonger) {
  writes_everywhere();
  watcher_.watch("a");
  run(seconds{140});
  EXPECT_EQ(vms_["a"].armed, 1);
  run(seconds{10});
  EXPECT_EQ(vms_["a"].armed, 2);
  EXPECT_NEAR(watcher_.report("a")->cost_fraction, 0.01, 0.001);
}

TEST_F(DearWatcherTest, AVmThatComesBackDoesNotPayAtOnceAgain) {
  writes_everywhere();
  watcher_.watch("a");
  run(seconds{5});
  ASSERT_TRUE(watcher_.back_off("a"));
  run(seconds{10});
  watcher_.arrived("a");
  run(seconds{100});
  EXPECT_EQ(vms_["a"].opened, 3);
  EXPECT_EQ(vms_["a"].armed, 1);
  EXPECT_EQ(watcher_.report("a")->not_watched, "");
  run(seconds{40});
  EXPECT_EQ(vms_["a"].armed, 2);
}

TEST_F(DearWatcherTest, NorOneThatWasElsewhereMeanwhile) {
  writes_everywhere();
  watcher_.watch("a");
  run(seconds{5});
  ASSERT_TRUE(watcher_.back_off("a"));
  vms_["a"].open_error = make_error(Code::NotFound, "it is not here");
  run(seconds{30});
  EXPECT_FALSE(watcher_.report("a"));
  vms_["a"].open_error.reset();
  watcher_.arrived("a");
  run(seconds{100});
  EXPECT_EQ(vms_["a"].armed, 1);
  ASSERT_TRUE(watcher_.report("a"));
  EXPECT_FALSE(cycles().empty()) << "what was seen stays";
  run(seconds{20});
  EXPECT_EQ(vms_["a"].armed, 2);
}

TEST_F(DearWatcherTest, NorOneThatWasSaidToHaveLeft) {
  writes_everywhere();
  watcher_.watch("a");
  run(seconds{5});
  watcher_.left("a");
  EXPECT_EQ(vms_["a"].closed, 1);
  EXPECT_FALSE(watcher_.report("a"));
  EXPECT_EQ(watcher_.look_anew("a").count(), 0);
  vms_["a"].open_error = make_error(Code::NotFound, "it is not here");
  run(seconds{30});
  vms_["a"].open_error.reset();
  watcher_.arrived("a");
  run(seconds{100});
  EXPECT_EQ(vms_["a"].armed, 1);
  run(seconds{20});
  EXPECT_EQ(vms_["a"].armed, 2);
}

TEST_F(DearWatcherTest, OneThatStaysAwayIsForgottenInTheEnd) {
  writes_everywhere();
  watcher_.watch("a");
  run(seconds{5});
  ASSERT_TRUE(watcher_.back_off("a"));
  vms_["a"].open_error = make_error(Code::NotFound, "it is not here");
  run(seconds{200});
  vms_["a"].open_error.reset();
  watcher_.watch("a");
  run(seconds{1});
  EXPECT_EQ(cycles().size(), 1U) << "its first one";
}

TEST_F(DearWatcherTest, TheLeastThatAFirstWriteTookCounts) {
  writes_everywhere();
  watcher_.saw_first_write(std::chrono::microseconds{30});
  watcher_.saw_first_write(std::chrono::microseconds{10});  // so 1 s of faults
  watcher_.watch("a");
  run(seconds{95});
  EXPECT_EQ(vms_["a"].armed, 1);
  run(seconds{10});
  EXPECT_EQ(vms_["a"].armed, 2);
}

TEST_F(DearWatcherTest, NobodyLooksAnewAtAVmThatWouldFeelIt) {
  vms_["a"].rate = 200e6;
  vms_["a"].wws = mebibytes(384);
  watcher_.watch("a");
  run(milliseconds{900});
  EXPECT_EQ(watcher_.look_anew("a"), milliseconds{1100}) << "what it costs is not known yet";
  run(seconds{40});
  const int armed = vms_["a"].armed;
  ASSERT_EQ(armed, 1);
  const auto known = cycles();
  const auto wait = watcher_.look_anew("a");
  EXPECT_EQ(wait, milliseconds{1100});
  run(wait);
  EXPECT_EQ(vms_["a"].armed, armed);
  const auto seen = cycles();
  ASSERT_EQ(seen.size(), known.size() + 1);
  EXPECT_EQ(walls_ms(seen.back()),
            (std::vector<int>{100, 200, 300, 400, 500, 600, 700, 800, 900, 1000}))
      << "by content";
}

TEST_F(DearWatcherTest, NorAtOneThatBeganToWriteInTheMiddleOfACycle) {
  vms_["a"].rate = 0;
  vms_["a"].wws = mebibytes(384);
  watcher_.watch("a");
  run(seconds{90});  // after 10, 20 and 40 s one of 64 goes on
  vms_["a"].rate = 100e6;
  run(seconds{20});
  const int armed = vms_["a"].armed;
  run(watcher_.look_anew("a"));
  EXPECT_EQ(vms_["a"].armed, armed);
}

TEST_F(DearWatcherTest, AsManyGlancesAsItMayCost) {
  // 0.15 s soon after the last one, of which it must not feel 0.1.
  const auto glances = [this](double rate) {
    vms_["a"].content_hidden = true;
    vms_["a"].rate = rate;
    vms_["a"].wws = mebibytes(384);
    watcher_.watch("a");
    run(seconds{12});
    const int before = vms_["a"].armed;
    EXPECT_GT(watcher_.look_anew("a").count(), 1000);
    run(milliseconds{1500});
    const int armed = vms_["a"].armed - before;
    watcher_.forget("a");
    return armed - 1;
  };
  EXPECT_EQ(glances(8e6), 3);
  EXPECT_EQ(glances(25e6), 2);  // 22 ms a glance, 96 for the cycle
}

/// 400 MiB at 256 MiB/s: to arm them costs it 1.5 s.
void sweep_quickly(FakeVm& vm) {
  vm.sweeps_over = 102'400;
  vm.sweeps_each_s = 65'536;
}

TEST_F(DearWatcherTest, WhetherItSweepsIsSeenWithoutArmingIt) {
  FakeVm& vm = vms_["a"];
  sweep_quickly(vm);
  watcher_.watch("a");
  run(milliseconds{500});
  EXPECT_EQ(watcher_.report("a")->sweep.period.count(), 0) << "too early";
  const auto wait = watcher_.look_anew("a");
  EXPECT_EQ(wait, milliseconds{1100});
  run(wait);
  EXPECT_EQ(vm.armed, 0);
  const auto report = watcher_.report("a");
  ASSERT_EQ(report->cycles.size(), 1U);
  ASSERT_EQ(report->heat.size(), kHeatRegions);
  EXPECT_NEAR(std::accumulate(report->heat.begin(), report->heat.end(), 0.0), kHeatRegions / 2.0, 1)
      << "half of its RAM";
  const auto& last = report->cycles.back().points.back();
  EXPECT_NEAR(static_cast<double>(last.unique.count), 65'536.0 * 4096, 5e6);
  EXPECT_FALSE(report->sweep.descending);
  EXPECT_NEAR(static_cast<double>(report->sweep.period.count()) / 1e6, 1, 0.05);
  EXPECT_NEAR(static_cast<double>(report->swept.count()), 65'536, 64) << "so far";
  EXPECT_EQ(watcher_.look_anew("a"), milliseconds{0}) << "it knows";
}

TEST_F(DearWatcherTest, OneThatIsNotKnownIsSeenByContentUntilItsArmingIsPaidFor) {
  FakeVm& vm = vms_["a"];
  sweep_quickly(vm);
  watcher_.watch("a");
  run(seconds{135});
  EXPECT_EQ(vm.armed, 0);
  const auto seen = cycles();
  ASSERT_EQ(seen.size(), 5U);
  const std::vector<int> lasted_s{10, 20, 40, 64};
  for (std::size_t i = 0; i < lasted_s.size(); ++i) {
    EXPECT_EQ(walls_ms(seen[i]).back(), lasted_s[i] * 1000) << i;
    const auto pages = static_cast<double>(seen[i].points.back().unique.count) / 4096;
    EXPECT_NEAR(pages, 102'400, 64);
  }
  const auto report = watcher_.report("a");
  EXPECT_NEAR(static_cast<double>(report->swept.count()), 102'400, 64);
  EXPECT_NEAR(static_cast<double>(report->sweep.period.count()) / 1e6, 102'400.0 / 65'536, 0.05);
  EXPECT_EQ(report->cost_fraction, 0);
  EXPECT_EQ(report->not_watched, "");
  run(seconds{30});  // 1.54 s of faults, so after 154
  EXPECT_EQ(vm.armed, 1);
}

TEST_F(DearWatcherTest, ALookAnewEndsTheCycleThatGoesOnAndKeepsIt) {
  FakeVm& vm = vms_["a"];
  sweep_quickly(vm);
  watcher_.watch("a");
  run(seconds{16});
  run(watcher_.look_anew("a"));
  const auto seen = cycles();
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(walls_ms(seen[0]).back(), 10'000);
  EXPECT_EQ(walls_ms(seen[1]).back(), 5'900) << "and looks once more";
  EXPECT_EQ(walls_ms(seen[2]).back(), 1'000);
  EXPECT_EQ(vm.armed, 0);
}

TEST_F(DearWatcherTest, OneThatWritesLittleIsArmedWhenThatIsKnown) {
  watcher_.watch("a");
  run(seconds{10});
  EXPECT_EQ(vms_["a"].armed, 0);
  run(seconds{1});
  EXPECT_EQ(vms_["a"].armed, 1);
}

TEST_F(DearWatcherTest, OneThatWritesAsItDidIsNotArmedForAMigration) {
  FakeVm& vm = vms_["a"];
  sweep_quickly(vm);
  watcher_.watch("a");
  run(seconds{270});  // what a look costs has been paid for by then
  ASSERT_EQ(vm.armed, 1);
  const auto wait = watcher_.look_anew("a");
  EXPECT_EQ(wait, milliseconds{1400});
  run(wait);
  EXPECT_EQ(vm.armed, 1);
  EXPECT_GT(watcher_.report("a")->sweep.period.count(), 0);
}

TEST_F(DearWatcherTest, OneThatWritesLessIsArmed) {
  FakeVm& vm = vms_["a"];
  sweep_quickly(vm);
  watcher_.watch("a");
  run(seconds{270});
  vm.sweeps_until = clock_.now();
  const auto wait = watcher_.look_anew("a");
  EXPECT_EQ(wait, milliseconds{1400});
  run(wait);
  EXPECT_EQ(vm.armed, 2);
  EXPECT_EQ(walls_ms(cycles().back()).back(), 1000) << "it tells as much as any";
  EXPECT_EQ(cycles().back().points.back().unique.count, 0U);
  EXPECT_EQ(watcher_.report("a")->sweep.period.count(), 0);
}

TEST_F(DearWatcherTest, ASlowSweepIsSeenInSomeSeconds) {
  FakeVm& vm = vms_["a"];
  vm.sweeps_over = 102'400;
  vm.sweeps_each_s = 6'500;  // 26 MB/s
  watcher_.watch("a");
  run(milliseconds{1500});
  EXPECT_EQ(watcher_.report("a")->sweep.period.count(), 0) << "three chunks";
  run(milliseconds{4500});
  EXPECT_GT(watcher_.report("a")->sweep.period.count(), 0);
  run(seconds{66});
  const auto report = watcher_.report("a");
  EXPECT_NEAR(static_cast<double>(report->sweep.period.count()) / 1e6, 102'400.0 / 6'500, 0.8);
}

TEST_F(DearWatcherTest, WhatSweptTwoMinutesAgoIsNotKnownToSweep) {
  FakeVm& vm = vms_["a"];
  sweep_quickly(vm);
  watcher_.watch("a");
  run(seconds{11});
  run(watcher_.look_anew("a"));
  ASSERT_GT(watcher_.report("a")->sweep.period.count(), 0);
  vm.content_hidden = true;
  run(seconds{130});
  EXPECT_EQ(watcher_.report("a")->sweep.period.count(), 0);
}

TEST_F(DearWatcherTest, AVmWhoseContentCannotBeReadIsWatchedAllTheSame) {
  FakeVm& vm = vms_["a"];
  sweep_quickly(vm);
  vm.content_hidden = true;
  watcher_.watch("a");
  run(seconds{11});
  run(watcher_.look_anew("a"));
  const auto report = watcher_.report("a");
  EXPECT_EQ(report->sweep.period.count(), 0);
  EXPECT_TRUE(report->not_watched.empty());
  EXPECT_EQ(vm.armed, 1);
  EXPECT_EQ(vm.closed, 0);
}

TEST_F(DearWatcherTest, OneThatLeavesIsNotLookedAtAnyMore) {
  FakeVm& vm = vms_["a"];
  sweep_quickly(vm);
  watcher_.watch("a");
  run(milliseconds{100});
  watcher_.look_anew("a");
  run(milliseconds{300});
  EXPECT_TRUE(watcher_.back_off("a"));
  run(milliseconds{800});
  EXPECT_EQ(watcher_.report("a")->sweep.period.count(), 0);
}

}  // namespace
}  // namespace mare::dirtylog
