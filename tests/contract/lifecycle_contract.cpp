// One host: facts, starting, ending, pausing, saving, looking.
#include <algorithm>
#include <thread>

#include "tests/contract/driver_contract.h"

namespace mare::contract {
namespace {

bool lists(Driver& driver, const VmSpec& vm) {
  auto all = driver.list();
  EXPECT_TRUE(is_ok(all));
  return all && std::any_of(all->begin(), all->end(), [&](const VmObservation& seen) {
           return seen.key.id == vm.id && seen.key.uuid == vm.uuid;
         });
}

TEST_P(DriverContract, FactsNameTheHypervisorAndWhatItHas) {
  auto facts = at(0).facts();
  ASSERT_TRUE(is_ok(facts));
  EXPECT_FALSE(facts->hypervisor.empty());
  EXPECT_GT(facts->memory, mebibytes(256));
  EXPECT_GT(facts->cpus, 0);
  EXPECT_GT(facts->vm_overhead, Bytes{0});
  EXPECT_FALSE(facts->agent_version.empty());
  EXPECT_TRUE(facts->live_migration) << facts->live_migration_why;
  EXPECT_TRUE(facts->live_migration_why.empty());
}

TEST_P(DriverContract, AnUnknownVmIsAbsentWhichIsNoError) {
  const VmSpec none = vm();
  EXPECT_EQ(copy(0, none), Copy::Absent);
  EXPECT_FALSE(lists(at(0), none));
  EXPECT_EQ(outgoing(0, none).phase, OutgoingPhase::None);
  auto arrival = at(0).arrival(none.key());
  ASSERT_TRUE(is_ok(arrival));
  EXPECT_EQ(arrival->seen.copy, Copy::Absent);
  EXPECT_FALSE(arrival->downtime);
  EXPECT_EQ(arrival->announcements, 0);
  EXPECT_TRUE(is_ok(at(0).destroy(none.key())));
  EXPECT_TRUE(is_ok(at(0).cancel_outgoing(none.key())));
  EXPECT_TRUE(is_ok(at(0).discard_incoming(none.key())));
  EXPECT_TRUE(fails_with(at(0).pause(none.key()), Code::NotFound));
  EXPECT_TRUE(fails_with(at(0).resume(none.key()), Code::NotFound));
  EXPECT_TRUE(fails_with(at(0).statistics(none.key()), Code::NotFound));
  EXPECT_TRUE(fails_with(at(0).save(none.key(), hosts().new_file()), Code::NotFound));
  EXPECT_TRUE(fails_with(at(0).announce(none), Code::NotFound));
}

TEST_P(DriverContract, StartingTwiceIsAsGoodAsOnce) {
  const VmSpec made = started(0);
  EXPECT_TRUE(is_ok(at(0).start(made)));
  auto seen = at(0).observe(made.key());
  ASSERT_TRUE(is_ok(seen));
  EXPECT_EQ(seen->copy, Copy::Running);
  EXPECT_EQ(seen->key.id, made.id);
  EXPECT_EQ(seen->key.uuid, made.uuid);
  EXPECT_EQ(seen->memory, made.memory);
  EXPECT_FALSE(seen->sending);
  EXPECT_TRUE(lists(at(0), made));
  EXPECT_FALSE(lists(at(1), made));
  expect_only_copy(0, made);
}

TEST_P(DriverContract, StartingFromManyThreadsMakesOneCopy) {
  const VmSpec made = vm();
  std::vector<std::thread> threads;
  std::vector<Status> said(6);
  for (auto& answer : said) {
    threads.emplace_back([&] { answer = at(0).start(made); });
  }
  for (auto& thread : threads) thread.join();
  int done = 0;
  for (const auto& answer : said) done += answer.ok() ? 1 : 0;
  EXPECT_GE(done, 1);
  EXPECT_TRUE(is_ok(at(0).start(made)));
  auto all = at(0).list();
  ASSERT_TRUE(is_ok(all));
  EXPECT_EQ(std::count_if(all->begin(), all->end(),
                          [&](const auto& seen) { return seen.key.id == made.id; }),
            1);
  EXPECT_EQ(copy(0, made), Copy::Running);
}

TEST_P(DriverContract, AnotherIncarnationIsForeign) {
  const VmSpec made = started(0);
  const VmSpec other = other_incarnation(made);
  EXPECT_TRUE(fails_with(at(0).start(other), Code::AlreadyExists));
  EXPECT_EQ(copy(0, other), Copy::Absent);
  EXPECT_TRUE(fails_with(at(0).pause(other.key()), Code::NotFound));
  EXPECT_TRUE(fails_with(at(0).statistics(other.key()), Code::NotFound));
  EXPECT_TRUE(fails_with(at(0).prepare_incoming(ticket(other)), Code::AlreadyExists));
  EXPECT_TRUE(is_ok(at(0).discard_incoming(other.key())));
  EXPECT_TRUE(is_ok(at(0).destroy(other.key())));
  expect_only_copy(0, made);
}

TEST_P(DriverContract, WithoutMemoryNothingIsStartedOrReceived) {
  auto facts = at(0).facts();
  ASSERT_TRUE(is_ok(facts));
  VmSpec big = vm();
  big.memory = facts->memory;  // and there is its overhead
  EXPECT_TRUE(fails_with(at(0).start(big), Code::ResourceExhausted));
  EXPECT_TRUE(fails_with(at(0).prepare_incoming(ticket(big)), Code::ResourceExhausted));
  EXPECT_EQ(copy(0, big), Copy::Absent);
  EXPECT_FALSE(lists(at(0), big));
  // Neither refusal holds memory back.
  const VmSpec small = vm();
  EXPECT_TRUE(is_ok(at(0).start(small)));
}

TEST_P(DriverContract, DestroyEndsACopyInAnyState) {
  const VmSpec running = started(0);
  EXPECT_TRUE(is_ok(at(0).destroy(running.key())));
  EXPECT_EQ(copy(0, running), Copy::Absent);
  EXPECT_TRUE(is_ok(at(0).destroy(running.key())));
  const VmSpec paused = started(0);
  ASSERT_TRUE(is_ok(at(0).pause(paused.key())));
  EXPECT_TRUE(is_ok(at(0).destroy(paused.key())));
  EXPECT_EQ(copy(0, paused), Copy::Absent);
  EXPECT_FALSE(lists(at(0), paused));
  // The name is free again.
  EXPECT_TRUE(is_ok(at(0).start(paused)));
}

TEST_P(DriverContract, APausedVmStandsStillUntilResumed) {
  const VmSpec made = started(0);
  EXPECT_TRUE(is_ok(at(0).pause(made.key())));
  EXPECT_TRUE(is_ok(at(0).pause(made.key())));
  EXPECT_EQ(copy(0, made), Copy::Paused);
  hosts().wait(Milliseconds{500});  // what it had said already arrives
  const double before = count(0, made);
  hosts().wait(Milliseconds{2000});
  EXPECT_EQ(count(0, made), before);
  EXPECT_TRUE(fails_with(at(0).start(made), Code::FailedPrecondition)) << "it does not run";
  EXPECT_TRUE(is_ok(at(0).resume(made.key())));
  EXPECT_TRUE(is_ok(at(0).resume(made.key())));
  expect_only_copy(0, made);
}

TEST_P(DriverContract, StatisticsGrowWithTheGuestsWork) {
  const VmSpec made = started(0);
  auto before = at(0).statistics(made.key());
  ASSERT_TRUE(is_ok(before));
  EXPECT_GT(before->cpu_time, Microseconds{0});
  EXPECT_GT(before->resident, mebibytes(16));
  EXPECT_TRUE(wait_until(
      [&] {
        auto after = at(0).statistics(made.key());
        return after && after->cpu_time > before->cpu_time;
      },
      kSoon));
}

TEST_P(DriverContract, ASavedVmGoesOnWhereItWasOnEitherHost) {
  const VmSpec made = started(0);
  const std::string file = hosts().new_file();
  expect_alive(0, made);
  const double before = count(0, made);
  ASSERT_TRUE(is_ok(at(0).save(made.key(), file)));
  EXPECT_EQ(copy(0, made), Copy::Absent);
  EXPECT_TRUE(fails_with(at(1).restore(made, hosts().new_file()), Code::NotFound));
  EXPECT_TRUE(fails_with(at(1).restore(other_incarnation(made), file), Code::FailedPrecondition));
  EXPECT_EQ(copy(1, made), Copy::Absent);
  ASSERT_TRUE(is_ok(at(1).restore(made, file)));
  EXPECT_TRUE(is_ok(at(1).restore(made, file))) << "twice is as good as once";
  EXPECT_TRUE(wait_until([&] { return count(1, made) > 0; }, kSoon));
  EXPECT_GE(count(1, made), before) << "it began anew";
  expect_only_copy(1, made);
  // The file stays: the VM can be put back to then.
  ASSERT_TRUE(is_ok(at(1).destroy(made.key())));
  ASSERT_TRUE(is_ok(at(0).restore(made, file)));
  EXPECT_TRUE(wait_until([&] { return count(0, made) >= before; }, kSoon));
  expect_only_copy(0, made);
}

TEST_P(DriverContract, ASaveThatFailsLeavesTheVmRunningAndNoFile) {
  const VmSpec made = started(0);
  const VmSpec other = started(0);
  const std::string file = hosts().new_file();
  ASSERT_TRUE(is_ok(at(0).save(other.key(), file)));
  EXPECT_TRUE(fails_with(at(0).save(made.key(), file), Code::AlreadyExists));
  expect_only_copy(0, made);
  EXPECT_TRUE(is_ok(at(0).restore(other, file))) << "the other VM's file is whole";
  const std::string bad = hosts().bad_file();
  if (bad.empty()) return;
  EXPECT_FALSE(at(0).save(made.key(), bad).ok());
  expect_only_copy(0, made);
  EXPECT_TRUE(fails_with(at(1).restore(made, bad), Code::NotFound));
}

TEST_P(DriverContract, FaultsOnTheConsoleAreCounted) {
  const VmSpec made = started(0, {.faulty = true});
  hosts().fault(made);
  EXPECT_TRUE(wait_until(
      [&] {
        auto seen = at(0).observe(made.key());
        return seen && seen->console_faults > 0;
      },
      kSoon));
  auto seen = at(0).observe(made.key());
  ASSERT_TRUE(is_ok(seen));
  EXPECT_FALSE(seen->console_first_fault.empty());
  // Since its start here: the next copy begins clean.
  ASSERT_TRUE(is_ok(at(0).destroy(made.key())));
  const VmSpec next = started(0);
  expect_alive(0, next);
}

TEST_P(DriverContract, AVmIsAnnouncedOnRequest) {
  const VmSpec made = started(0);
  auto before = at(0).arrival(made.key());
  ASSERT_TRUE(is_ok(before));
  EXPECT_EQ(before->announcements, 0);
  ASSERT_TRUE(is_ok(at(0).announce(made)));
  ASSERT_TRUE(is_ok(at(0).announce(made)));
  EXPECT_TRUE(wait_until(
      [&] {
        auto after = at(0).arrival(made.key());
        return after && after->announcements > 0 && after->announced_at.count() > 0;
      },
      kSoon));
}

TEST_P(DriverContract, ARestartedAgentFindsItsVms) {
  const VmSpec made = started(0);
  hosts().restart_agent(0);
  expect_only_copy(0, made);
  EXPECT_TRUE(lists(at(0), made));
  EXPECT_EQ(outgoing(0, made).phase, OutgoingPhase::None);
  EXPECT_TRUE(is_ok(at(0).start(made)));
  EXPECT_TRUE(is_ok(at(0).destroy(made.key())));
}

}  // namespace
}  // namespace mare::contract
