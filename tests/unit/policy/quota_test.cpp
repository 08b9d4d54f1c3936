#include "orchestrator/policy/quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mare::policy {
namespace {

using ::testing::HasSubstr;

Vm vm_on(const std::string& host) {
  Vm vm;
  vm.memory = mebibytes(200);
  if (!host.empty()) vm.host = HostId{host};
  return vm;
}

TEST(QuotaPolicy, UseCountsVmsWhereverTheyAre) {
  const auto use = use_of({vm_on("h1"), vm_on("h1"), vm_on("h2"), vm_on("")});
  EXPECT_EQ(use.vms, 4);
  EXPECT_EQ(use.memory, mebibytes(800));
  EXPECT_EQ(use.hosts, (std::set<HostId>{HostId{"h1"}, HostId{"h2"}}));
}

TEST(QuotaPolicy, TheTighterLimitDecides) {
  const ProjectUse use{4, mebibytes(800), {}};
  Quota quota{ProjectId{"physics"}};
  EXPECT_EQ(allowance(quota, use, mebibytes(100), 50).vms, 50);
  EXPECT_FALSE(allowance(quota, use, mebibytes(100), 50).refusal);
  quota.vms = 7;
  auto some = allowance(quota, use, mebibytes(100), 50);
  EXPECT_EQ(some.vms, 3);
  ASSERT_TRUE(some.refusal);
  EXPECT_EQ(some.refusal->code, Code::ResourceExhausted);
  EXPECT_THAT(some.refusal->message, HasSubstr("has 4 of the 7 VMs"));
  EXPECT_THAT(some.refusal->remedy, HasSubstr("mare project quota physics"));
  quota.memory = mebibytes(1099);
  some = allowance(quota, use, mebibytes(100), 50);
  EXPECT_EQ(some.vms, 2) << "299 MiB are left";
  EXPECT_THAT(some.refusal->message, HasSubstr("has 800 MiB of the 1099 MiB"));
  EXPECT_FALSE(allowance(quota, use, mebibytes(100), 2).refusal) << "that is all that was asked";
}

TEST(QuotaPolicy, ALimitBelowTheUseAllowsNothingMore) {
  const ProjectUse use{4, mebibytes(800), {}};
  Quota quota{ProjectId{"physics"}};
  quota.vms = 2;
  EXPECT_EQ(allowance(quota, use, mebibytes(100), 1).vms, 0);
  quota.vms.reset();
  quota.memory = mebibytes(100);
  EXPECT_EQ(allowance(quota, use, mebibytes(100), 1).vms, 0);
  quota.memory = mebibytes(0);
  EXPECT_EQ(allowance(quota, use, mebibytes(100), 1).vms, 0);
}

TEST(QuotaPolicy, PlacingTakesNoMoreHostsThanTheCap) {
  std::vector<Room> rooms;
  for (const char* name : {"h1", "h2", "h3"}) {
    rooms.push_back({HostId{name}, mebibytes(1000), Bytes{}, 0});
  }
  Quota quota{ProjectId{"physics"}};
  EXPECT_FALSE(host_cap(quota, {}));
  quota.hosts = 2;
  const ProjectUse on_h3{1, mebibytes(200), {HostId{"h3"}}};
  const auto cap = host_cap(quota, on_h3);
  ASSERT_TRUE(cap);
  const auto placed = place_most(rooms, mebibytes(300), 9, cap);
  EXPECT_EQ(placed.hosts.size(), 6U) << "three on each";
  ASSERT_TRUE(placed.refusal);
  const std::set<HostId> used(placed.hosts.begin(), placed.hosts.end());
  EXPECT_EQ(used.size(), 2U);
  EXPECT_TRUE(used.contains(HostId{"h3"}));
  quota.hosts = 0;
  EXPECT_TRUE(place_most(rooms, mebibytes(300), 9, host_cap(quota, {})).hosts.empty());
}

}  // namespace
}  // namespace mare::policy
