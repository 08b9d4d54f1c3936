// How often a job's state is worth being saved. Pure.
#pragma once

#include <optional>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/units.h"
#include "orchestrator/model/checkpoint.h"

namespace mare::policy {

/// Time of work between two checkpoints that loses least, to first order.
///   t = sqrt(2 d M)
/// d: what a checkpoint costs the job (s), M: mean time between failures of the job (s).
/// J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17(9), 1974.
Seconds young_interval(Seconds cost, Seconds mtbf);

/// The same to higher order; it stays right when a checkpoint costs much.
///   t = sqrt(2 d M) (1 + 1/3 sqrt(d / 2M) + 1/9 (d / 2M)) - d   if d < 2M,   t = M   otherwise
/// J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS
/// 22(3), 2006, Eq. 37.
Seconds daly_interval(Seconds cost, Seconds mtbf);

/// What a job takes with checkpoints and failures that come by chance, as a multiple of its work.
///   T / work = M / t e^(R/M) (e^((t + d)/M) - 1)
/// R: time from a failure until the job goes on (s). Daly 2006, Eq. 20. Both intervals above are
/// estimates of the t at which this is least.
double slowdown(Seconds interval, Seconds cost, Seconds mtbf, Seconds restart);

/// Mean time between failures of one host, from what was seen and from what was believed before.
///   M = (M0 + T) / (1 + n)
/// n failures in T seconds of all hosts together. M0: the belief before anything was seen, worth
/// one failure (the mean of a Gamma(1, M0) prior on the rate, updated by a Poisson count).
Seconds host_mtbf(int failures, Seconds observed, Seconds believed);

/// What is known when the next checkpoint of a job is to be timed.
struct CheckpointClock {
  CheckpointPlan plan;
  WallTime since{0};    // beginning of the last one, or else of the job
  Seconds cost{0};      // mean of what past ones cost the job
  Seconds duration{0};  // mean of what past ones took from beginning to end
  Seconds mtbf{0};      // of one host
  int hosts = 1;        // that the job is on: one that fails ends it
};
/// When the next one is to begin; nothing if none is to. Never before the last one can have ended:
/// what takes longer than its interval follows itself at once, and is never there twice.
std::optional<WallTime> next_checkpoint(const CheckpointClock& clock);

}  // namespace mare::policy
