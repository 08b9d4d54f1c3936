// The replay over a watched D(t) against migrations simulated page by page.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "orchestrator/policy/replay.h"
#include "orchestrator/policy/statistics.h"
#include "page_simulator.h"

namespace mare::policy {
namespace {

using test::any_move;
using test::any_workload;
using test::simulate;
using test::watch;

Replay replayed(const MemoryProfile& profile, const test::Move& move) {
  const DirtyCurve curve = DirtyCurve::from(profile);
  ReplayInput in;
  in.curve = &curve;
  in.total_bytes = static_cast<double>(profile.total.count);
  in.zero_bytes = static_cast<double>(profile.zero.count);
  in.link_rate = move.link_pages_per_s * (4096 + 8);
  in.downtime_limit_s = move.downtime_limit_s;
  in.sending.strategy = move.throttled ? Strategy::Throttled : Strategy::PreCopy;
  // The simulated one sends pages in no order, and looks at its clock all the time.
  HypervisorCosts costs;
  costs.written_again = 1;
  costs.pages_of_look = 0;
  return replay(in, costs);
}

struct Errors {
  std::vector<double> time;
  std::vector<double> bytes;
  std::vector<double> downtime_s;
  int wrong_verdicts = 0;
  int endless = 0;
};

Errors against_truth(std::uint64_t seed, int workloads) {
  Errors out;
  SeededRng rng(seed);
  for (int i = 0; i < workloads; ++i) {
    const auto workload = any_workload(rng);
    const auto move = any_move(rng, workload);
    const auto said = replayed(watch(workload, 4, 64), move);
    const auto truth = simulate(workload, move, 400);
    if (said.converges != truth.converged) {
      ++out.wrong_verdicts;
      ADD_FAILURE() << "workload " << i << " of seed " << seed << ": said to "
                    << (said.converges ? "end" : "go on for ever");
    } else if (!truth.converged) {
      ++out.endless;
    } else {
      out.time.push_back(std::abs(said.total_time_s / truth.total_time_s - 1));
      out.bytes.push_back(std::abs(said.sent_bytes / truth.sent_bytes - 1));
      out.downtime_s.push_back(std::abs(said.downtime_s - truth.downtime_s));
    }
  }
  return out;
}

TEST(ReplayAgainstTruth, AThousandWorkloads) {
  const Errors errors = against_truth(20261121, 1000);
  // The figures in brackets are what was seen when this was written.
  EXPECT_LE(median(errors.time), 0.01);               // 0.003
  EXPECT_LE(quantile(errors.time, 0.95), 0.05);       // 0.032
  EXPECT_LE(median(errors.bytes), 0.01);              // 0.003
  EXPECT_LE(quantile(errors.bytes, 0.95), 0.05);      // 0.032
  EXPECT_LE(median(errors.downtime_s), 0.025);        // 0.018
  EXPECT_LE(quantile(errors.downtime_s, 0.95), 0.1);  // 0.077
  // So that the verdict was tried both ways.
  EXPECT_GE(errors.endless, 50);
  EXPECT_GE(errors.time.size(), 800U);
}

TEST(ReplayAgainstTruth, TheSimulationItselfIsSound) {
  // Nothing is written: every page once, the rest of one slice in the downtime.
  test::Workload idle;
  idle.pages = 4000;
  idle.writes_per_s = 0;
  test::Move move;
  move.link_pages_per_s = 1000;
  const auto truth = simulate(idle, move, 100);
  EXPECT_TRUE(truth.converged);
  EXPECT_NEAR(truth.sent_bytes, 4000 * 4104.0 + 0.4e6, 1);
  EXPECT_NEAR(truth.total_time_s, 0.1 + 4.0 + 0.03 + 0.4e6 / 4.104e6, 0.05);
}

}  // namespace
}  // namespace mare::policy
