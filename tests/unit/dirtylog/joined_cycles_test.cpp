#include "hypervisor/dirtylog/joined_cycles.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace mare::dirtylog {
namespace {

using std::chrono::seconds;

PageSet pages(std::size_t begin, std::size_t end) {
  PageSet out;
  out.add(begin, end);
  return out;
}

std::vector<std::uint64_t> pages_at(const JoinedCycles& joined) {
  std::vector<std::uint64_t> out;
  for (const auto& point : joined.points()) out.push_back(point.unique.count / 4096);
  return out;
}

class JoinedCyclesTest : public testing::Test {
 protected:
  JoinedCycles joined_{seconds{64}};
};

TEST_F(JoinedCyclesTest, TheFirstCycleTellsByItself) {
  joined_.begin();
  joined_.look(pages(0, 10), seconds{1}, seconds{1});
  EXPECT_TRUE(joined_.points().empty());
}

TEST_F(JoinedCyclesTest, WhatIsInSeveralCountsOnce) {
  joined_.begin();
  joined_.look(pages(0, 100), seconds{10}, seconds{5});
  joined_.next_cycle();
  joined_.look(pages(90, 120), seconds{2}, seconds{1});
  joined_.look(pages(90, 130), seconds{4}, seconds{2});
  joined_.next_cycle();
  joined_.look(pages(0, 10), seconds{1}, seconds{1});
  ASSERT_EQ(joined_.points().size(), 3U);
  EXPECT_EQ(joined_.points()[0].wall, seconds{12});
  EXPECT_EQ(joined_.points()[0].progress, seconds{6});
  EXPECT_EQ(joined_.points()[2].wall, seconds{15});
  EXPECT_EQ(joined_.points()[2].progress, seconds{8});
  EXPECT_EQ(pages_at(joined_), (std::vector<std::uint64_t>{120, 130, 130}));
}

TEST_F(JoinedCyclesTest, ACycleThatSawNothingJoinsNothing) {
  joined_.begin();
  joined_.look(pages(0, 100), seconds{10}, seconds{5});
  joined_.next_cycle();
  joined_.next_cycle();
  joined_.look(pages(100, 110), seconds{1}, seconds{1});
  ASSERT_EQ(joined_.points().size(), 1U);
  EXPECT_EQ(joined_.points()[0].wall, seconds{11});
  EXPECT_EQ(pages_at(joined_), std::vector<std::uint64_t>{110});
}

TEST_F(JoinedCyclesTest, NoWindowIsLongerThanTheLongest) {
  joined_.begin();
  joined_.look(pages(0, 1), seconds{40}, seconds{1});
  joined_.next_cycle();
  joined_.look(pages(0, 2), seconds{24}, seconds{1});
  joined_.look(pages(0, 3), seconds{25}, seconds{1});
  joined_.next_cycle();
  joined_.look(pages(0, 4), seconds{1}, seconds{1});
  ASSERT_EQ(joined_.points().size(), 1U);
  EXPECT_EQ(joined_.points()[0].wall, seconds{64});
}

TEST_F(JoinedCyclesTest, ALogThatIsOpenedAnewBeginsAnew) {
  joined_.begin();
  joined_.look(pages(0, 100), seconds{10}, seconds{5});
  joined_.next_cycle();
  joined_.look(pages(0, 200), seconds{1}, seconds{1});
  joined_.begin();
  EXPECT_TRUE(joined_.points().empty());
  joined_.look(pages(0, 1), seconds{1}, seconds{1});
  joined_.next_cycle();
  joined_.look(pages(1, 2), seconds{1}, seconds{1});
  ASSERT_EQ(joined_.points().size(), 1U);
  EXPECT_EQ(joined_.points()[0].wall, seconds{2});
  EXPECT_EQ(pages_at(joined_), std::vector<std::uint64_t>{2});
}

TEST_F(JoinedCyclesTest, ALogThatSamplesTellsNoPages) {
  joined_.begin();
  joined_.look({}, seconds{10}, seconds{5});
  joined_.next_cycle();
  joined_.look({}, seconds{1}, seconds{1});
  EXPECT_TRUE(joined_.points().empty());
}

}  // namespace
}  // namespace mare::dirtylog
