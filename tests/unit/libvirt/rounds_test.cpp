#include "hypervisor/libvirt/rounds.h"
#include "hypervisor/libvirt/sending.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace mare::libvirt {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

RoundKeeper::Sample at(unsigned long long iteration, int ms, std::uint64_t transferred,
                       std::uint64_t remaining, double dirty = 0) {
  return {iteration, Bytes{transferred}, Bytes{remaining}, dirty, milliseconds{ms}};
}

std::vector<std::uint64_t> sent(const RoundKeeper& keeper) {
  std::vector<std::uint64_t> out;
  for (const auto& round : keeper.rounds()) out.push_back(round.sent.count);
  return out;
}

TEST(RoundKeeper, NothingIsARoundBeforeSendingBegins) {
  RoundKeeper keeper;
  keeper.add(at(0, 10, 0, 0));
  EXPECT_TRUE(keeper.rounds().empty());
  keeper.close({Bytes{0}, milliseconds{20}, {}});
  EXPECT_TRUE(keeper.rounds().empty());
}

TEST(RoundKeeper, RoundsLieBetweenIterations) {
  RoundKeeper keeper;
  keeper.add(at(1, 40, 100, 900));
  keeper.add(at(1, 80, 600, 400));
  keeper.add(at(2, 120, 1000, 300, 50));
  keeper.add(at(2, 160, 1200, 100, 60));
  keeper.add(at(3, 200, 1300, 80));
  keeper.close({Bytes{1380}, milliseconds{230}, {}});
  const auto& rounds = keeper.rounds();
  ASSERT_EQ(rounds.size(), 3U);
  EXPECT_EQ(rounds[0].index, 0);
  EXPECT_EQ(rounds[0].started, milliseconds{0});
  EXPECT_EQ(rounds[0].duration, milliseconds{120});
  EXPECT_EQ(rounds[0].sent, Bytes{1000});
  EXPECT_EQ(rounds[1].index, 1);
  EXPECT_EQ(rounds[1].started, milliseconds{120});
  EXPECT_EQ(rounds[1].duration, milliseconds{80});
  EXPECT_EQ(rounds[1].sent, Bytes{300});
  EXPECT_EQ(rounds[1].remaining, Bytes{100});
  EXPECT_DOUBLE_EQ(rounds[1].dirty_bytes_per_s, 60);
  EXPECT_EQ(rounds[2].duration, milliseconds{30});
  EXPECT_EQ(rounds[2].sent, Bytes{80});
}

TEST(RoundKeeper, RoundsTooShortToBeSeenKeepTheSumsRight) {
  RoundKeeper keeper;
  keeper.add(at(1, 40, 500, 500));
  keeper.add(at(4, 80, 1500, 100));
  keeper.close({Bytes{1600}, milliseconds{90}, {}});
  ASSERT_EQ(keeper.rounds().size(), 2U);
  EXPECT_EQ(keeper.rounds()[1].index, 3);
  EXPECT_EQ((keeper.rounds()[0].sent + keeper.rounds()[1].sent), Bytes{1600});
}

TEST(RoundKeeper, LateSamplesAndSamplesAfterTheEndChangeNothing) {
  RoundKeeper keeper;
  keeper.add(at(2, 40, 500, 500));
  keeper.add(at(1, 50, 400, 600));
  ASSERT_EQ(keeper.rounds().size(), 1U);
  EXPECT_EQ(keeper.rounds()[0].sent, Bytes{500});
  keeper.close({Bytes{600}, milliseconds{60}, {}});
  keeper.add(at(3, 70, 900, 0));
  keeper.close({Bytes{900}, milliseconds{80}, {}});
  ASSERT_EQ(keeper.rounds().size(), 1U);
  EXPECT_EQ(keeper.rounds()[0].sent, Bytes{600});
  EXPECT_EQ(keeper.rounds()[0].duration, milliseconds{60});
}

TEST(RoundKeeper, AnEventSaysWhenARoundBeganAndTheSamplesAroundItHowMuchWasSent) {
  RoundKeeper keeper;
  keeper.turn(1, milliseconds{30});
  keeper.add(at(1, 40, 0, 1000));
  keeper.add(at(1, 80, 400, 600));
  keeper.turn(2, milliseconds{110});
  keeper.turn(2, milliseconds{115});
  // 400 bytes in the 40 ms around the turn: 300 of them before it.
  keeper.add(at(2, 120, 800, 200));
  const auto& rounds = keeper.rounds();
  ASSERT_EQ(rounds.size(), 2U);
  EXPECT_EQ(rounds[0].started, milliseconds{30});
  EXPECT_EQ(rounds[0].duration, milliseconds{80});
  EXPECT_EQ(rounds[0].sent, Bytes{700});
  EXPECT_EQ(rounds[1].started, milliseconds{110});
  EXPECT_EQ(rounds[1].sent, Bytes{100});
}

TEST(RoundKeeper, ARoundBetweenTwoSamplesHasItsShareOfWhatWasSentThen) {
  RoundKeeper keeper;
  keeper.turn(1, milliseconds{0});
  keeper.add(at(1, 100, 1000, 1000));
  keeper.turn(2, milliseconds{110});
  keeper.turn(3, milliseconds{130});
  // 10 bytes in each of the 40 ms.
  keeper.add(at(3, 140, 1400, 200));
  EXPECT_THAT(sent(keeper), ElementsAre(1100, 200, 100));
}

TEST(RoundKeeper, ARoundThatNoSampleFollowedHasItsShareToo) {
  RoundKeeper keeper;
  keeper.turn(1, milliseconds{0});
  keeper.add(at(1, 100, 1000, 1000));
  keeper.turn(2, milliseconds{110});
  keeper.turn(3, milliseconds{130});
  keeper.close({Bytes{1400}, milliseconds{140}, milliseconds{128}});
  EXPECT_THAT(sent(keeper), ElementsAre(1100, 200, 100));
}

TEST(RoundKeeper, EventsThatArriveTogetherBeginOneRound) {
  RoundKeeper keeper;
  keeper.turn(1, milliseconds{0});
  keeper.add(at(1, 100, 1000, 1000));
  keeper.turn(2, milliseconds{110});
  keeper.turn(3, milliseconds{110} + std::chrono::microseconds{13});
  keeper.add(at(3, 120, 1200, 200));
  keeper.close({Bytes{1400}, milliseconds{150}, {}});
  ASSERT_THAT(sent(keeper), ElementsAre(1100, 300));
  EXPECT_EQ(keeper.rounds()[1].index, 2);
  EXPECT_EQ(keeper.rounds()[1].started, milliseconds{110});
}

/// The last round is short: mostly no sample falls into it.
TEST(RoundKeeper, WhatWasSentWhileTheVmStoodIsARoundOfItsOwn) {
  RoundKeeper keeper;
  keeper.add(at(1, 40, 500, 500));
  keeper.add(at(2, 400, 1000, 120));
  keeper.add(at(2, 440, 1100, 60));
  keeper.close({Bytes{1170}, milliseconds{520}, milliseconds{450}});
  const auto& rounds = keeper.rounds();
  ASSERT_EQ(rounds.size(), 3U);
  EXPECT_EQ(rounds[1].duration, milliseconds{50});
  EXPECT_EQ(rounds[1].sent, Bytes{100});
  EXPECT_EQ(rounds[2].index, 2);
  EXPECT_EQ(rounds[2].started, milliseconds{450});
  EXPECT_EQ(rounds[2].duration, milliseconds{70});
  EXPECT_EQ(rounds[2].sent, Bytes{70});
  EXPECT_EQ(rounds[2].remaining, Bytes{0});
}

TEST(RoundKeeper, ALastRoundThatAnEventToldOfIsNotCutAgain) {
  RoundKeeper keeper;
  keeper.add(at(1, 40, 500, 500));
  keeper.turn(2, milliseconds{452});
  keeper.close({Bytes{1100}, milliseconds{520}, milliseconds{450}});
  const auto& rounds = keeper.rounds();
  ASSERT_EQ(rounds.size(), 2U);
  EXPECT_EQ(rounds[1].started, milliseconds{452});
  EXPECT_EQ(rounds[1].duration, milliseconds{68});
  EXPECT_EQ(rounds[1].sent, Bytes{600});
}

TEST(RoundKeeper, AVmThatStoodFromTheBeginningHasOneRound) {
  RoundKeeper keeper;
  keeper.turn(1, milliseconds{12});
  keeper.add(at(1, 40, 500, 500));
  keeper.close({Bytes{1000}, milliseconds{90}, milliseconds{8}});
  ASSERT_EQ(keeper.rounds().size(), 1U);
  EXPECT_EQ(keeper.rounds()[0].sent, Bytes{1000});
}

TEST(CouldBeLast, AfterTheFirstRoundIfTheRestFitsAtTheRateSoFar) {
  RoundKeeper keeper;
  const auto asked = [&keeper](Bytes sent, int ms, int limit_ms) {
    return could_be_last(keeper.rounds(), sent, milliseconds{ms}, milliseconds{limit_ms});
  };
  keeper.turn(1, milliseconds{1000});
  keeper.add(at(1, 1000, 0, 10'000));
  EXPECT_FALSE(asked(Bytes{0}, 1000, 300));
  keeper.add(at(1, 1900, 9'000, 1'000));
  EXPECT_FALSE(asked(Bytes{9'000}, 1900, 300)) << "the log was not looked at yet";
  keeper.turn(2, milliseconds{2000});
  EXPECT_FALSE(asked(Bytes{10'000}, 2010, 300)) << "nobody knows yet how much it found";
  keeper.add(at(2, 2000, 10'000, 2'000));
  EXPECT_TRUE(asked(Bytes{10'000}, 2000, 200));
  EXPECT_FALSE(asked(Bytes{10'000}, 2000, 199));
}

TEST(FarFromEnd, IsWhatTakesTheLinkHalfASecond) {
  EXPECT_TRUE(is_far_from_end(Bytes{60'000'000}, BytesPerSecond{110e6}));
  EXPECT_FALSE(is_far_from_end(Bytes{50'000'000}, BytesPerSecond{110e6}));
  EXPECT_FALSE(is_far_from_end(Bytes{0}, BytesPerSecond{110e6}));
  EXPECT_FALSE(is_far_from_end(Bytes{60'000'000}, BytesPerSecond{0})) << "nobody measured it";
}

TEST(HoldingPace, GivesARoundHalfASecond) {
  RoundKeeper keeper;
  EXPECT_FALSE(holding_pace(keeper.rounds()).has_value()) << "nothing is known";
  keeper.add(at(1, 900, 90'000'000, 4'000'000));
  keeper.turn(2, milliseconds{1000});
  EXPECT_FALSE(holding_pace(keeper.rounds()).has_value()) << "nobody knows yet how much it found";
  keeper.add(at(2, 1010, 90'000'000, 4'000'000));
  EXPECT_NEAR(holding_pace(keeper.rounds())->value, 8e6, 1);
  keeper.turn(3, milliseconds{1500});
  keeper.add(at(3, 1510, 94'000'000, 100'000));
  EXPECT_NEAR(holding_pace(keeper.rounds())->value, 2e5, 1);
  EXPECT_EQ(mebibytes_per_s(*holding_pace(keeper.rounds())), 1U) << "libvirt knows no less";
}

TEST(DowntimeLimit, AChosenOneGivesWayAfterSomeRounds) {
  MigrationTicket ticket;
  const auto after = [&ticket](std::size_t rounds) {
    return downtime_limit_of(ticket, rounds, milliseconds{300});
  };
  EXPECT_EQ(after(0), milliseconds{300});
  EXPECT_EQ(after(100), milliseconds{300});
  ticket.downtime_limit = milliseconds{30};
  EXPECT_EQ(after(100), milliseconds{30}) << "somebody asked for it";
  ticket.sending.later_downtime_limit = milliseconds{100};
  EXPECT_EQ(after(kRoundsWithFirstLimit), milliseconds{30});
  EXPECT_EQ(after(kRoundsWithFirstLimit + 1), milliseconds{48}) << "a quarter of the way, rounded";
  EXPECT_EQ(after(kRoundsWithFirstLimit + kRoundsWithEachStep), milliseconds{48});
  EXPECT_EQ(after(kRoundsWithFirstLimit + kRoundsWithEachStep + 1), milliseconds{65});
  EXPECT_EQ(after(1000), milliseconds{100});
}

TEST(FitsInto, GoesByTheRateThatWasToldOrElseByThatSoFar) {
  MigrationTicket ticket;
  RoundKeeper keeper;
  const auto fits = [&](std::uint64_t transferred) {
    return fits_into(milliseconds{200}, ticket, keeper.rounds(), Bytes{transferred});
  };
  EXPECT_EQ(fits(0), std::nullopt) << "nothing was sent";
  keeper.add(at(1, 1000, 10'000'000, 4'000'000));
  keeper.add(at(2, 2000, 20'000'000, 4'000'000));
  EXPECT_EQ(fits(20'000'000), Bytes{2'000'000});
  ticket.sending.switchover_bandwidth = BytesPerSecond{11e6};
  EXPECT_EQ(fits(20'000'000), Bytes{2'200'000});
}

Round round_of(int ms, std::uint64_t sent) {
  Round out;
  out.duration = milliseconds{ms};
  out.sent = Bytes{sent};
  return out;
}

TEST(RecentRate, IsOfTheNewestRoundsWithoutTheFirst) {
  EXPECT_EQ(recent_rate({}), std::nullopt);
  EXPECT_EQ(recent_rate({round_of(5000, 1000)}), std::nullopt);
  EXPECT_EQ(recent_rate({round_of(5000, 1000), round_of(499, 998)}), std::nullopt);
  EXPECT_EQ(recent_rate({round_of(5000, 1000), round_of(500, 1000)}), BytesPerSecond{2000});
  // Two rounds of half a second are enough: those before tell nothing of now.
  EXPECT_EQ(
      recent_rate({round_of(5000, 1), round_of(9000, 1), round_of(500, 600), round_of(500, 400)}),
      BytesPerSecond{1000});
}

TEST(LimitOnSlowerLink, IsLessByAsMuchAsTheLinkCarriesLess) {
  const auto limit = [](double seen) {
    return limit_on_slower_link(milliseconds{200}, BytesPerSecond{1000}, BytesPerSecond{seen});
  };
  EXPECT_EQ(limit(2000), milliseconds{200});
  EXPECT_EQ(limit(800), milliseconds{200}) << "so much a look between rounds takes";
  EXPECT_EQ(limit(799), milliseconds{140});
  EXPECT_EQ(limit(510), milliseconds{100});
  EXPECT_EQ(limit(500), milliseconds{100});
  EXPECT_EQ(limit(0), milliseconds{1});
}

}  // namespace
}  // namespace mare::libvirt
