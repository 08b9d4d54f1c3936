#include "orchestrator/policy/autoscale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

namespace mare::policy {
namespace {

using ::testing::HasSubstr;

AutoscaleRule rule_of(double target, int min, int max) {
  AutoscaleRule out;
  out.target = target;
  out.min = min;
  out.max = max;
  out.down.stabilisation = Seconds{0};
  return out;
}

AutoscaleDecision once(const AutoscaleRule& rule, int current, std::optional<double> metric) {
  return autoscale(rule, {}, Seconds{1000}, current, metric);
}

TEST(Autoscale, TheTargetRule) {
  struct Case {
    int current;
    double metric;
    double target;
    int size;
  };
  const std::vector<Case> cases{
      {1, 20, 10, 2},       // the paper's own: ceil(1 * 20 / 10)
      {3, 50, 50, 3},       // no rounding up of what is exact
      {3, 100, 50, 6},      // twice as much, twice as many
      {3, 51, 50, 3},       // within the tolerance of 10%
      {10, 54.9, 50, 10},   //
      {10, 55.6, 50, 12},   // beyond: ceil(11.12)
      {10, 44, 50, 9},      // ceil(8.8)
      {4, 0, 50, 1},        // not below min
      {4, 5000, 50, 12},    // not above max
      {7, 10.0 / 3, 1, 12}  // ceil(23.33), limited
  };
  for (const Case& one : cases) {
    const auto decision = once(rule_of(one.target, 1, 12), one.current, one.metric);
    EXPECT_EQ(decision.size, one.size)
        << one.current << " * " << one.metric << " / " << one.target << ": " << decision.reason;
  }
}

TEST(Autoscale, SaysItsArithmetic) {
  EXPECT_EQ(once(rule_of(10, 1, 5), 1, 20).reason,
            "grows from 1 to 2: ceil(1 * 20.00 / 10.00) = 2");
  EXPECT_THAT(once(rule_of(10, 1, 5), 3, 40).reason, HasSubstr("= 12, limited to 5"));
  EXPECT_EQ(once(rule_of(10, 1, 5), 3, 10.5).reason,
            "stays at 3: 10.50 is within 10% of the target 10.00");
}

/// Clocks do not tick to the microsecond: a window as long as from one look to the next must end.
TEST(Autoscale, LooksAreNeverExactlyAWindowApart) {
  for (const double period : {4.999, 5.0, 5.001, 7.0}) {
    AutoscaleRule rule = rule_of(1, 1, 9);
    rule.down.stabilisation = Seconds{5};
    AutoscaleMemory memory;
    int current = 3;
    double low_since = -1;
    for (int look = 0; look < 8; ++look) {
      const double now = 100 + look * period;
      const double metric = look < 3 ? 1 : 0;
      if (metric == 0 && low_since < 0) low_since = now;
      const auto decision = autoscale(rule, memory, Seconds{now}, current, metric);
      memory = decision.memory;
      EXPECT_LE(memory.wishes.size(), 5U);
      if (decision.size < current) {
        EXPECT_GE(now - low_since, 5) << "it shrank within its window";
      }
      current = decision.size;
    }
    EXPECT_EQ(current, 1) << "looks every " << period << " s";
  }
}

TEST(Autoscale, WithoutAFigureItStays) {
  const AutoscaleRule rule = rule_of(10, 2, 5);
  EXPECT_EQ(once(rule, 3, std::nullopt).size, 3);
  EXPECT_EQ(once(rule, 3, std::numeric_limits<double>::quiet_NaN()).size, 3);
  EXPECT_THAT(once(rule, 3, std::nullopt).reason, HasSubstr("no figure of the metric"));
  EXPECT_EQ(once(rule, 1, std::nullopt).size, 2);  // but within its limits
  EXPECT_EQ(once(rule, 9, 10).size, 5);
}

TEST(Autoscale, GrowsFromNothing) {
  EXPECT_EQ(once(rule_of(10, 0, 5), 0, 25).size, 3);
  EXPECT_EQ(once(rule_of(10, 0, 5), 0, 0).size, 0);
  EXPECT_EQ(once(rule_of(10, 0, 5), 2, 0).size, 0);
}

TEST(Autoscale, NoMoreThanAStepAtOnce) {
  AutoscaleRule rule = rule_of(10, 1, 50);
  rule.up.step = 4;
  rule.down.step = 2;
  EXPECT_EQ(once(rule, 5, 100).size, 9);
  EXPECT_THAT(once(rule, 5, 100).reason, HasSubstr("= 50, 4 at once"));
  EXPECT_EQ(once(rule, 9, 1).size, 7);
}

TEST(Autoscale, ShrinksOnlyToTheMostOfTheWindow) {
  AutoscaleRule rule = rule_of(10, 1, 50);
  rule.down.stabilisation = Seconds{60};
  auto decision = autoscale(rule, {}, Seconds{0}, 6, 10.0);  // as it should be
  decision = autoscale(rule, decision.memory, Seconds{30}, 6, 1.0);
  EXPECT_EQ(decision.size, 6);
  EXPECT_THAT(decision.reason, HasSubstr("but not for all of the last 60 s"));
  decision = autoscale(rule, decision.memory, Seconds{50}, 6, 5.0);
  EXPECT_EQ(decision.size, 6);
  decision = autoscale(rule, decision.memory, Seconds{61}, 6, 1.0);
  EXPECT_EQ(decision.size, 6);  // as it was until second 30
  decision = autoscale(rule, decision.memory, Seconds{91}, 6, 1.0);
  EXPECT_EQ(decision.size, 3);  // the 3 of second 50 is the most since second 31
  decision = autoscale(rule, decision.memory, Seconds{122}, 3, 2.0);
  EXPECT_EQ(decision.size, 1);
  EXPECT_LE(decision.memory.wishes.size(), 3U);  // it forgets what is older
}

TEST(Autoscale, AWindowBeginsWithWhatIs) {
  AutoscaleRule rule = rule_of(10, 1, 50);
  rule.down.stabilisation = Seconds{60};
  auto decision = autoscale(rule, {}, Seconds{0}, 6, 1.0);
  EXPECT_EQ(decision.size, 6) << "a new rule shrinks nothing at once";
  decision = autoscale(rule, decision.memory, Seconds{59}, 6, 1.0);
  EXPECT_EQ(decision.size, 6);
  decision = autoscale(rule, decision.memory, Seconds{61}, 6, 1.0);
  EXPECT_EQ(decision.size, 1);
}

TEST(Autoscale, GrowsOnlyByTheLeastOfTheWindow) {
  AutoscaleRule rule = rule_of(10, 1, 50);
  rule.up.stabilisation = Seconds{30};
  auto decision = autoscale(rule, {}, Seconds{0}, 2, 10.0);
  decision = autoscale(rule, decision.memory, Seconds{10}, 2, 40.0);
  EXPECT_EQ(decision.size, 2);
  decision = autoscale(rule, decision.memory, Seconds{31}, 2, 20.0);
  EXPECT_EQ(decision.size, 2);  // until second 10 it was enough
  decision = autoscale(rule, decision.memory, Seconds{41}, 2, 20.0);
  EXPECT_EQ(decision.size, 4);
}

TEST(Autoscale, CooldownsAreOfEachDirection) {
  AutoscaleRule rule = rule_of(10, 1, 50);
  rule.up.cooldown = Seconds{20};
  rule.down.cooldown = Seconds{100};
  auto decision = autoscale(rule, {}, Seconds{0}, 2, 20.0);
  ASSERT_EQ(decision.size, 4);
  decision = autoscale(rule, decision.memory, Seconds{10}, 4, 20.0);
  EXPECT_EQ(decision.size, 4);
  EXPECT_THAT(decision.reason, HasSubstr("asks for 8, but the cooldown of 20 s has 10 s to go"));
  decision = autoscale(rule, decision.memory, Seconds{11}, 4, 5.0);
  EXPECT_EQ(decision.size, 2);  // growing does not hold up shrinking
  decision = autoscale(rule, decision.memory, Seconds{25}, 2, 20.0);
  EXPECT_EQ(decision.size, 4);
  decision = autoscale(rule, decision.memory, Seconds{110}, 4, 5.0);
  EXPECT_EQ(decision.size, 4);
  decision = autoscale(rule, decision.memory, Seconds{111}, 4, 5.0);
  EXPECT_EQ(decision.size, 2);
}

/// The paper's demonstration (MCMPI, section 4): 400 requests at 1.8 a second, 50 at 2.5, 350 at
/// 2.0, each 3 s of work; the queue's length decides, the response is to stay in 30 to 60 s.
class RequestDemo {
 public:
  explicit RequestDemo(AutoscaleRule rule) : rule_(rule) {
    double at = 0;
    for (const auto& [count, rate] : {std::pair{400, 1.8}, {50, 2.5}, {350, 2.0}}) {
      for (int i = 0; i < count; ++i) arrivals_.push_back(at += 1 / rate);
    }
  }

  void run() {
    for (int tick = 0; response.size() < 800 && tick < 20'000; ++tick) {
      const double now = tick * 0.1;
      while (next_ < arrivals_.size() && arrivals_[next_] <= now) {
        queue_.push_back(arrivals_[next_++]);
      }
      if (tick % 50 == 0) scale(now);
      for (double& free_at : workers_) {
        if (free_at > now || queue_.empty()) continue;
        free_at = now + 3;
        response.push_back(now + 3 - queue_.front());
        queue_.pop_front();
      }
    }
  }
  std::vector<double> response;
  std::size_t most_workers = 0;

 private:
  void scale(double now) {
    const double each = static_cast<double>(queue_.size()) / static_cast<double>(workers_.size());
    auto decision =
        autoscale(rule_, memory_, Seconds{now}, static_cast<int>(workers_.size()), each);
    memory_ = std::move(decision.memory);
    std::sort(workers_.rbegin(), workers_.rend());  // the idle ones go first
    workers_.resize(static_cast<std::size_t>(decision.size), now);
    most_workers = std::max(most_workers, workers_.size());
  }

  AutoscaleRule rule_;
  AutoscaleMemory memory_;
  std::vector<double> arrivals_;
  std::size_t next_ = 0;
  std::deque<double> queue_;
  std::vector<double> workers_{0.0};
};

TEST(Autoscale, ThePapersDemonstration) {
  // 15 in the queue of each worker, 3 s each: 45 s, the middle of what is wished.
  AutoscaleRule rule = rule_of(15, 1, 20);
  rule.tolerance = 0.02;
  rule.down.stabilisation = Seconds{60};  // who waits is not left with fewer workers
  RequestDemo demo(rule);
  demo.run();
  ASSERT_EQ(demo.response.size(), 800U);
  EXPECT_LE(*std::max_element(demo.response.begin(), demo.response.end()), 60);
  // The queue has to fill first; and from 2.5 * 3 s = 7.5 busy workers follows 8 at most.
  const auto steady = demo.response.begin() + 60;
  EXPECT_GE(*std::min_element(steady, demo.response.end() - 40), 30);
  EXPECT_GE(demo.most_workers, 6U);
  EXPECT_LE(demo.most_workers, 8U);
}

}  // namespace
}  // namespace mare::policy
