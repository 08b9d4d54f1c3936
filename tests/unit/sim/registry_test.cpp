#include "hypervisor/sim/registry.h"

#include <gtest/gtest.h>

namespace mare::sim {
namespace {

TEST(SimAddress, HasDefaultsForWhatItDoesNotSay) {
  auto parsed = parse_sim_address("sim:///h1");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->host, HostId{"h1"});
  EXPECT_EQ(parsed->model.memory, HostModel{}.memory);
}

TEST(SimAddress, TakesEverySetting) {
  auto parsed = parse_sim_address("sim:///h2?memory_mib=1024&cpus=2&rate_mbps=100&speed=0.5");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->model.memory, mebibytes(1024));
  EXPECT_EQ(parsed->model.cpus, 2);
  EXPECT_DOUBLE_EQ(parsed->model.uplink.value, 12.5e6);
  EXPECT_DOUBLE_EQ(parsed->model.speed, 0.5);
}

TEST(SimAddress, NamesWhatIsWrong) {
  for (const char* address :
       {"sim:/h1", "sim:///", "sim:///a/b", "sim:///h1?memory_mib", "sim:///h1?memory_mib=",
        "sim:///h1?memory_mib=-1", "sim:///h1?memory_mib=1x", "sim:///h1?memory_mib=nan",
        "sim:///h1?memory_mib=1e300", "sim:///h1?cpus=0.5", "sim:///h1?colour=1"}) {
    auto parsed = parse_sim_address(address);
    ASSERT_FALSE(parsed) << address;
    EXPECT_EQ(parsed.error().field, "address") << address;
    EXPECT_NE(parsed.error().message.find(address), std::string::npos);
  }
}

TEST(SimRegistry, MakesAHostOnceAndKeepsIt) {
  ManualClock clock;
  SeededRng rng{1};
  SimRegistry registry(clock, rng);
  auto first = registry.driver("sim:///h1?memory_mib=1000");
  auto again = registry.driver("sim:///h1?memory_mib=5");
  ASSERT_TRUE(first && again);
  VmSpec vm;
  vm.id = VmId{"a-0"};
  vm.uuid = "u";
  vm.memory = mebibytes(100);
  ASSERT_TRUE((*first)->start(vm));
  auto seen = (*again)->observe(vm.key());
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->copy, Copy::Running);
  EXPECT_FALSE(registry.driver("sim:///h1?cpus=x"));
}

}  // namespace
}  // namespace mare::sim
