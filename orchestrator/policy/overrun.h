// When a migration that goes on longer than was forecast is to be given up for another strategy,
// and which are left then (docs/adr/0017). Pure.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/model/entities.h"

namespace mare::policy {

/// Does it end by itself only if what is left after a round fits into the downtime?
bool must_converge(Strategy strategy);

/// Will it not keep its word any more? `said`: what was forecast of it; `elapsed`: since its start,
/// without what it waited for others; `rounds`: with the one that goes on, which is left out, as is
/// the first, which sends all there is. True beyond 1.5 times the high end of its interval (and
/// 5 s more than that) if the later half of its rounds sent no less than the earlier one. Never of
/// one that was not to end by converging.
bool is_overrun(const StrategyForecast& said, Seconds elapsed, const std::vector<Round>& rounds);

/// "compressed was to take 4.20 s (at most 5.00 s) and had not ended after 10.8 s, in 4 rounds".
std::string overrun_words(const StrategyForecast& said, Seconds elapsed, std::size_t rounds);

/// Whether what was given up so often may be given up once more.
bool may_be_tried_again(const std::vector<EarlierTry>& tried);

/// Why a move that was given up so often must not take this strategy now; "" if it may. What was
/// tried is out, and after two tries all that must converge.
std::string why_not_again(const std::vector<EarlierTry>& tried, Strategy strategy);

}  // namespace mare::policy
