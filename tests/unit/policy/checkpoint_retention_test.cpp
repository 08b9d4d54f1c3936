#include "orchestrator/policy/checkpoint_retention.h"

#include <gtest/gtest.h>

#include <map>

namespace mare::policy {
namespace {

constexpr auto kComplete = CheckpointState::Complete;
constexpr auto kNeeded = CheckpointState::Needed;

WallTime at(int second) {
  return std::chrono::seconds{second};
}

/// ck-N, built on ck-BASE (0: full), complete at N s.
Checkpoint made(int number, int base, CheckpointState state = kComplete) {
  Checkpoint out;
  out.id = CheckpointId{"ck-" + std::to_string(number)};
  out.state = state;
  out.completed = at(number);
  out.parts.resize(2);
  if (base > 0) out.parts[1].base = CheckpointId{"ck-" + std::to_string(base)};
  return out;
}

std::map<std::string, CheckpointState> by_name(const std::vector<Retired>& retired) {
  std::map<std::string, CheckpointState> out;
  for (const auto& [id, state] : retired) out[id.value] = state;
  return out;
}
using Names = std::map<std::string, CheckpointState>;

CheckpointPlan plan(int keep, int chain = 8) {
  CheckpointPlan out;
  out.keep = keep;
  out.chain = chain;
  return out;
}

TEST(Retention, FullOnesGoWhenThereAreTooMany) {
  const std::vector<Checkpoint> all{made(4, 0), made(3, 0), made(2, 0), made(1, 0)};
  EXPECT_EQ(by_name(retire(all, plan(2), at(4))),
            (Names{{"ck-2", CheckpointState::Dropping}, {"ck-1", CheckpointState::Dropping}}));
  EXPECT_TRUE(retire(all, plan(4), at(4)).empty());
}

TEST(Retention, WhatAKeptOneIsBuiltOnStays) {
  std::vector<Checkpoint> all{made(4, 3), made(3, 2), made(2, 1), made(1, 0)};
  EXPECT_EQ(by_name(retire(all, plan(2), at(4))), (Names{{"ck-2", kNeeded}, {"ck-1", kNeeded}}));
  all[2].state = all[3].state = kNeeded;
  EXPECT_TRUE(retire(all, plan(2), at(4)).empty()) << "nothing new";
  // A full one comes: what was needed is needed no more as soon as nobody is built on it.
  all.insert(all.begin(), made(5, 0));
  EXPECT_EQ(by_name(retire(all, plan(1), at(5))), (Names{{"ck-4", CheckpointState::Dropping},
                                                         {"ck-3", CheckpointState::Dropping},
                                                         {"ck-2", CheckpointState::Dropping},
                                                         {"ck-1", CheckpointState::Dropping}}));
  EXPECT_EQ(by_name(retire(all, plan(2), at(5))), (Names{{"ck-3", kNeeded}}));
}

TEST(Retention, WhatOneThatIsBeingWrittenIsBuiltOnStays) {
  const std::vector<Checkpoint> all{made(3, 1, CheckpointState::Writing), made(2, 0), made(1, 0)};
  EXPECT_EQ(by_name(retire(all, plan(1), at(3))), (Names{{"ck-1", kNeeded}}));
  const std::vector<Checkpoint> dropped{made(3, 1, CheckpointState::Dropping), made(2, 0),
                                        made(1, 0, kNeeded)};
  EXPECT_EQ(by_name(retire(dropped, plan(1), at(3))), (Names{{"ck-1", CheckpointState::Dropping}}));
}

TEST(Retention, OldOnesGoButNeverTheLast) {
  const std::vector<Checkpoint> all{made(300, 0), made(200, 0), made(100, 0)};
  CheckpointPlan old = plan(10);
  old.max_age = Seconds{150};
  EXPECT_TRUE(retire(all, old, at(250)).empty());
  EXPECT_EQ(by_name(retire(all, old, at(351))),
            (Names{{"ck-200", CheckpointState::Dropping}, {"ck-100", CheckpointState::Dropping}}));
  EXPECT_EQ(by_name(retire(all, old, at(100'000))),
            (Names{{"ck-200", CheckpointState::Dropping}, {"ck-100", CheckpointState::Dropping}}));
  const std::vector<Checkpoint> built{made(300, 200), made(200, 0)};
  EXPECT_EQ(by_name(retire(built, old, at(100'000))), (Names{{"ck-200", kNeeded}}));
}

TEST(Retention, TheNextIsBuiltOnTheNewestUntilTheChainIsLong) {
  std::vector<Checkpoint> all{made(4, 0, CheckpointState::Dropping), made(3, 2), made(2, 1),
                              made(1, 0, kNeeded)};
  EXPECT_EQ(chain_depth(all, CheckpointId{"ck-3"}), 2);
  EXPECT_EQ(chain_depth(all, CheckpointId{"ck-1"}), 0);
  EXPECT_EQ(chain_depth(all, CheckpointId{"ck-9"}), std::nullopt);
  ASSERT_TRUE(base_for_next(all, plan(2, 3)));
  EXPECT_EQ(base_for_next(all, plan(2, 3))->id.value, "ck-3");
  EXPECT_FALSE(base_for_next(all, plan(2, 2)));
  CheckpointPlan full = plan(2);
  full.mode = CheckpointMode::Full;
  EXPECT_FALSE(base_for_next(all, full));
  EXPECT_FALSE(base_for_next({}, plan(2)));
  all.pop_back();
  EXPECT_FALSE(base_for_next(all, plan(2))) << "nobody knows what it is built on";
  all[0] = made(5, 5);
  EXPECT_EQ(chain_depth(all, CheckpointId{"ck-5"}), std::nullopt) << "built on itself";
  EXPECT_FALSE(retire({made(5, 5)}, plan(1), at(9)).size());
}

TEST(Retention, TheOldestThatStaysIsMergedWhenTheChainIsLong) {
  const std::vector<Checkpoint> all{made(4, 3), made(3, 2), made(2, 1, kNeeded),
                                    made(1, 0, kNeeded)};
  ASSERT_TRUE(worth_merging(all, plan(2, 3)));
  EXPECT_EQ(worth_merging(all, plan(2, 3))->id.value, "ck-3");
  EXPECT_FALSE(worth_merging(all, plan(2, 4))) << "it may still grow";
  const std::vector<Checkpoint> wanted{made(4, 3), made(3, 2), made(2, 1), made(1, 0)};
  EXPECT_FALSE(worth_merging(wanted, plan(9, 3))) << "all stay anyway";
  EXPECT_FALSE(worth_merging({}, plan(2, 1)));
}

}  // namespace
}  // namespace mare::policy
