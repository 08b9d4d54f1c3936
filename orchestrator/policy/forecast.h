// What a move will cost, for every strategy, and which to take. Pure arithmetic on values: the
// engine gathers the input, stores the output, and scores it when the move is over.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/model/forecast.h"

namespace mare::policy {

/// One forecast and what came of it, from the same site.
struct PastMove {
  HostId source;
  HostId destination;
  std::string program;  // of the job's rank; "" without a job
  JobId job;            // "" where it is not known
  StrategyForecast forecast;
  BytesPerSecond link_goodput;  // as it was measured before the move
  double total_time_s = 0;
  double sent_bytes = 0;
  std::optional<double> downtime_s;
  std::optional<double> added_job_time_s;
  std::optional<double> set_up_s;  // until its first page, as it was seen
  double usual_set_up_s = 0;       // and as the model counts it, which knows of no past moves
  bool start_timed = false;        // by how long an emulator takes to start on its host
  std::optional<double> unfilled;  // seen_unfilled_share()
  double usual_unfilled = 0;       // usual_unfilled_share()
};

/// The job whose rank runs on the VM.
struct JobCoupling {
  std::string program;
  int ranks = 1;
  /// Share of a rank's stall that the job feels: 1 when all wait for it (the usual MPI program).
  double tightness = 1;
  JobId id = {};
};

/// A strategy that both hosts offer, or why they don't.
struct Offer {
  Strategy strategy = Strategy::PreCopy;
  bool offered = false;
  std::string why_not;
};

struct ForecastInput {
  HostId source;
  HostId destination;
  MovePolicy policy;
  MemoryProfile profile;
  LinkMeasurement link;
  int vcpus = 1;
  std::vector<Offer> offers;  // one for each strategy
  std::optional<JobCoupling> job;
  std::vector<PastMove> past;    // newest last
  double destination_speed = 1;  // relative_speed()
};

/// nu_j / nu_i of Neves 2009, Eq. 5.2: how fast the destination computes against the source, by
/// what both tell (HostFacts::cpu_speed). 1 where one tells nothing, and where they differ by less
/// than a tenth: measurements of the same host differ by some percent.
double relative_speed(double source, double destination);

struct Verdict {
  std::vector<StrategyForecast> strategies;  // in the order of the offers
  std::optional<Strategy> choice;            // none: do not move
  Sending sending;
  std::string reason;  // one sentence with its numbers
};

/// Replays each offered strategy over the profile's D(t), corrects it by past moves, and chooses by
/// the policy.
Verdict forecast(const ForecastInput& input);

}  // namespace mare::policy
