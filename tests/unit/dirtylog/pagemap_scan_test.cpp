// The log against a real process.
#include "hypervisor/dirtylog/pagemap_scan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/dirtylog/child.h"

namespace mare::dirtylog {
namespace {

using test::kPages;
using test::kRam;

class PagemapScanTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto works = pagemap_scan_works();
    if (!works) GTEST_SKIP() << works.error().text();
  }
  std::unique_ptr<PageLog> open_log() {
    auto opened = PagemapScan::open(child_.pid(), kRam);
    EXPECT_TRUE(opened.ok()) << opened.error().text();
    return opened ? std::move(*opened) : nullptr;
  }
  static std::size_t pages(PageLog& log) {
    const auto reading = log.read();
    EXPECT_TRUE(reading.ok()) << reading.error().text();
    return reading ? reading->unique.count / kPage : 0;
  }
  test::Child child_{kRam};
};

TEST_F(PagemapScanTest, CountsEachWrittenPageOnce) {
  const auto log = open_log();
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->arm().ok());
  EXPECT_EQ(pages(*log), 0U);
  child_.write(100, 1000);
  child_.write(600, 1000);
  EXPECT_EQ(pages(*log), 1500U);
  child_.write(100, 1500);
  EXPECT_EQ(pages(*log), 1500U) << "reading arms nothing anew";
  child_.write(kPages - 1, 1);
  EXPECT_EQ(pages(*log), 1501U);
  ASSERT_TRUE(log->arm().ok());
  EXPECT_EQ(pages(*log), 0U);
  child_.write(200, 3);
  EXPECT_EQ(pages(*log), 3U);
}

TEST_F(PagemapScanTest, WhatAFirstWriteTakesIsMeasured) {
  const auto takes = measure_first_write();
  ASSERT_TRUE(takes) << takes.error().text();
  // A page's fault takes no less, and no more, anywhere.
  EXPECT_GT(takes->count(), 50);
  EXPECT_LT(takes->count(), 1'000'000);
}

TEST_F(PagemapScanTest, SeesScatteredPages) {
  child_.write(0, kPages);
  const auto log = open_log();
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->arm().ok());
  // More runs than one ioctl returns.
  for (std::size_t page = 0; page < kPages; page += 3) child_.write(page, 1);
  EXPECT_EQ(pages(*log), (kPages + 2) / 3);
}

TEST_F(PagemapScanTest, HeatIsTheShareOfEachRegion) {
  const auto log = open_log();
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->arm().ok());
  const std::size_t region = kPages / kHeatRegions;
  child_.write(3 * region, region + region / 2);
  const auto reading = log->read();
  ASSERT_TRUE(reading.ok());
  ASSERT_EQ(reading->heat.size(), kHeatRegions);
  EXPECT_DOUBLE_EQ(reading->heat[3], 1.0);
  EXPECT_DOUBLE_EQ(reading->heat[4], 0.5);
  EXPECT_EQ(std::count(reading->heat.begin(), reading->heat.end(), 0.0), 62);
}

TEST_F(PagemapScanTest, TellsWhichPages) {
  auto log = open_log();
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->arm().ok());
  child_.write(63, 2);
  child_.write(1000, 1);
  const auto reading = log->read();
  ASSERT_TRUE(reading.ok());
  for (std::size_t page = 0; page < kPages; ++page) {
    EXPECT_EQ(reading->written.has(page), page == 63 || page == 64 || page == 1000) << page;
  }
  EXPECT_FALSE(reading->written.has(kPages + 1000));
}

TEST_F(PagemapScanTest, MemoryThatIsGivenBackAndWrittenAgainCounts) {
  child_.write(0, 100);
  const auto log = open_log();
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->arm().ok());
  child_.drop(0, 50);
  child_.write(0, 50);
  EXPECT_EQ(pages(*log), 50U);
}

TEST_F(PagemapScanTest, ProgressIsTheVcpusTime) {
  const auto log = open_log();
  ASSERT_TRUE(log);
  const auto before = log->arm();
  ASSERT_TRUE(before.ok());
  child_.burn(Milliseconds{40});
  const auto reading = log->read();
  ASSERT_TRUE(reading.ok());
  EXPECT_GE(reading->progress - *before, Microseconds{35'000});
}

// An agent that is started anew finds the descriptor as its predecessor left it.
TEST_F(PagemapScanTest, ASecondAgentGoesOnWithTheSameDescriptor) {
  for (const bool orderly : {true, false}) {
    auto first = open_log();
    ASSERT_TRUE(first);
    ASSERT_TRUE(first->arm().ok());
    child_.write(0, 10);
    EXPECT_EQ(pages(*first), 10U);
    if (orderly) first.reset();  // else it was killed: registered still, and armed
    const auto second = open_log();
    ASSERT_TRUE(second);
    ASSERT_TRUE(second->arm().ok());
    EXPECT_EQ(pages(*second), 0U);
    child_.write(5, 20);
    EXPECT_EQ(pages(*second), 20U);
  }
}

// QEMU's background-snapshot needs the RAM for a descriptor of its own.
TEST_F(PagemapScanTest, WhatAKilledAgentLeftCanBeReleased) {
  const pid_t pid = child_.pid();
  EXPECT_TRUE(PagemapScan::release(pid, kRam).ok()) << "nobody was here yet";
  EXPECT_TRUE(child_.can_protect_its_ram());
  auto log = open_log();
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->arm().ok());
  EXPECT_FALSE(child_.can_protect_its_ram());
  EXPECT_TRUE(PagemapScan::release(pid, kRam).ok());
  EXPECT_TRUE(child_.can_protect_its_ram());
}

TEST_F(PagemapScanTest, ItsEndEndsTheFaults) {
  auto log = open_log();
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->arm().ok());
  log.reset();
  child_.write(0, kPages);  // nobody watches: it must simply work
  log = open_log();
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->arm().ok());
  EXPECT_EQ(pages(*log), 0U);
}

TEST_F(PagemapScanTest, AVmThatEndsIsNotFound) {
  const auto log = open_log();
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->arm().ok());
  const pid_t gone = child_.pid();
  child_.kill();
  const auto reading = log->read();
  ASSERT_FALSE(reading.ok());
  EXPECT_EQ(reading.error().code, Code::NotFound);
  const auto armed = log->arm();
  ASSERT_FALSE(armed.ok());
  EXPECT_EQ(armed.error().code, Code::NotFound);
  const auto opened = PagemapScan::open(gone, kRam);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, Code::NotFound);
}

TEST_F(PagemapScanTest, WhatCannotBeWatchedSaysWhy) {
  const test::Child bare(kRam, false);
  auto opened = PagemapScan::open(bare.pid(), kRam);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, Code::Unsupported);
  EXPECT_NE(opened.error().remedy.find("libmare-dirtylog.so"), std::string::npos);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // their own memory is larger
  opened = PagemapScan::open(child_.pid(), mebibytes(100'000));
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message.find("100000 MiB"), std::string::npos);
#endif
}

}  // namespace
}  // namespace mare::dirtylog
