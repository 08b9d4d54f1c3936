#include "hypervisor/dirtylog/memory_scan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "hypervisor/dirtylog/pagemap_scan.h"
#include "tests/unit/dirtylog/child.h"

namespace mare::dirtylog {
namespace {

using test::Fill;
using test::kPages;
using test::kRam;

MemoryContent scanned(const test::Child& child) {
  auto content = scan_memory(child.pid(), kRam);
  EXPECT_TRUE(content.ok()) << content.error().text();
  return content ? *content : MemoryContent{};
}

TEST(MemoryScan, UntouchedMemoryIsZero) {
  const test::Child child(kRam);
  const auto content = scanned(child);
  EXPECT_EQ(content.total, kRam);
  EXPECT_EQ(content.zero, kRam);
  EXPECT_DOUBLE_EQ(content.compressed_fraction, 1);
}

TEST(MemoryScan, CountsPagesOfZerosHoweverTheyCame) {
  test::Child child(kRam);
  child.write(0, 3000, Fill::Random);
  child.write(5000, 2000, Fill::Zero);
  child.write(1000, 500, Fill::Zero);
  EXPECT_EQ(scanned(child).zero, Bytes{(kPages - 2500) * kPage});
}

TEST(MemoryScan, TheLogsMarksOnUntouchedPagesAreNoContent) {
  if (const auto works = pagemap_scan_works(); !works) GTEST_SKIP() << works.error().text();
  test::Child child(kRam);
  child.write(100, 200);
  auto log = PagemapScan::open(child.pid(), kRam);
  ASSERT_TRUE(log.ok()) << log.error().text();
  ASSERT_TRUE((*log)->arm().ok());
  EXPECT_EQ(scanned(child).zero, Bytes{(kPages - 200) * kPage});
  // Looking wrote nothing.
  const auto reading = (*log)->read();
  ASSERT_TRUE(reading.ok());
  EXPECT_EQ(reading->unique, Bytes{0});
}

TEST(MemoryScan, NoiseDoesNotCompressAndTextDoes) {
  test::Child noise(kRam);
  noise.write(0, 2000, Fill::Random);
  EXPECT_GT(scanned(noise).compressed_fraction, 0.99);
  EXPECT_LE(scanned(noise).compressed_fraction, 1.0);
  test::Child text(kRam);
  text.write(0, 2000, Fill::Text);
  EXPECT_LT(scanned(text).compressed_fraction, 0.3);
  EXPECT_GT(scanned(text).compressed_fraction, 0.01);
}

TEST(MemoryScan, TheSampleIsOfAllParts) {
  test::Child child(kRam);
  child.write(0, 4000, Fill::Text);
  child.write(4000, 8000, Fill::Random);
  child.write(12'000, 4000, Fill::Text);
  test::Child text(kRam);
  text.write(0, 4000, Fill::Text);
  const double of_text = scanned(text).compressed_fraction;
  EXPECT_NEAR(scanned(child).compressed_fraction, 0.5 + of_text / 2, 0.08);
}

TEST(MemoryScan, StretchesOfALittleMoreThanAMegabyteAreToldApart) {
  test::Child child(kRam);
  std::size_t noise = 0;
  for (std::size_t at = 0; at + 1100 <= kPages; at += 1100) {
    child.write(at, 300, Fill::Text);
    child.write(at + 300, 800, Fill::Random);
    noise += 800;
  }
  test::Child text(kRam);
  text.write(0, 4000, Fill::Text);
  const double of_noise = static_cast<double>(noise) / static_cast<double>(noise / 800 * 1100);
  const double of_text = scanned(text).compressed_fraction;
  EXPECT_NEAR(scanned(child).compressed_fraction, of_noise + (1 - of_noise) * of_text, 0.02);
}

TEST(MemoryScan, WhatIsWrittenIsSampledForItself) {
  test::Child child(kRam);
  child.write(0, kPages / 2, Fill::Text);
  child.write(kPages / 2, kPages / 2, Fill::Random);
  std::vector<double> heat(kHeatRegions, 0);
  const auto hot = [&] {
    auto content = scan_memory(child.pid(), kRam, heat);
    EXPECT_TRUE(content.ok());
    return content ? content->hot_compressed_fraction : 0;
  };
  const double all = scanned(child).compressed_fraction;
  EXPECT_DOUBLE_EQ(scanned(child).hot_compressed_fraction, all);
  EXPECT_DOUBLE_EQ(hot(), all) << "nothing is written";
  heat[3] = 0.2;
  const double of_text = hot();
  EXPECT_LT(of_text, 0.3);
  heat[3] = 0;
  heat[50] = 0.2;
  EXPECT_GT(hot(), 0.99);
  heat[3] = 0.2;
  EXPECT_NEAR(hot(), 0.5 + of_text / 2, 0.15);
}

TEST(MemoryScan, PagesAmongOthersThatAreWrittenAreSampledForThemselves) {
  test::Child child(kRam);
  PageSet written;
  for (std::size_t at = 0; at < kPages; at += 16) {
    child.write(at, 12, Fill::Text);
    child.write(at + 12, 4, Fill::Random);
    written.add(at + 12, at + 16);
  }
  const std::vector<double> heat(kHeatRegions, 0.25);
  const auto by_regions = scan_memory(child.pid(), kRam, heat);
  ASSERT_TRUE(by_regions.ok());
  EXPECT_LT(by_regions->hot_compressed_fraction, 0.6);
  const auto by_pages = scan_memory(child.pid(), kRam, heat, written);
  ASSERT_TRUE(by_pages.ok());
  EXPECT_GT(by_pages->hot_compressed_fraction, 0.99);
  EXPECT_DOUBLE_EQ(by_pages->compressed_fraction, by_regions->compressed_fraction);
}

TEST(MemoryScan, WrittenPagesThatAreZeroOrGoneTellNothing) {
  test::Child child(kRam);
  child.write(0, kPages / 2, Fill::Text);
  PageSet written;
  written.add(kPages / 2, kPages);
  const auto content = scan_memory(child.pid(), kRam, {}, written);
  ASSERT_TRUE(content.ok());
  EXPECT_DOUBLE_EQ(content->hot_compressed_fraction, content->compressed_fraction);
}

TEST(MemoryScan, AProcessThatIsGoneIsNotFound) {
  test::Child child(kRam);
  const pid_t gone = child.pid();
  child.kill();
  EXPECT_EQ(scan_memory(gone, kRam).error().code, Code::NotFound);
}

TEST(ZeroPage, OneBitAnywhereIsSeen) {
  std::vector<std::byte> page(kPage);
  EXPECT_TRUE(is_zero_page(page.data()));
  for (std::size_t at = 0; at < page.size(); ++at) {
    page[at] = std::byte{4};
    EXPECT_FALSE(is_zero_page(page.data())) << at;
    page[at] = std::byte{0};
  }
}

}  // namespace
}  // namespace mare::dirtylog
