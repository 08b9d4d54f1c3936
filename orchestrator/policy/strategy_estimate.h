// One strategy's forecast: its replay at the middle and at both ends of D(t), what that costs the
// job, corrected by past moves.
#pragma once

#include <vector>

#include "orchestrator/policy/forecast.h"
#include "orchestrator/policy/replay.h"

namespace mare::policy {

/// What all strategies of one forecast share.
struct Situation {
  explicit Situation(const ForecastInput& forecast_input, const HypervisorCosts& hypervisor = {});

  const ForecastInput& input;
  HypervisorCosts costs;
  DirtyCurve low;
  DirtyCurve middle;
  DirtyCurve high;
  std::vector<DirtyCurve> cycles;  // DirtyCurve::each()
  std::vector<Beat> beats;         // plausible_beats(): of a guest that writes in bursts of seconds
  double first_page_s = 0;         // from the profile to the first page, as past moves had it
  double filled_by_job = 1;        // learn_filled_by_job()
  double pause_s = 0;              // the longest in which next to nothing was written
};

/// With what was seen of the VM's host: the rates at which it packs its memory, and how long an
/// emulator takes to start there.
HypervisorCosts with_host_of(const MemoryProfile& profile, HypervisorCosts costs);

/// Seconds until the first page goes out, as far as that is known without past moves. Of the
/// source's CPUs it is known how many are busy; the destination's are taken to be like them.
double usual_set_up_s(const MemoryProfile& profile, const HypervisorCosts& costs = {});

struct StrategyEstimate {
  StrategyForecast forecast;
  Sending sending;  // its knobs
  Replay replay;    // at the middle of D(t), uncorrected
};

/// Seconds that a move adds to the job's run, or to the VM's own progress without a job:
///   tightness * (downtime + slow-down * pre-copy + held back + waiting for pages + warming up)
double added_job_time(const Situation& situation, const Replay& replay);

/// The strategy with the knobs that serve the priority of the policy best.
StrategyEstimate estimate(const Situation& situation, Strategy strategy);
/// With these knobs.
StrategyEstimate estimate(const Situation& situation, const Sending& sending);

}  // namespace mare::policy
