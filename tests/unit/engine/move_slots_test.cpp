#include "orchestrator/engine/move_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "orchestrator/core/rng.h"

namespace mare::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Slots : public testing::Test {
 protected:
  std::string ask(int id, const std::string& from, const std::string& to) {
    const OperationId operation{"op-" + std::to_string(id)};
    const std::string why = slots.ask(operation, HostId{from}, HostId{to});
    if (!why.empty()) slots.on_turn(operation, [this, id] { turns.push_back(id); });
    return why;
  }
  void leave(int id) { slots.leave(OperationId{"op-" + std::to_string(id)}); }

  MoveSlots slots{{2, 1}};
  std::vector<int> turns;
};

TEST_F(Slots, SharesALinkWithOthersThatAreUnderWay) {
  const OperationId first{"op-1"};
  EXPECT_FALSE(slots.shares(first));
  ask(1, "h1", "h2");
  ask(2, "h3", "h1");
  EXPECT_FALSE(slots.shares(first)) << "links carry as much the other way";
  leave(2);
  ask(3, "h1", "h3");
  EXPECT_TRUE(slots.shares(first));
  leave(3);
  EXPECT_FALSE(slots.shares(first));
}

TEST_F(Slots, AHostTakesTwoAndALinkOne) {
  EXPECT_THAT(ask(1, "h1", "h2"), IsEmpty());
  EXPECT_THAT(ask(2, "h1", "h2"), HasSubstr("from 'h1' to 'h2' goes 1 migration, at most 1"));
  EXPECT_THAT(ask(3, "h1", "h3"), IsEmpty());
  EXPECT_THAT(ask(4, "h4", "h1"), HasSubstr("host 'h1' has 2 migrations, at most 2"));
  EXPECT_THAT(ask(5, "h4", "h3"), IsEmpty());
  EXPECT_THAT(ask(6, "h2", "h4"), IsEmpty()) << "the other direction is another link";
  EXPECT_THAT(turns, IsEmpty());
}

TEST_F(Slots, AskingAgainChangesNothing) {
  ask(1, "h1", "h2");
  EXPECT_THAT(ask(1, "h1", "h2"), IsEmpty());
  const std::string why = ask(2, "h1", "h2");
  EXPECT_EQ(ask(2, "h1", "h2"), why);
  leave(1);
  EXPECT_THAT(turns, ElementsAre(2));
  EXPECT_THAT(ask(2, "h1", "h2"), IsEmpty()) << "it has its place";
}

TEST_F(Slots, TheFirstInTheQueueGoesFirst) {
  ask(1, "h1", "h2");
  for (const int id : {2, 3, 4}) ask(id, "h1", "h2");
  leave(1);
  leave(2);
  leave(3);
  EXPECT_THAT(turns, ElementsAre(2, 3, 4));
}

TEST_F(Slots, WhoLeavesTheQueueIsForgotten) {
  ask(1, "h1", "h2");
  ask(2, "h1", "h2");
  ask(3, "h1", "h2");
  leave(2);
  leave(1);
  EXPECT_THAT(turns, ElementsAre(3));
  leave(99);  // which never asked
}

TEST_F(Slots, ABusyHostHoldsUpNobodyElse) {
  ask(1, "h1", "h2");
  ask(2, "h1", "h3");
  EXPECT_FALSE(ask(3, "h1", "h4").empty());
  EXPECT_THAT(ask(4, "h4", "h5"), IsEmpty());
}

TEST_F(Slots, NobodyIsOvertakenForEver) {
  ask(1, "h1", "h2");
  ask(2, "h1", "h3");
  EXPECT_FALSE(ask(3, "h1", "h4").empty());  // would take a place at h4, and h1 is full
  for (int i = 0; i < MoveSlots::kMostOvertakings; ++i) {
    EXPECT_THAT(ask(10 + i, "h4", "h5"), IsEmpty()) << i;
    leave(10 + i);
  }
  EXPECT_THAT(ask(20, "h4", "h5"), IsEmpty()) << "the second place at h4 is nobody's";
  EXPECT_FALSE(ask(21, "h6", "h4").empty()) << "this one is kept for the first";
  leave(1);
  EXPECT_THAT(turns, ElementsAre(3));
}

TEST_F(Slots, WhatWasUnderWayIsHeldWhateverTheCapsSay) {
  for (const int id : {1, 2, 3}) {
    slots.hold(OperationId{"op-" + std::to_string(id)}, HostId{"h1"}, HostId{"h2"});
  }
  EXPECT_FALSE(ask(4, "h1", "h3").empty());
  leave(1);
  leave(2);
  EXPECT_THAT(turns, ElementsAre(4));
}

/// Never over the caps, and when all that go end one after the other, everybody had a turn.
RC_GTEST_PROP(MoveSlotsProperty, CapsHoldAndEverybodyGoes, (std::uint64_t seed)) {
  SeededRng rng(seed);
  const policy::MoveCaps caps{1 + static_cast<int>(rng.below(3)),
                              1 + static_cast<int>(rng.below(2))};
  MoveSlots slots(caps);
  std::map<int, std::pair<std::string, std::string>> route;
  std::vector<int> going;
  std::set<int> waiting;
  const auto id = [](int i) { return OperationId{"op-" + std::to_string(i)}; };
  const auto check = [&] {
    std::map<std::string, int> hosts;
    std::map<std::pair<std::string, std::string>, int> links;
    for (const int one : going) {
      RC_ASSERT(++hosts[route[one].first] <= caps.per_host);
      RC_ASSERT(++hosts[route[one].second] <= caps.per_host);
      RC_ASSERT(++links[route[one]] <= caps.per_link);
    }
  };
  const auto end_one = [&] {
    const std::size_t at = rng.below(going.size());
    const int one = going[at];
    going.erase(going.begin() + static_cast<std::ptrdiff_t>(at));
    slots.leave(id(one));
    check();
  };
  for (int i = 0; i < 60; ++i) {
    const auto from = rng.below(5);
    route[i] = {"h" + std::to_string(from), "h" + std::to_string((from + 1 + rng.below(4)) % 5)};
    if (slots.ask(id(i), HostId{route[i].first}, HostId{route[i].second}).empty()) {
      going.push_back(i);
    } else {
      waiting.insert(i);
      slots.on_turn(id(i), [&, i] {
        waiting.erase(i);
        going.push_back(i);
      });
    }
    check();
    if (!going.empty() && rng.chance(0.4)) end_one();
  }
  while (!going.empty()) end_one();
  RC_ASSERT(waiting.empty());
}

}  // namespace
}  // namespace mare::engine
