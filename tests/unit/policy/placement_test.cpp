#include "orchestrator/policy/placement.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace mare::policy {
namespace {

Host host(const std::string& name, std::uint64_t memory_mib) {
  Host out;
  out.id = HostId{name};
  out.health = HostHealth::Up;
  out.memory = mebibytes(memory_mib);
  out.vm_overhead = mebibytes(100);
  return out;
}

Vm vm_on(const std::string& name, std::uint64_t memory_mib) {
  Vm out;
  out.host = HostId{name};
  out.memory = mebibytes(memory_mib);
  return out;
}

TEST(Rooms, CountVmsWithTheirOverheadAndClaims) {
  const auto out = rooms({host("h1", 2000)}, {vm_on("h1", 300), vm_on("h2", 300)},
                         {{HostId{"h1"}, mebibytes(250)}, {HostId{"h9"}, mebibytes(1)}}, {}, {});
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].free, mebibytes(2000 - 400 - 250));
  EXPECT_EQ(out[0].vms, 2);
}

TEST(Rooms, LeaveOutHostsThatMayNotTakeVms) {
  Host down = host("down", 1000);
  down.health = HostHealth::Down;
  Host draining = host("draining", 1000);
  draining.admin = HostAdmin::Draining;
  const std::vector<Host> hosts{down, draining, host("h1", 1000), host("h2", 1000),
                                host("h3", 1000)};
  EXPECT_EQ(rooms(hosts, {}, {}, {}, {}).size(), 3U);
  EXPECT_EQ(rooms(hosts, {}, {}, {HostId{"h2"}, HostId{"down"}}, {}).size(), 1U);
  EXPECT_EQ(rooms(hosts, {}, {}, {}, HostId{"h2"}).size(), 2U);
}

TEST(Place, SpreadsOverHosts) {
  const auto placed = place_all(rooms({host("h1", 4000), host("h2", 4000)}, {}, {}, {}, {}),
                                {mebibytes(192), mebibytes(192), mebibytes(192), mebibytes(192)});
  ASSERT_TRUE(placed);
  EXPECT_EQ(*placed, (std::vector<HostId>{HostId{"h1"}, HostId{"h2"}, HostId{"h1"}, HostId{"h2"}}));
}

TEST(Place, SaysHowMuchThereIs) {
  const auto placed =
      place(rooms({host("h1", 300), host("h2", 280)}, {}, {}, {}, {}), mebibytes(250));
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error().code, Code::ResourceExhausted);
  EXPECT_NE(placed.error().message.find("200 MiB on 'h1'"), std::string::npos)
      << placed.error().message;
  EXPECT_FALSE(placed.error().remedy.empty());
}

TEST(Place, AsManyAsFitAndWhyNoMore) {
  const std::vector<Room> rooms{{HostId{"h1"}, mebibytes(700), mebibytes(100), 0},
                                {HostId{"h2"}, mebibytes(400), mebibytes(100), 0}};
  const auto some = place_most(rooms, mebibytes(200), 9);
  EXPECT_EQ(some.hosts, (std::vector<HostId>{HostId{"h1"}, HostId{"h2"}, HostId{"h1"}}));
  ASSERT_TRUE(some.refusal);
  EXPECT_EQ(some.refusal->code, Code::ResourceExhausted);
  const auto all = place_most(rooms, mebibytes(200), 3);
  EXPECT_EQ(all.hosts.size(), 3U);
  EXPECT_FALSE(all.refusal);
  EXPECT_EQ(place_most({}, mebibytes(1), 1).hosts.size(), 0U);
  EXPECT_TRUE(place_most({}, mebibytes(1), 1).refusal);
}

TEST(Place, NoHostAtAllIsAnError) {
  EXPECT_FALSE(place({}, mebibytes(1)));
}

RC_GTEST_PROP(Place, NeverBeyondCapacity, ()) {
  const auto sizes =
      *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(1, 600));
  const auto capacities = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(1, 4000)));
  std::vector<Host> hosts;
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    hosts.push_back(host("h" + std::to_string(i), capacities[i]));
  }
  std::vector<Bytes> memories;
  for (const auto size : sizes) memories.push_back(mebibytes(size));
  const auto placed = place_all(rooms(hosts, {}, {}, {}, {}), memories);
  if (!placed) return;
  std::map<std::string, std::uint64_t> used;
  for (std::size_t i = 0; i < memories.size(); ++i) used[(*placed)[i].value] += sizes[i] + 100;
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    RC_ASSERT(used["h" + std::to_string(i)] <= capacities[i]);
  }
}

}  // namespace
}  // namespace mare::policy
