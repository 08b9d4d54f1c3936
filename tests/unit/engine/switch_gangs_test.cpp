#include "orchestrator/engine/switch_gangs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace mare::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class Gangs : public testing::Test {
 protected:
  static OperationId id(int number) { return OperationId{"op-" + std::to_string(number)}; }
  void join(int number, const std::string& job = "job-1") { gangs.join(id(number), JobId{job}); }
  void ready(int number) {
    gangs.ready(id(number), [this, number] { gone.push_back(number); });
  }
  void leave(int number) { gangs.leave(id(number)); }

  SwitchGangs gangs;
  std::vector<int> gone;
};

TEST_F(Gangs, GoWhenTheLastIsReady) {
  join(1);
  join(2);
  join(3);
  EXPECT_EQ(gangs.size(id(2)), 3);
  ready(3);
  ready(1);
  EXPECT_THAT(gone, IsEmpty());
  ready(2);
  EXPECT_THAT(gone, UnorderedElementsAre(1, 2, 3));
  EXPECT_EQ(gangs.size(id(2)), 0);
}

TEST_F(Gangs, DoNotWaitForOneThatHasLeft) {
  join(1);
  join(2);
  ready(1);
  leave(2);
  EXPECT_THAT(gone, ElementsAre(1));
  leave(1);  // has gone: nothing
  EXPECT_THAT(gone, ElementsAre(1));
}

TEST_F(Gangs, OneThatIsReadyAndLeavesIsNotTold) {
  join(1);
  join(2);
  ready(1);
  leave(1);
  ready(2);
  EXPECT_THAT(gone, ElementsAre(2));
}

TEST_F(Gangs, WhoComesAfterTheFirstIsReadyMakesAnother) {
  join(1);
  join(2);
  ready(1);
  join(3);
  EXPECT_EQ(gangs.size(id(3)), 1);
  ready(2);
  EXPECT_THAT(gone, UnorderedElementsAre(1, 2));
  join(4);
  ready(3);
  EXPECT_THAT(gone, UnorderedElementsAre(1, 2)) << "4 joined 3";
  ready(4);
  EXPECT_THAT(gone, UnorderedElementsAre(1, 2, 3, 4));
}

TEST_F(Gangs, AreOfOneJob) {
  join(1, "job-1");
  join(2, "job-2");
  ready(1);
  EXPECT_THAT(gone, ElementsAre(1));
}

TEST_F(Gangs, OneThatNeverJoinedGoesAtOnce) {
  ready(7);
  EXPECT_THAT(gone, ElementsAre(7));
  leave(7);
  gangs.let_go(id(7));
  EXPECT_EQ(gangs.size(id(7)), 0);
}

TEST_F(Gangs, LetGoThoseThatAreReadyGoAndTheOthersAreOnTheirOwn) {
  join(1);
  join(2);
  ready(1);
  gangs.let_go(id(1));
  EXPECT_THAT(gone, ElementsAre(1));
  ready(2);
  EXPECT_THAT(gone, ElementsAre(1, 2));
}

TEST_F(Gangs, AnEmptiedGangLeavesNothingForTheNextOfItsJob) {
  join(1);
  leave(1);
  join(2);
  EXPECT_EQ(gangs.size(id(2)), 1);
  ready(2);
  EXPECT_THAT(gone, ElementsAre(2));
}

}  // namespace
}  // namespace mare::engine
