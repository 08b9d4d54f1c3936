// Templates and their clones.
#include "tests/contract/driver_contract.h"

namespace mare::contract {
namespace {

TEST_P(DriverContract, FactsSayWhetherVmsCanBeClones) {
  auto facts = at(0).facts();
  ASSERT_TRUE(is_ok(facts));
  EXPECT_EQ(facts->cloning, facts->cloning_why.empty());
  EXPECT_TRUE(facts->cloning) << facts->cloning_why;
}

TEST_P(DriverContract, WithoutATemplateThereIsNoCloneAndNothingIsLeft) {
  const VmSpec made = vm({.memory = mebibytes(144)});
  EXPECT_TRUE(fails_with(at(0).start_clone(made, hosts().template_of(made)), Code::NotFound));
  EXPECT_EQ(copy(0, made), Copy::Absent);
  // It took no memory, and the VM can be booted.
  EXPECT_TRUE(is_ok(at(0).start(made)));
  EXPECT_EQ(copy(0, made), Copy::Running);
}

TEST_P(DriverContract, ClonesAreVmsAsAnyOther) {
  const VmSpec like = vm();
  const std::size_t before = listed(like);
  make_template(like);
  EXPECT_EQ(listed(like), before) << "a template is listed as a VM";
  make_template(like);  // asked for again it is there
  const VmSpec first = cloned(like);
  const VmSpec second = cloned(like);
  EXPECT_EQ(listed(like), before + 2);
  // Twice is as good as once; another incarnation is foreign.
  EXPECT_TRUE(is_ok(at(0).start_clone(first, hosts().template_of(like))));
  EXPECT_TRUE(is_ok(at(0).start(first)));
  EXPECT_TRUE(fails_with(at(0).start_clone(other_incarnation(first), hosts().template_of(like)),
                         Code::AlreadyExists));
  expect_only_copy(0, first);
  expect_only_copy(0, second);
  // Each writes pages of its own.
  const double counted = count(0, second);
  ASSERT_TRUE(is_ok(at(0).pause(first.key())));
  EXPECT_TRUE(wait_until([&] { return count(0, second) > counted + 8; }, kSoon));
  ASSERT_TRUE(is_ok(at(0).resume(first.key())));
  expect_alive(0, first);
  auto statistics = at(0).statistics(first.key());
  ASSERT_TRUE(is_ok(statistics));
  EXPECT_GT(statistics->resident, Bytes{0});
  EXPECT_TRUE(is_ok(at(0).destroy(first.key())));
  EXPECT_EQ(copy(0, first), Copy::Absent);
  expect_only_copy(0, second);
}

TEST_P(DriverContract, ACloneMovesAndIsSavedAsAnyOther) {
  const VmSpec like = vm();
  make_template(like);
  const VmSpec made = cloned(like);
  auto profile = at(0).memory_profile(made.key());
  ASSERT_TRUE(is_ok(profile));
  EXPECT_GE(profile->total, made.memory);
  EXPECT_LT(profile->zero, profile->total);
  EXPECT_EQ(move(ticket(made), 0, 1).phase, OutgoingPhase::Completed);
  expect_only_copy(1, made);
  EXPECT_EQ(move(ticket(made), 1, 0).phase, OutgoingPhase::Completed);
  expect_only_copy(0, made);
  const std::string file = hosts().new_file();
  ASSERT_TRUE(is_ok(at(0).save(made.key(), file)));
  ASSERT_TRUE(is_ok(at(1).restore(made, file)));
  expect_only_copy(1, made);
}

TEST_P(DriverContract, ACloneIsSavedWithItsTemplatesPages) {
  const VmSpec like = vm();
  make_template(like);
  const VmSpec made = cloned(like);
  const std::string file = hosts().new_file();
  ASSERT_TRUE(is_ok(at(0).save(made.key(), file)));
  EXPECT_EQ(copy(0, made), Copy::Absent);
  ASSERT_TRUE(is_ok(at(1).restore(made, file)));
  expect_only_copy(1, made);
}

TEST_P(DriverContract, AClonesTemplateOutlivesItsAgent) {
  const VmSpec like = vm();
  make_template(like);
  hosts().restart_agent(0);
  expect_only_copy(0, cloned(like));
}

}  // namespace
}  // namespace mare::contract
