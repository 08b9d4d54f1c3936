// What forecasts make of that which users and hosts state.
#include <gtest/gtest.h>

#include "orchestrator/policy/forecast.h"
#include "tests/unit/policy/forecast_input.h"
#include "tests/unit/policy/quantities.h"

namespace mare::policy {
namespace {

TEST(Forecast, ALooseJobLosesLess) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  const double tight = of(forecast(in), Strategy::StopAndCopy).added_job_time_s.value;
  in.job->tightness = 0.5;
  EXPECT_NEAR(of(forecast(in), Strategy::StopAndCopy).added_job_time_s.value, tight / 2, 1e-9);
}

TEST(Forecast, AKnobThatIsSetIsTheOnlyOneThatIsTried) {
  ForecastInput in = input(8 * kMega, 40 * kMega);
  const auto sent = [&in](Strategy strategy) {
    in.policy.priority = Priority::Manual;
    in.policy.strategy = strategy;
    return forecast(in).sending;
  };
  in.policy.knobs.throttle_step = 3;
  EXPECT_EQ(sent(Strategy::Throttled).throttle_step_percent, 3);
  in.policy.knobs.pre_copy_rounds = 7;
  EXPECT_EQ(sent(Strategy::Hybrid).pre_copy_rounds, 7);
  in.policy.knobs.rate_gain = 0.5;
  in.policy.knobs.rate_max = 4e6;
  const Sending slow = sent(Strategy::RateControlled);
  EXPECT_EQ(slow.rate_gain, 0.5);
  EXPECT_EQ(slow.rate_max, BytesPerSecond{4e6});
  EXPECT_LT(slow.rate_min, slow.rate_max) << "a share of it, as ever";
  const int chosen = sent(Strategy::Throttled).throttle_initial_percent;
  EXPECT_TRUE(chosen == 20 || chosen == 50 || chosen == 80) << chosen << ": nobody set it";
}

TEST(Forecast, ASlowerRateTakesLonger) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  in.policy.priority = Priority::Manual;
  in.policy.strategy = Strategy::RateControlled;
  const double usual = of(forecast(in), Strategy::RateControlled).total_time_s.value;
  in.policy.knobs.rate_max = in.link.goodput.value / 5;
  EXPECT_GT(of(forecast(in), Strategy::RateControlled).total_time_s.value, 2 * usual);
}

TEST(Forecast, HostsThatDifferByLessThanATenthAreAlike) {
  EXPECT_EQ(relative_speed(400, 437), 1);
  EXPECT_EQ(relative_speed(400, 363), 1);
  EXPECT_DOUBLE_EQ(relative_speed(400, 200), 0.5);
  EXPECT_DOUBLE_EQ(relative_speed(400, 500), 1.25);
  EXPECT_EQ(relative_speed(0, 200), 1) << "an older agent tells none";
  EXPECT_EQ(relative_speed(400, 0), 1);
}

TEST(Forecast, ASlowerDestinationIsTold) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  EXPECT_EQ(forecast(in).reason.find("times as fast"), std::string::npos);
  in.destination_speed = 0.5;
  EXPECT_NE(forecast(in).reason.find("computes 0.50 times as fast as"), std::string::npos)
      << forecast(in).reason;
  in.policy.priority = Priority::Manual;  // and names no strategy
  EXPECT_EQ(forecast(in).reason.find("times as fast"), std::string::npos)
      << "it is not going there";
}

/// A guest that asks for pages at half of the pace waits for fewer of them.
TEST(Forecast, AGuestOnASlowerHostAsksForFewerPages) {
  ForecastInput in = input(20 * kMega, 100 * kMega);
  const double alike = of(forecast(in), Strategy::PostCopy).added_job_time_s.value;
  in.destination_speed = 0.25;
  EXPECT_LT(of(forecast(in), Strategy::PostCopy).added_job_time_s.value, alike);
}

}  // namespace
}  // namespace mare::policy
