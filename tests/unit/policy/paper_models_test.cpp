#include "orchestrator/policy/paper_models.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "orchestrator/core/rng.h"

namespace mare::policy::neves {
namespace {

// The paper prints two digits, cut off or rounded.
constexpr double kPrinted = 0.0055;

TEST(Neves, Table71Hpl) {
  EXPECT_NEAR(fitted(kCheckpoint, 400e6), 52.18, kPrinted);
  EXPECT_NEAR(fitted_vm_cost(512e6, 400e6), 111.19, kPrinted);
}

TEST(Neves, Table72Sp) {
  EXPECT_NEAR(fitted(kCheckpoint, 360e6), 47.44, kPrinted);
  EXPECT_NEAR(fitted_vm_cost(512e6, 360e6), 105.25, kPrinted);
}

TEST(Neves, ThePhasesAddUpToTheWhole) {
  for (const double size : {1e6, 100e6, 400e6}) {
    EXPECT_NEAR(
        checkpoint_cost(fitted(kCheck, size), fitted(kTransfer, size), fitted(kRestart, size)),
        fitted(kCheckpoint, size), 0.01);
  }
}

TEST(Neves, HeterogeneousRunTime) {
  Work work;
  work.amount = 1000;
  work.before = 0.25;
  work.source_speed = 10;
  work.destination_speed = 20;
  work.peers = {{100, 0.5, 10, 5}, {60, 1, 30, 1}};
  // 250/10 + 750/20 + (50/10 + 50/5) + (60/30 + 0) + 7
  EXPECT_DOUBLE_EQ(run_time_heterogeneous(work, 7), 25 + 37.5 + 15 + 2 + 7);
}

TEST(Neves, EqualHostsAreTheHomogeneousCase) {
  Work work;
  work.amount = 1000;
  work.before = 0.3;
  work.source_speed = work.destination_speed = 10;
  work.peers = {{100, 0.9, 10, 10}, {60, 0.2, 10, 10}};
  EXPECT_NEAR(run_time_heterogeneous(work, 7), run_time_homogeneous(1000, 10, 160, 10, 7), 1e-9);
  EXPECT_DOUBLE_EQ(run_time_homogeneous(1000, 10, 160, 10, 7), 100 + 16 + 7);
}

TEST(Neves, CheckpointCostByItsFactors) {
  const CheckpointFactors factors{2e-8, 1.5, 1e-8};
  // 2 + 1.5 * 10 + 1
  EXPECT_NEAR(checkpoint_cost(factors, 100e6, 10e6), 18, 1e-9);
  EXPECT_NEAR(checkpoint_run_time_homogeneous(1000, 10, 160, 10, factors, 1e8), 116 + 3 + 1.5e7,
              1e-3);
  Work work;
  work.amount = 10;
  EXPECT_NEAR(checkpoint_run_time_heterogeneous(work, factors, 100e6, 10e6), 28, 1e-9);
}

TEST(Neves, VmCostIsLessWhatTheJobGotDone) {
  EXPECT_DOUBLE_EQ(vm_transfer_time(500, 100, {10, 20, 50}), 50 + 5 + 2);
  EXPECT_DOUBLE_EQ(vm_transfer_time(500, 100, {}), 0);
  const During during{40, 2, 30, 10};  // 20 + 3
  EXPECT_DOUBLE_EQ(vm_cost(57, during), 34);
  EXPECT_DOUBLE_EQ(vm_run_time_homogeneous(100, 1, 0, 1, 57, during), 134);
  Work work;
  work.amount = 100;
  EXPECT_DOUBLE_EQ(vm_run_time_heterogeneous(work, 57, during), 134);
}

TEST(Neves, RateGrowsByTheDirtyRateWithinItsLimits) {
  EXPECT_DOUBLE_EQ(next_rate(10, 0.5, 40, 2, 1, 100), 20);
  EXPECT_DOUBLE_EQ(next_rate(10, 0.5, 4000, 2, 1, 100), 100);
  EXPECT_DOUBLE_EQ(next_rate(10, 0.5, 4000, 0, 1, 100), 10);
}

RC_GTEST_PROP(Neves, CostGrowsWithMemoryAndWwsAndFallsWithTheRate, ()) {
  const double memory = *rc::gen::inRange(1, 4'000) * 1e6;
  const double wws = *rc::gen::inRange(1, 4'000) * 1e6;
  const double rate = *rc::gen::inRange(1, 1'000) * 1e6;
  const double more = 1 + *rc::gen::inRange(1, 100) / 100.0;
  RC_ASSERT(fitted_vm_cost(memory * more, wws) > fitted_vm_cost(memory, wws));
  RC_ASSERT(fitted_vm_cost(memory, wws * more) > fitted_vm_cost(memory, wws));
  const std::vector<double> rates(4, rate);
  const std::vector<double> faster(4, rate * more);
  RC_ASSERT(vm_transfer_time(memory, wws, faster) < vm_transfer_time(memory, wws, rates));
  RC_ASSERT(vm_transfer_time(memory * more, wws, rates) > vm_transfer_time(memory, wws, rates));
  RC_ASSERT(vm_transfer_time(memory, wws * more, rates) > vm_transfer_time(memory, wws, rates));
}

TEST(LeastSquares, FindsALineByHand) {
  // (1,1), (2,3), (3,2): slope 1/2, constant 1, R2 = 1 - 1.5/2.
  const auto fit = least_squares({{{1}, 1}, {{2}, 3}, {{3}, 2}});
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->coefficients[0], 1, 1e-12);
  EXPECT_NEAR(fit->coefficients[1], 0.5, 1e-12);
  EXPECT_NEAR(fit->r2, 0.25, 1e-12);
  EXPECT_EQ(fit->samples, 3);
}

TEST(LeastSquares, FindsThePapersPlaneAgain) {
  std::vector<Sample> samples;
  SeededRng rng(1);
  for (const double memory : {128e6, 192e6, 256e6, 320e6, 384e6, 512e6}) {
    for (const double wws : {1e6, 32e6, 64e6, 128e6, 160e6, 192e6, 224e6, 256e6}) {
      samples.push_back({{memory, wws}, fitted_vm_cost(memory, wws) + (rng.unit() - 0.5) * 1e-3});
    }
  }
  const auto fit = least_squares(samples);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->coefficients[0], kVmConstant, 1e-3);
  EXPECT_NEAR(fit->coefficients[1] / kVmPerMemory, 1, 1e-4);
  EXPECT_NEAR(fit->coefficients[2] / kVmPerWws, 1, 1e-4);
  EXPECT_GT(fit->r2, 0.9999);
  EXPECT_LT(fit->r2, 1);
}

TEST(LeastSquares, RefusesWhatHasNoAnswer) {
  EXPECT_FALSE(least_squares({}));
  EXPECT_FALSE(least_squares({{{1}, 1}}));
  EXPECT_FALSE(least_squares({{{1}, 1}, {{1, 2}, 3}, {{2}, 1}}));
  EXPECT_FALSE(least_squares({{{5}, 1}, {{5}, 2}, {{5}, 3}}));
  EXPECT_FALSE(least_squares({{{1, 2}, 1}, {{2, 4}, 2}, {{3, 6}, 3}, {{4, 8}, 5}}));
}

}  // namespace
}  // namespace mare::policy::neves
