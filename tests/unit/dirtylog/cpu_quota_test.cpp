#include "hypervisor/dirtylog/cpu_quota.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace mare::dirtylog {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

/// A root with its own /proc and groups.
class CpuQuotaTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "mare-quota-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root = name;
  }
  void TearDown() override { fs::remove_all(root); }
  void put(const std::string& path, const std::string& text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  CpuQuota of(const std::vector<pid_t>& threads) const {
    return cpu_quota_of(threads, root.string());
  }
  void version_1() const {
    put("proc/self/mounts",
        "proc /proc proc rw 0 0\n"
        "cgroup /hidden/cpu cgroup rw,cpu 0 0\n"
        "cgroup /sys/fs/cgroup/cpu cgroup rw,nosuid,cpu,cpuacct 0 0\n"
        "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n");
  }
  void version_2() const { put("proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"); }
  fs::path root;
};

TEST_F(CpuQuotaTest, OfAGroupOfVersion1) {
  version_1();
  put("proc/7/cgroup", "3:cpuset:/elsewhere\n2:cpu,cpuacct:/vcpu0\n0::/\n");
  put("sys/fs/cgroup/cpu/vcpu0/cpu.cfs_quota_us", "2500\n");
  put("sys/fs/cgroup/cpu/vcpu0/cpu.cfs_period_us", "10000\n");
  EXPECT_DOUBLE_EQ(of({7}).cpus, 0.25);
  EXPECT_EQ(of({7}).period, 10ms);
}

TEST_F(CpuQuotaTest, TheTightestAboveCounts) {
  version_2();
  put("proc/7/cgroup", "0::/machine/guest/vcpu0\n");
  put("sys/fs/cgroup/machine/guest/vcpu0/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/machine/guest/cpu.max", "50000 100000\n");
  put("sys/fs/cgroup/machine/cpu.max", "300000 100000\n");
  EXPECT_DOUBLE_EQ(of({7}).cpus, 0.5);
  EXPECT_EQ(of({7}).period, 100ms);
}

TEST_F(CpuQuotaTest, ThreadsOfOneGroupShareItAndOthersAddUp) {
  version_2();
  for (const char* thread : {"7", "8"}) {
    put(std::string("proc/") + thread + "/cgroup", "0::/both\n");
  }
  put("proc/9/cgroup", "0::/other\n");
  put("proc/10/cgroup", "0::/\n");
  put("sys/fs/cgroup/both/cpu.max", "60000 100000\n");
  put("sys/fs/cgroup/other/cpu.max", "10000 50000\n");
  EXPECT_DOUBLE_EQ(of({7, 8}).cpus, 0.6);
  EXPECT_DOUBLE_EQ(of({7, 8, 9}).cpus, 0.8);
  EXPECT_DOUBLE_EQ(of({7, 10}).cpus, 0) << "one may run for as long as it likes";
}

TEST_F(CpuQuotaTest, NoneWhereThereIsNone) {
  EXPECT_DOUBLE_EQ(of({7}).cpus, 0) << "nothing can be read";
  version_1();
  put("proc/7/cgroup", "2:cpu,cpuacct:/vcpu0\n");
  EXPECT_DOUBLE_EQ(of({7}).cpus, 0);
  put("sys/fs/cgroup/cpu/vcpu0/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/vcpu0/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(of({7}).cpus, 0);
  EXPECT_DOUBLE_EQ(of({}).cpus, 0);
}

}  // namespace
}  // namespace mare::dirtylog
