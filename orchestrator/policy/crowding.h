// What a mover leaves of a link because it waits for a CPU, and what past moves tell of that.
//
// What sends and what receives want CPU time beside the guests. How much differs from machine to
// machine: between the same busy guests first rounds filled 0.9 of a link of 1 Gbit/s on some, and
// 0.5 to 0.7 on others. So it is learned.
#pragma once

#include <optional>
#include <vector>

#include "orchestrator/policy/forecast.h"
#include "orchestrator/policy/replay.h"

namespace mare::policy {

/// Of the time, 0 to 1: so many CPUs are all busy, by chance, with what wants `wanted` of a host's.
double all_busy(double wanted, double host_cpus, double cpus);

/// Share of the link's time, 0 to 0.9, in which all CPUs of the host are busy with others while
/// what sends wants one, which it wants for so much of the time as the link is fast
/// (HypervisorCosts::mover_rate). 0 where it is not known how many CPUs there are.
double unfilled_share(double busy_cpus, double host_cpus, double link_rate,
                      const HypervisorCosts& costs);

/// The same of a move by that strategy that is to come, as far as it is known without past moves: a
/// guest that stands still wants no CPU.
double usual_unfilled_share(const MemoryProfile& profile, BytesPerSecond link, Strategy strategy,
                            const HypervisorCosts& costs = {});

/// What the first round of a move was seen to leave of the link, 0 to 1. None where it tells
/// nothing of the CPUs: it was compressed, slow by intent, or too short.
std::optional<double> seen_unfilled_share(const MemoryProfile& profile, BytesPerSecond link,
                                          const MovePolicy& policy, const ForecastOutcome& outcome,
                                          const HypervisorCosts& costs = {});

/// A factor, 1/4 to 4, on what the model counts: by least squares over the newest moves of which
/// both are known (PastMove), all of them, then those between these two hosts. What was known
/// before counts as one move on a host that is crowded enough to leave a tenth of the link.
double learn_crowding(const std::vector<PastMove>& past, const HostId& source,
                      const HostId& destination);

/// Of the link's time that live rounds are said to fill, so much they did fill in moves of the same
/// job over a link as fast: messages of the job take their part of a link, and its ranks' waiting
/// one of the CPUs. 1 where there were none; one move is believed half, n of them n / (n + 1).
/// `crowding`: learn_crowding()'s factor.
double learn_filled_by_job(const std::vector<PastMove>& past, const JobId& job, BytesPerSecond link,
                           double crowding);

/// With the rate of a mover as that factor has it.
HypervisorCosts with_crowding(double factor, HypervisorCosts costs);

}  // namespace mare::policy
