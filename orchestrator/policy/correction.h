// What past moves teach: how far forecasts were off, by pair of hosts, strategy and program, and
// how much that varied.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "orchestrator/policy/forecast.h"

namespace mare::policy {

enum class Quantity { TotalTime, SentBytes, Downtime, AddedJobTime };
/// In the order in which they can be corrected: time goes by bytes, added job time by downtime.
inline constexpr std::array kQuantities{Quantity::SentBytes, Quantity::TotalTime,
                                        Quantity::Downtime, Quantity::AddedJobTime};

const Estimate& estimate_of(const StrategyForecast& forecast, Quantity quantity);
/// None: it was not measured.
std::optional<double> outcome_of(const PastMove& move, Quantity quantity);

/// These two hosts, in this direction.
bool between(const PastMove& move, const HostId& source, const HostId& destination);

/// corrected = factor * model + offset + set_up_s; deviation is what is left then, as a share of
/// the value plus an absolute part (1 standard deviation).
struct Correction {
  double factor = 1;
  double offset = 0;
  double set_up_s = 0;  // of total time: what the set-up takes beyond what the model counts
  double relative = 0;
  double absolute = 0;
  double width = 1;  // the prior's deviation at the model's value
  int moves = 0;     // that it was learned from
  double least = 0;  // no interval begins below it
};

/// Where the next move belongs.
struct Place {
  HostId source;
  HostId destination;
  Strategy strategy = Strategy::PreCopy;
  std::string program;
  double usual_set_up_s = 0;      // as the model counts it (usual_set_up_s())
  BytesPerSecond link_goodput{};  // 0: not known
  JobId job = {};                 // "" where it is not known
  bool start_timed = false;       // PastMove::start_timed
};

/// What a set-up takes here: a factor on what the model counts, and what is left (1 standard
/// deviation, s). Preparing the destination is the same for all strategies and programs, but not
/// for all hypervisors, CPUs and hosts: 0.07 s and 0.5 s were seen.
struct SetUp {
  double factor = 1;
  double deviation_s = 0;
};

/// From the newest moves whose set-up was seen: all of them, then those between these two hosts,
/// each time by the median, in which what was known before counts as some moves of its own.
SetUp learn_set_up(const std::vector<PastMove>& past, const Place& place);

/// Starts from the defaults and goes from all moves of the strategy, over those over a link as fast
/// and those between the two hosts, to those of the same program there: at each step the median,
/// weighed against what was known before it by the number of moves. A move whose forecast was
/// unsure counts less. Bytes are corrected by a factor; downtime of a live move by an offset (what
/// a switch costs beside its pages does not grow with them), of a paused one by a factor; added job
/// time by an offset (a job that stood still for 1.5 or for 15 s took 0.2 s to come to its pace
/// again on one machine and 1 s on another, both times); total time by what the set-up was seen to
/// take, and the rest of it, without what bytes more or fewer than the model's took on the link, by
/// a line, as ending a move takes as long for a small VM as for a large one. That part, and added
/// job time, starts from the moves of all strategies but throttling (and post-copy). At the end
/// bytes and added job time go half of the way to what one move of the same job over a link as fast
/// was off by, whatever its hosts, and further with more of them. Offsets grow with the value as
/// the prior's deviation does, so what a move over a slow link was off by is not added whole to one
/// over a fast link; and a few moves are believed to be off by a few of those deviations only, one
/// of another job by none. What is left is weighed against the prior's deviation, which is wider
/// where forecasts of all strategies were off by more than it says (a noisy machine). `model`: the
/// model's value for the move to come.
Correction learn(const std::vector<PastMove>& past, const Place& place, Quantity quantity,
                 double model);

/// Of total time, which is learned beside its bytes: with what those of `bytes` that the model did
/// not count take on the link, and with how far they are unsure.
Correction with_bytes(Correction time, const Correction& of_bytes, const Estimate& bytes,
                      BytesPerSecond link_goodput);

/// `low` and `high`: what the model says at the ends of the cycles' range. The value is never below
/// 0. Nor is an interval, but that of added job time: what a job lost is told by its pace before
/// and after, and one that lost nothing may have been a little faster.
Estimate apply(const Correction& correction, double model, double low, double high);

}  // namespace mare::policy
