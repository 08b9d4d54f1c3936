// The log of last resort against a real process.
#include "hypervisor/dirtylog/page_sampling.h"

#include <gtest/gtest.h>

#include "hypervisor/dirtylog/memory_scan.h"
#include "tests/unit/dirtylog/child.h"

namespace mare::dirtylog {
namespace {

using test::kPages;
using test::kRam;
static_assert(kPages > kSampledPages);
/// Five deviations of a sampled share, at most.
constexpr double kChance = 5 * 0.5 / 64;

class PageSamplingTest : public testing::Test {
 protected:
  std::unique_ptr<PageLog> open_log(const test::Child& child, Bytes ram) {
    auto opened = PageSampling::open(child.pid(), ram);
    EXPECT_TRUE(opened.ok()) << opened.error().text();
    return opened ? std::move(*opened) : nullptr;
  }
  static LogReading reading(PageLog& log) {
    auto out = log.read();
    EXPECT_TRUE(out.ok()) << out.error().text();
    return out ? *out : LogReading{};
  }
  static double share(PageLog& log) {
    return static_cast<double>(reading(log).unique.count) / static_cast<double>(kRam.count);
  }
  // It needs no userfaultfd.
  test::Child child_{kRam, false};
};

TEST_F(PageSamplingTest, TellsTheShareThatWasWritten) {
  child_.write(0, kPages);
  const auto log = open_log(child_, kRam);
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->arm().ok());
  EXPECT_EQ(share(*log), 0);
  child_.write(kPages / 4, kPages / 8);
  EXPECT_NEAR(share(*log), 0.125, kChance);
  child_.write(kPages / 2, kPages / 2);
  EXPECT_NEAR(share(*log), 0.625, kChance);
  EXPECT_NEAR(share(*log), 0.625, kChance) << "reading changes nothing";
  ASSERT_TRUE(log->arm().ok());
  EXPECT_EQ(share(*log), 0);
}

TEST_F(PageSamplingTest, ASmallVmIsSampledWhole) {
  const Bytes ram = mebibytes(12);  // a thread's stack has 8
  test::Child small{ram, false};
  const auto log = open_log(small, ram);
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->arm().ok());
  small.write(10, 77);
  EXPECT_EQ(reading(*log).unique.count, 77 * kPage);
}

TEST_F(PageSamplingTest, APageThatComesIntoBeingWasWrittenAndToLookMakesNone) {
  child_.write(0, kPages / 2);
  const auto before = scan_memory(child_.pid(), kRam);
  const auto log = open_log(child_, kRam);
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->arm().ok());
  EXPECT_EQ(share(*log), 0);
  const auto after = scan_memory(child_.pid(), kRam);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(after->zero, before->zero);
  child_.write(kPages / 2, kPages / 4);
  EXPECT_NEAR(share(*log), 0.25, kChance);
}

TEST_F(PageSamplingTest, HeatIsTheShareOfEachRegion) {
  child_.write(0, kPages);
  const auto log = open_log(child_, kRam);
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->arm().ok());
  const std::size_t region = kPages / kHeatRegions;
  child_.write(3 * region, region);
  const auto heat = reading(*log).heat;
  ASSERT_EQ(heat.size(), kHeatRegions);
  EXPECT_DOUBLE_EQ(heat[3], 1.0);
  EXPECT_DOUBLE_EQ(heat[2], 0.0);
  EXPECT_DOUBLE_EQ(heat[4], 0.0);
}

TEST_F(PageSamplingTest, TheVmsEndIsFound) {
  const auto log = open_log(child_, kRam);
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->arm().ok());
  child_.kill();
  EXPECT_EQ(log->read().error().code, Code::NotFound);
  EXPECT_EQ(log->arm().error().code, Code::NotFound);
}

}  // namespace
}  // namespace mare::dirtylog
