#include "orchestrator/policy/evacuation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "orchestrator/core/rng.h"

namespace mare::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Threat threat(double left_s) {
  Threat out;
  out.host = HostId{"h1"};
  out.left_s = left_s;
  out.lead_s = 1;
  out.caps = {2, 1};
  return out;
}

void add_vm(Threat& to, const std::string& vm, const std::string& job, double longest_s,
            const std::string& destination = "h2") {
  LeavingVm out{VmId{vm}, HostId{destination}, std::nullopt, {}};
  if (!job.empty()) out.job = JobId{job};
  if (longest_s > 0) out.ways.push_back({Strategy::PreCopy, longest_s});
  if (longest_s <= 0) out.why_not = "no other host has room";
  to.vms.push_back(out);
}

void add_job(Threat& to, const std::string& job, std::optional<double> checkpoint_s,
             bool has_checkpoint = false) {
  ThreatenedJob out;
  out.job = JobId{job};
  out.has_checkpoint = has_checkpoint;
  out.checkpoint_s = checkpoint_s;
  if (!checkpoint_s) out.why_not = "it is starting";
  to.jobs.push_back(out);
}

std::vector<std::string> movers(const EvacuationPlan& plan, const Threat& of) {
  std::vector<std::string> out;
  for (const auto& one : plan.moves) out.push_back(of.vms[one.index].vm.value);
  return out;
}
std::vector<std::string> savers(const EvacuationPlan& plan) {
  std::vector<std::string> out;
  for (const auto& one : plan.saves) out.push_back(one.job.value);
  return out;
}

TEST(Evacuation, AllLeaveWhenThereIsTime) {
  Threat t = threat(60);
  add_vm(t, "a", "j", 10);
  add_vm(t, "b", "j", 20);
  add_job(t, "j", 5);
  const auto plan = plan_evacuation(t);
  EXPECT_THAT(movers(plan, t), ElementsAre("a", "b"));
  EXPECT_THAT(plan.saves, IsEmpty()) << "what leaves whole needs no checkpoint";
  EXPECT_DOUBLE_EQ(plan.moves[0].ends_s, 11) << "its lead, and its work alone on the link";
  EXPECT_DOUBLE_EQ(plan.moves[1].begins_s, 11) << "the cap of the link";
  EXPECT_DOUBLE_EQ(plan.moves[1].ends_s, 32);
}

TEST(Evacuation, ThoseThatShareTheHostsLinkLengthenEachOther) {
  Threat t = threat(60);
  add_vm(t, "a", "", 10, "h2");
  add_vm(t, "b", "", 10, "h3");
  const auto plan = plan_evacuation(t);
  ASSERT_EQ(plan.moves.size(), 2U);
  EXPECT_DOUBLE_EQ(plan.moves[0].ends_s, 21);
  EXPECT_DOUBLE_EQ(plan.moves[1].ends_s, 21);
}

TEST(Evacuation, AJobMovesWholeOrIsSaved) {
  Threat t = threat(20);
  add_vm(t, "a", "j", 10);
  add_vm(t, "b", "j", 10);
  add_job(t, "j", 5);
  const auto plan = plan_evacuation(t);
  EXPECT_THAT(plan.moves, IsEmpty()) << "one of both would fit, and save nothing";
  EXPECT_THAT(savers(plan), ElementsAre("j"));
  EXPECT_THAT(plan.covered, ElementsAre(0U, 1U));
  EXPECT_THAT(in_words(plan, t), HasSubstr("a checkpoint of j; stay, saved with their job: a, b"));
}

TEST(Evacuation, WhoHasNoCheckpointGoesFirstThenTheShortest) {
  Threat t = threat(30);
  add_vm(t, "long", "j1", 18);
  add_vm(t, "short", "j2", 8);
  add_vm(t, "old", "j3", 4);
  add_vm(t, "idle", "", 2);
  add_job(t, "j1", std::nullopt);
  add_job(t, "j2", std::nullopt);
  add_job(t, "j3", std::nullopt, true);
  const auto plan = plan_evacuation(t);
  EXPECT_THAT(movers(plan, t), ElementsAre("short", "long"));
  ASSERT_EQ(plan.left.size(), 2U);
  EXPECT_THAT(plan.left[0].why, HasSubstr("its move may take 4.0 s, too long beside the others; j3 "
                                          "can't be saved: it is starting"));
}

TEST(Evacuation, ACheckpointIsNotGivenUpForTheMoveOfAnother) {
  Threat t = threat(20);
  add_vm(t, "a", "j1", 12);
  add_vm(t, "b", "j2", 50);
  add_job(t, "j1", 4);
  add_job(t, "j2", 10);
  const auto plan = plan_evacuation(t);
  EXPECT_THAT(plan.moves, IsEmpty()) << "12 s of moving and 10 s of saving do not fit into 20 s";
  EXPECT_THAT(savers(plan), ElementsAre("j1", "j2"));
}

TEST(Evacuation, AQuickerWayIsTakenWhereTheOneThatIsLikedDoesNotFit) {
  Threat t = threat(20);
  add_vm(t, "a", "j", 30);
  t.vms[0].ways.push_back({Strategy::StopAndCopy, 10});
  add_job(t, "j", std::nullopt);
  const auto plan = plan_evacuation(t);
  ASSERT_EQ(plan.moves.size(), 1U);
  EXPECT_EQ(plan.moves[0].strategy, Strategy::StopAndCopy);
}

TEST(Evacuation, AJobThatFitsNeitherWayLeavesAsFarAsItCan) {
  Threat t = threat(20);
  add_vm(t, "a", "j", 10);
  add_vm(t, "b", "j", 15);
  add_vm(t, "c", "j", 0);
  add_job(t, "j", std::nullopt);
  const auto plan = plan_evacuation(t);
  EXPECT_THAT(movers(plan, t), ElementsAre("a"));
  ASSERT_EQ(plan.left.size(), 2U);
  EXPECT_THAT(plan.left[0].why, HasSubstr("not all VMs of its job can leave"));
  EXPECT_THAT(plan.left[1].why, HasSubstr("no other host has room"));
}

TEST(Evacuation, VmsOfAJobThatIsBeingSavedStay) {
  Threat t = threat(60);
  add_vm(t, "a", "j", 10);
  add_job(t, "j", 5);
  t.jobs[0].saving = true;
  auto plan = plan_evacuation(t);
  EXPECT_THAT(plan.moves, IsEmpty());
  EXPECT_THAT(plan.covered, ElementsAre(0U));
  t.jobs[0].saving = false;
  t.jobs[0].covered = true;
  plan = plan_evacuation(t);
  EXPECT_THAT(movers(plan, t), ElementsAre("a")) << "safe by now, it goes on without a break";
}

TEST(Evacuation, WhatIsUnderWayTakesItsShareAndItsPlace) {
  Threat t = threat(30);
  add_vm(t, "a", "", 20, "h2");
  add_job(t, "j", std::nullopt);
  t.under_way.push_back({HostId{"h1"}, HostId{"h2"}, 15});
  EXPECT_THAT(plan_evacuation(t).moves, IsEmpty()) << "the link's cap: not before 15 s";
  t.vms[0].destination = HostId{"h3"};
  EXPECT_THAT(plan_evacuation(t).moves, IsEmpty()) << "half of the link for the most of the time";
  t.left_s = 40;
  EXPECT_EQ(plan_evacuation(t).moves.size(), 1U);
  t.under_way[0].left_s = std::numeric_limits<double>::infinity();
  t.caps.per_host = 1;
  EXPECT_THAT(plan_evacuation(t).moves, IsEmpty()) << "nobody knows when its place is free";
}

TEST(Evacuation, OfNothing) {
  const Threat t = threat(10);
  EXPECT_EQ(in_words(plan_evacuation(t), t), "there is no VM to move");
}

Threat random_threat(SeededRng& rng) {
  Threat t = threat(60 * rng.unit());
  t.lead_s = 3 * rng.unit();
  t.caps = {static_cast<int>(rng.below(4)), static_cast<int>(rng.below(3))};
  const auto jobs = rng.below(5);
  for (std::uint64_t j = 0; j < jobs; ++j) {
    add_job(t, "j" + std::to_string(j),
            rng.chance(0.7) ? std::optional<double>{20 * rng.unit()} : std::nullopt,
            rng.chance(0.4));
    ThreatenedJob& job = t.jobs.back();
    job.covered = rng.chance(0.2);
    job.saving = job.checkpoint_s && rng.chance(0.2);
    if (rng.chance(0.2)) job.waits_s = 10 * rng.unit();
  }
  for (std::uint64_t i = rng.below(12); i > 0; --i) {
    const std::string job =
        jobs > 0 && rng.chance(0.8) ? "j" + std::to_string(rng.below(jobs)) : "";
    add_vm(t, "v" + std::to_string(i), job, rng.chance(0.1) ? 0 : 0.1 + 20 * rng.unit(),
           "h" + std::to_string(2 + rng.below(3)));
    if (!t.vms.back().ways.empty() && rng.chance(0.5)) {
      t.vms.back().ways.push_back({Strategy::StopAndCopy, 0.1 + 10 * rng.unit()});
    }
  }
  for (std::uint64_t i = rng.below(3); i > 0; --i) {
    const bool here = rng.chance(0.7);
    t.under_way.push_back(
        {HostId{here ? "h1" : "h3"}, HostId{"h2"},
         rng.chance(0.1) ? std::numeric_limits<double>::infinity() : 30 * rng.unit()});
  }
  return t;
}

double longest(const Threat& t, const PlannedLeave& move) {
  for (const auto& way : t.vms[move.index].ways) {
    if (way.strategy == move.strategy) return way.longest_s;
  }
  return -1;
}

RC_GTEST_PROP(Evacuation, NothingIsPlannedThatCannotFit, (std::uint64_t seed)) {
  SeededRng rng(seed);
  const Threat t = random_threat(rng);
  const auto plan = plan_evacuation(t);
  // All leave by one link: together they can't take longer than there is time.
  double work = 0;
  for (const auto& one : plan.moves) {
    const double least = longest(t, one);
    RC_ASSERT(least > 0);
    RC_ASSERT(one.ends_s <= t.left_s);
    RC_ASSERT(one.ends_s - one.begins_s >= t.lead_s + least - 1e-6);
    work += least;
  }
  for (const auto& one : plan.saves) {
    RC_ASSERT(one.ends_s <= t.left_s);
    for (const auto& job : t.jobs) {
      if (job.job != one.job) continue;
      RC_ASSERT(one.ends_s >= job.waits_s + *job.checkpoint_s - 1e-6);
      work += *job.checkpoint_s;
    }
  }
  RC_ASSERT(work <= t.left_s + 1e-6);
  // At no moment more at once than the caps let.
  for (const auto& at : plan.moves) {
    int here = 0;
    std::map<std::string, int> links;
    for (const auto& one : plan.moves) {
      if (one.begins_s > at.begins_s || one.ends_s <= at.begins_s) continue;
      RC_ASSERT(++here <= std::max(1, t.caps.per_host));
      RC_ASSERT(++links[t.vms[one.index].destination.value] <= std::max(1, t.caps.per_link));
    }
  }
}

RC_GTEST_PROP(Evacuation, EveryVmHasOneFateAndJobsStayWhole, (std::uint64_t seed)) {
  SeededRng rng(seed);
  const Threat t = random_threat(rng);
  const auto plan = plan_evacuation(t);
  std::vector<int> fates(t.vms.size(), 0);
  std::map<std::string, int> moved;
  std::map<std::string, int> all;
  for (const auto& one : plan.moves) {
    ++fates[one.index];
    if (t.vms[one.index].job) ++moved[t.vms[one.index].job->value];
  }
  for (const auto index : plan.covered) ++fates[index];
  for (const auto& one : plan.left) {
    ++fates[one.index];
    RC_ASSERT(!one.why.empty());
  }
  for (const int count : fates) RC_ASSERT(count == 1);
  for (const auto& vm : t.vms) {
    if (vm.job) ++all[vm.job->value];
  }
  std::set<std::string> saved;
  for (const auto& one : plan.saves) RC_ASSERT(saved.insert(one.job.value).second);
  for (const auto& job : t.jobs) {
    const std::string& name = job.job.value;
    const bool whole = moved[name] == all[name];
    if (saved.contains(name)) RC_ASSERT(moved[name] == 0 && all[name] > 0 && !job.covered);
    if (job.saving) RC_ASSERT(moved[name] == 0);
    if (job.covered || saved.contains(name)) RC_ASSERT(whole || moved[name] == 0);
  }
}

RC_GTEST_PROP(Evacuation, MoreTimeSavesNoJobLess, (std::uint64_t seed)) {
  SeededRng rng(seed);
  Threat t = random_threat(rng);
  const auto safe = [&t](const EvacuationPlan& plan) {
    std::set<std::size_t> out(plan.covered.begin(), plan.covered.end());
    for (const auto& one : plan.moves) out.insert(one.index);
    return out.size();
  };
  // With all the time there is, only those stay that can neither move nor be saved.
  t.under_way.clear();
  t.left_s = 1e6;
  const auto plan = plan_evacuation(t);
  for (const auto& one : plan.left) {
    const auto& vm = t.vms[one.index];
    const auto job = std::find_if(t.jobs.begin(), t.jobs.end(),
                                  [&](const auto& other) { return vm.job == other.job; });
    RC_ASSERT(vm.ways.empty());
    const bool hopeless = job == t.jobs.end() || !job->checkpoint_s;
    RC_ASSERT(hopeless);
  }
  RC_ASSERT(safe(plan) + plan.left.size() == t.vms.size());
}

}  // namespace
}  // namespace mare::policy
