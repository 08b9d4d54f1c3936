#include "hypervisor/dirtylog/cpu_meter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace mare::dirtylog {
namespace {

using namespace std::chrono_literals;

constexpr const char* kStat =
    "cpu  100 10 20 1000 300 5 15 50 7 0\n"
    "cpu0 50 5 10 500 150 2 8 25 3 0\n"
    "cpu1 50 5 10 500 150 3 7 25 4 0\n"
    "intr 12345 0 0\nctxt 999\n";

TEST(CpuMeter, IdleAndWaitingAreNotBusyAndStolenIs) {
  const auto times = cpu_times_from(kStat, 100);
  ASSERT_TRUE(times);
  EXPECT_DOUBLE_EQ(times->cpus, 2);
  EXPECT_DOUBLE_EQ(times->busy_s, (100 + 10 + 20 + 5 + 15 + 50) / 100.0);
}

TEST(CpuMeter, AnotherTextSaysNothing) {
  for (const char* text :
       {"", "cpu 1 2 3\ncpu0 1 2 3\n", "cpu 1 2 3 4 5 6 7 8\n", "cpus are busy"}) {
    EXPECT_FALSE(cpu_times_from(text, 100)) << text;
  }
}

class OwnStat : public ::testing::Test {
 protected:
  ~OwnStat() override { std::remove(file.c_str()); }
  void write(int busy_ticks) const {
    std::ofstream(file) << "cpu  " << busy_ticks << " 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0\n"
                        << "cpu1 0 0 0 0 0 0 0 0\n";
  }

  const std::string file = ::testing::TempDir() + "mare-stat-" + std::to_string(::getpid());
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
};

TEST_F(OwnStat, BusyIsWhatWasTakenOverTheTime) {
  CpuMeter meter(file);
  EXPECT_DOUBLE_EQ(meter.look(5s).cpus, 0) << "nothing began";
  write(0);
  meter.begin(10s);
  write(static_cast<int>(1.5 * ticks));
  EXPECT_DOUBLE_EQ(meter.look(10s + 100ms).cpus, 0) << "too short to tell";
  const auto use = meter.look(11s);
  EXPECT_DOUBLE_EQ(use.cpus, 2);
  EXPECT_DOUBLE_EQ(use.busy, 1.5);
}

TEST_F(OwnStat, NeverMoreThanThereAreAndTheLastWordStays) {
  CpuMeter meter(file);
  write(0);
  meter.begin(10s);
  write(static_cast<int>(50 * ticks));
  EXPECT_DOUBLE_EQ(meter.look(11s).busy, 2);
  meter.begin(12s);
  meter.begin(12s + 100ms);  // another VM's look: the first one counts
  EXPECT_DOUBLE_EQ(meter.look(12s + 200ms).busy, 2);
  EXPECT_DOUBLE_EQ(meter.look(13s).busy, 0);
}

}  // namespace
}  // namespace mare::dirtylog
