#include "hypervisor/libvirt/arrivals.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/libvirt/directory.h"

namespace mare::libvirt {
namespace {

class Announced final : public Announcer {
 public:
  explicit Announced(Clock& clock) : clock_(clock) {}
  Result<WallTime> announce(const MacAddress& mac, Ipv4Address ip) override {
    if (refuses) return make_error(Code::Unavailable, "the bridge is gone");
    sent.emplace_back(mac, ip);
    return clock_.wall_now();
  }
  Status announce_once(const MacAddress& mac, Ipv4Address ip) override {
    if (refuses) return make_error(Code::Unavailable, "the bridge is gone");
    once.emplace_back(mac, ip);
    return ok_status();
  }
  int frames_sent(const MacAddress&) const override { return static_cast<int>(sent.size()); }
  std::vector<std::pair<MacAddress, Ipv4Address>> sent;
  std::vector<std::pair<MacAddress, Ipv4Address>> once;
  bool refuses = false;

 private:
  Clock& clock_;
};

class ArrivalsTest : public testing::Test {
 protected:
  ArrivalsTest()
      : announcer_(clock_),
        log_(clock_, LogLevel::Debug, [this](std::string_view line) { logged_ += line; }) {
    ticket_.operation = OperationId{"op-7"};
    ticket_.vm.id = VmId{"demo-0"};
    ticket_.vm.uuid = "6f0d3c1e-2a5b-4c7d-8e9f-001122334455";
    ticket_.vm.mac = *MacAddress::parse("52:54:00:4d:01:05");
    ticket_.vm.ip = *Ipv4Address::parse("10.77.1.5");
  }
  std::unique_ptr<Arrivals> agent() {
    auto made =
        std::make_unique<Arrivals>(directory_.path() + "/arrivals", announcer_, clock_, log_);
    EXPECT_TRUE(made->load().ok());
    return made;
  }
  const std::string& uuid() const { return ticket_.vm.uuid; }

  TestDirectory directory_;
  ManualClock clock_;
  Announced announcer_;
  std::string logged_;
  Log log_;
  MigrationTicket ticket_;
};

TEST_F(ArrivalsTest, AnExpectedVmIsAnnouncedWhenItRunsAndOnlyThen) {
  auto arrivals = agent();
  ASSERT_TRUE(arrivals->expect(ticket_).ok());
  EXPECT_TRUE(arrivals->expected(uuid()));
  EXPECT_TRUE(announcer_.sent.empty());
  clock_.advance(std::chrono::seconds{3});
  arrivals->on_resumed(uuid(), clock_.wall_now());
  ASSERT_EQ(announcer_.sent.size(), 1U);
  EXPECT_EQ(announcer_.sent[0].first, ticket_.vm.mac);
  EXPECT_EQ(announcer_.sent[0].second, ticket_.vm.ip);
  const auto seen = arrivals->find(uuid());
  ASSERT_TRUE(seen);
  EXPECT_FALSE(seen->expected);
  EXPECT_EQ(seen->resumed_at, clock_.wall_now());
  EXPECT_EQ(seen->announced_at, clock_.wall_now());
  arrivals->on_resumed(uuid(), clock_.wall_now());
  EXPECT_EQ(announcer_.sent.size(), 1U);
}

TEST_F(ArrivalsTest, FramesOfAVmThatStandsStillOnItsWayAreDrawnHereUntilItRuns) {
  auto arrivals = agent();
  arrivals->on_standing_still(uuid());
  EXPECT_TRUE(announcer_.once.empty());  // nobody expects it
  ASSERT_TRUE(arrivals->expect(ticket_).ok());
  arrivals->on_standing_still(uuid());
  arrivals->on_standing_still(uuid());
  ASSERT_EQ(announcer_.once.size(), 1U);
  EXPECT_EQ(announcer_.once[0].first, ticket_.vm.mac);
  EXPECT_EQ(announcer_.once[0].second, ticket_.vm.ip);
  EXPECT_TRUE(arrivals->expected(uuid()));
  EXPECT_EQ(arrivals->find(uuid())->announced_at, WallTime{0});
  arrivals->on_resumed(uuid(), clock_.wall_now());
  EXPECT_EQ(announcer_.sent.size(), 1U);
  arrivals->on_standing_still(uuid());  // a late one
  EXPECT_EQ(announcer_.once.size(), 1U);
}

TEST_F(ArrivalsTest, AVmWhoseFramesCanNotBeDrawnIsStillAnnouncedWhenItRuns) {
  auto arrivals = agent();
  ASSERT_TRUE(arrivals->expect(ticket_).ok());
  announcer_.refuses = true;
  arrivals->on_standing_still(uuid());
  EXPECT_NE(logged_.find("the bridge is gone"), std::string::npos);
  announcer_.refuses = false;
  arrivals->on_resumed(uuid(), clock_.wall_now());
  EXPECT_EQ(announcer_.sent.size(), 1U);
}

TEST_F(ArrivalsTest, AnotherVmThatRunsIsNotOurs) {
  auto arrivals = agent();
  arrivals->on_resumed(uuid(), clock_.wall_now());
  EXPECT_TRUE(announcer_.sent.empty());
  EXPECT_FALSE(arrivals->find(uuid()));
}

TEST_F(ArrivalsTest, ARestartedAgentStillExpectsWhatWasOnItsWay) {
  ASSERT_TRUE(agent()->expect(ticket_).ok());
  auto next = agent();
  ASSERT_TRUE(next->expected(uuid()));
  EXPECT_EQ(next->find(uuid())->operation, ticket_.operation);
  EXPECT_EQ(next->find(uuid())->key.id, ticket_.vm.id);
  ASSERT_EQ(next->all_expected().size(), 1U);
  next->on_resumed(uuid(), WallTime{0});
  ASSERT_EQ(announcer_.sent.size(), 1U);
  EXPECT_EQ(announcer_.sent[0].first, ticket_.vm.mac);
}

TEST_F(ArrivalsTest, WhatIsForgottenStaysForgotten) {
  auto arrivals = agent();
  ASSERT_TRUE(arrivals->expect(ticket_).ok());
  arrivals->forget(uuid());
  arrivals->forget(uuid());
  EXPECT_FALSE(arrivals->find(uuid()));
  EXPECT_FALSE(agent()->find(uuid()));
}

TEST_F(ArrivalsTest, FilesThatAreOldOrBrokenAreThrownAway) {
  ASSERT_TRUE(agent()->expect(ticket_).ok());
  const std::string broken = directory_.path() + "/arrivals/broken";
  std::ofstream(broken) << "arrival-1 half a li";
  clock_.advance(std::chrono::hours{25});
  EXPECT_FALSE(agent()->find(uuid()));
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path() + "/arrivals"));
}

TEST_F(ArrivalsTest, AnAnnouncementThatFailsIsLoggedWithTheVm) {
  auto arrivals = agent();
  ASSERT_TRUE(arrivals->expect(ticket_).ok());
  announcer_.refuses = true;
  arrivals->on_resumed(uuid(), clock_.wall_now());
  EXPECT_EQ(arrivals->find(uuid())->announced_at.count(), 0);
  EXPECT_NE(logged_.find("demo-0"), std::string::npos);
  EXPECT_NE(logged_.find("the bridge is gone"), std::string::npos);
  EXPECT_FALSE(arrivals->announce(ticket_.vm).ok());
}

TEST_F(ArrivalsTest, TheFirstAnnouncementsTimeIsKept) {
  auto arrivals = agent();
  ASSERT_TRUE(arrivals->announce(ticket_.vm).ok());
  const WallTime first = arrivals->find(uuid())->announced_at;
  clock_.advance(std::chrono::seconds{1});
  ASSERT_TRUE(arrivals->announce(ticket_.vm).ok());
  EXPECT_EQ(arrivals->find(uuid())->announced_at, first);
  EXPECT_EQ(announcer_.sent.size(), 2U);
}

TEST_F(ArrivalsTest, ADirectoryThatCannotBeIsNamed) {
  std::ofstream(directory_.path() + "/file") << "x";
  Arrivals arrivals(directory_.path() + "/file/arrivals", announcer_, clock_, log_);
  auto loaded = arrivals.load();
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().message.find("file/arrivals"), std::string::npos);
}

}  // namespace
}  // namespace mare::libvirt
