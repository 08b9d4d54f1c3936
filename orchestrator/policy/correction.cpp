#include "orchestrator/policy/correction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "orchestrator/policy/statistics.h"

namespace mare::policy {

bool between(const PastMove& move, const HostId& source, const HostId& destination) {
  return move.source == source && move.destination == destination;
}

namespace {

// Weight of what was known before, in moves.
constexpr double kPriorMoves = 1.5;
constexpr double kPriorSpreadMoves = 4;
// The same against moves of one job: of 91 and 73 second moves in six runs of the bench, bytes
// were off by 7.1% instead of 9.9 at the 95th percentile, added job time by 0.7% of the job's
// length instead of 1.1. (Total time became worse by it, downtime neither.)
constexpr double kPriorLikeMoves = 1;
// What moves of all strategies tell of the deviations of one of them: how noisy the machine is.
// Against them, those of the table count as so many moves.
constexpr double kPriorNoiseMoves = 8;
// Most of what downtimes differ by is chance. Of 741 moves in nine runs of the bench so much of
// what was learned would have been better than all of it: off by 21.2 ms in the mean instead
// of 21.6, and at the 95th percentile by less, or the same, in eight of the nine.
constexpr double kDowntimeTaken = 0.75;
// The slope of time over the model's time needs moves of different sizes to be seen at all.
constexpr double kPriorSlopeMoves = 4;
// Two of nearly one size, each off by 10%, make any slope: 1.48 s said, 1.68 measured, and 1.78 and
// 1.63, took 17% off a move of 15.6 s.
constexpr double kOtherSize = 2;
constexpr std::size_t kEnoughMoves = 5;
// Older ones tell of another load, another version.
constexpr std::size_t kMostMoves = 40;
// Beyond these something else went wrong than the model.
constexpr double kLeastFactor = 0.25;
constexpr double kMostFactor = 4;
constexpr double kMostSetUpFactor = 10;
// So many of the prior's deviations is a move believed to be off by; n moves that agree, n times
// that. One that went wrong for a reason of its own must not spoil the next.
constexpr double kBelieved = 3;

/// Deviations before anything was learned: a share of the value, and seconds or bytes.
struct Prior {
  double relative = 0;
  double absolute = 0;
};

Prior prior_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::TotalTime:
      return {0.04, 0.05};
    case Quantity::SentBytes:
      return {0.03, 0.25e6};
    case Quantity::Downtime:
      return {0.10, 0.025};
    case Quantity::AddedJobTime:
      return {0.30, 0.15};
  }
  return {};
}

/// One standard deviation at that value.
double width_of(const Prior& prior, double value) {
  return std::hypot(prior.relative * value, prior.absolute);
}

bool paused(Strategy strategy) {
  return strategy == Strategy::StopAndCopy || strategy == Strategy::CheckpointRestart;
}

bool by_factor(Quantity quantity, Strategy strategy) {
  return quantity == Quantity::SentBytes || (quantity == Quantity::Downtime && paused(strategy));
}

/// What the model said before corrections of its day; without a record of that, what was said.
double model_of(const Estimate& estimate) {
  return estimate.model > 0 ? estimate.model : estimate.value;
}

struct Pair {
  const PastMove* move = nullptr;
  double model = 0;
  double actual = 0;
  double weight = 1;  // 0 to 1
};

/// A forecast that was unsure for reasons of its own (a guest whose writing varies, rounds near
/// their end) tells little of what all moves have in common. So much of a deviation counts half.
double weight_of(const Estimate& said, double model, Quantity quantity) {
  const Prior prior = prior_of(quantity);
  const double fair = std::hypot(2.5 * prior.relative * model, 10 * prior.absolute);
  const double unsure = std::max(0.0, said.high - said.low) / (2 * kTwoSided95);
  return 1 / (1 + std::pow(unsure / fair, 2));
}
// Below it, a move says nothing of slopes and spreads.
constexpr double kSure = 0.3;
// A move whose bytes were off by more than this share made other rounds than were said, with other
// waits between them (a throttled CPU holds up looks for up to a second): it counts half.
constexpr double kOtherRounds = 0.1;

/// How long a guest is throttled is chance, what a job lost by missing pages is post-copy's alone,
/// and one that is paused all along is off by what sending all of it is.
bool tells_of_others(Strategy strategy, Quantity quantity) {
  if (strategy == Strategy::Throttled) return false;
  if (quantity == Quantity::Downtime && paused(strategy)) return false;
  return quantity != Quantity::AddedJobTime || strategy != Strategy::PostCopy;
}

/// What it took beside its set-up, which is learned apart, and beside the bytes that the model did
/// not count: how many rounds there were is chance. (Of one throttled move of 33 s, where 55 were
/// said, five others were learned to take a tenth less than their own bytes need.)
double time_beside(const PastMove& move) {
  double out = move.total_time_s;
  if (move.set_up_s) out -= *move.set_up_s - move.usual_set_up_s;
  const double more = move.sent_bytes - model_of(move.forecast.sent_bytes);
  if (move.link_goodput.value > 0 && move.sent_bytes > 0) out -= more / move.link_goodput.value;
  return out;
}

/// How much its time tells of what all moves have in common, 0 to 1.
double weight_of_time(const PastMove& move) {
  const double model = model_of(move.forecast.sent_bytes);
  if (!(model > 0) || !(move.sent_bytes > 0)) return 1;
  return 1 / (1 + std::pow((move.sent_bytes / model - 1) / kOtherRounds, 2));
}

/// Newest first. What a move costs beside its pages is much the same for all strategies, so where
/// there is no move of this one, `any` strategy's tell something of its time, and of its job's.
std::vector<Pair> usable(const std::vector<PastMove>& past, const Place& place, Quantity quantity,
                         bool any) {
  std::vector<Pair> out;
  for (auto move = past.rbegin(); move != past.rend() && out.size() < kMostMoves; ++move) {
    const bool same = move->forecast.strategy == place.strategy;
    if (!same && !(any && tells_of_others(move->forecast.strategy, quantity))) continue;
    if (!move->forecast.converges) continue;
    const auto actual = quantity == Quantity::TotalTime ? std::optional(time_beside(*move))
                                                        : outcome_of(*move, quantity);
    const Estimate& said = estimate_of(move->forecast, quantity);
    const double model = model_of(said);
    if (!actual || !std::isfinite(*actual) || !(model >= 0)) continue;
    if (by_factor(quantity, place.strategy) && !(model > 0 && *actual > 0)) continue;
    const double as_said = quantity == Quantity::TotalTime ? weight_of_time(*move) : 1;
    out.push_back({&*move, model, *actual, as_said * weight_of(said, model, quantity)});
  }
  return out;
}

std::vector<Pair> sure_of(const std::vector<Pair>& pairs) {
  std::vector<Pair> out;
  for (const auto& pair : pairs) {
    if (pair.weight >= kSure) out.push_back(pair);
  }
  return out;
}

/// The value with half of the weight on either side.
double weighted_median(std::vector<std::pair<double, double>> values) {
  std::sort(values.begin(), values.end());
  double half = 0;
  for (const auto& [value, weight] : values) half += weight / 2;
  double before = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    before += values[i].second;
    if (before > half * (1 + 1e-9)) return values[i].first;
    if (before >= half * (1 - 1e-9) && i + 1 < values.size()) {
      return (values[i].first + values[i + 1].first) / 2;
    }
  }
  return 0;
}

/// Theil and Sen's slope: the median over pairs of moves of different sizes, near 1 while there are
/// few of them.
double slope_of(const std::vector<Pair>& all) {
  std::vector<double> slopes;
  const std::vector<Pair> pairs = sure_of(all);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (std::size_t j = i + 1; j < pairs.size(); ++j) {
      const auto& [less, more] = std::minmax(
          pairs[i], pairs[j], [](const Pair& a, const Pair& b) { return a.model < b.model; });
      if (!(more.model > kOtherSize * less.model)) continue;
      slopes.push_back((more.actual - less.actual) / (more.model - less.model));
    }
  }
  if (slopes.empty()) return 1;
  // So many moves would make that many pairs.
  const double n = std::sqrt(2 * static_cast<double>(slopes.size()));
  const double slope = std::clamp(median(slopes), kLeastFactor, kMostFactor);
  return (n * slope + kPriorSlopeMoves) / (n + kPriorSlopeMoves);
}

/// Of like speed. What is off by a constant, as unpacking where the CPUs limit a move and not the
/// link, is another constant over another link.
bool same_link(const PastMove& move, const Place& place) {
  return may_be_one_link(place.link_goodput, move.link_goodput);
}

/// Of the same job, over a link as fast, whatever the hosts.
bool alike(const PastMove& move, const Place& place) {
  return !place.job.value.empty() && move.job == place.job && same_link(move, place);
}

/// How near a past move is: over a link as fast, also between the same hosts, also of the same
/// program.
enum Nearness : int { kAny, kLink, kHosts, kProgram };
constexpr std::array kFarToNear{kAny, kLink, kHosts, kProgram};

Nearness nearness(const PastMove& move, const Place& place) {
  if (!same_link(move, place)) return kAny;
  if (!between(move, place.source, place.destination)) return kLink;
  return move.program == place.program ? kProgram : kHosts;
}

/// The square of the scale of the prior's deviation by what forecasts were off by, in units of it,
/// where `before` is what is known beside them and counts as so many.
double scale_squared(const std::vector<double>& off, double before, double so_many) {
  double squares = 0;
  if (!off.empty()) {
    std::vector<double> sizes;
    for (const double one : off) sizes.push_back(std::abs(one));
    // The middle is known only so well, and the interval has to hold outliers, too: what moves are
    // off by has longer tails than a normal distribution.
    const double by_most = quantile(sizes, 0.9) / 1.645;
    const double by_nearly_all = quantile(sizes, 0.95) / kTwoSided95;
    squares = std::pow(std::max({median(sizes) / kHalfWithin, by_most, by_nearly_all}), 2);
  }
  const double n = static_cast<double>(off.size());
  return (n * squares + before * so_many) / (n + so_many);
}

/// How much noisier this machine is than those by which the prior was found, squared, at least 1:
/// by what the newest moves of all strategies were off from what was said of them.
double noise_squared(const std::vector<PastMove>& past, Quantity quantity, const Prior& prior) {
  std::vector<double> off;
  for (auto move = past.rbegin(); move != past.rend() && off.size() < kMostMoves; ++move) {
    const Estimate& said = estimate_of(move->forecast, quantity);
    const auto actual = outcome_of(*move, quantity);
    if (!move->forecast.converges || !actual || !std::isfinite(*actual)) continue;
    if (weight_of(said, model_of(said), quantity) < kSure) continue;
    off.push_back((*actual - said.value) / width_of(prior, said.value));
  }
  // A single one may have gone wrong for a reason of its own.
  if (off.size() < kEnoughMoves) return 1;
  return std::max(1.0, scale_squared(off, 1, kPriorNoiseMoves));
}

/// In units of the prior's own width at that value: one number for small and large moves.
void spread(Correction& out, const std::vector<Pair>& pairs, const Prior& prior, double noise) {
  std::vector<double> residuals;
  for (const auto& pair : pairs) {
    const double offset = out.offset * width_of(prior, pair.model) / out.width;
    const double said = out.factor * pair.model + offset;
    residuals.push_back((pair.actual - said) / width_of(prior, said));
  }
  const double scale = std::sqrt(scale_squared(residuals, noise, kPriorSpreadMoves));
  out.relative = prior.relative * scale;
  out.absolute = prior.absolute * scale;
}

}  // namespace

const Estimate& estimate_of(const StrategyForecast& forecast, Quantity quantity) {
  switch (quantity) {
    case Quantity::TotalTime:
      return forecast.total_time_s;
    case Quantity::SentBytes:
      return forecast.sent_bytes;
    case Quantity::Downtime:
      return forecast.downtime_s;
    case Quantity::AddedJobTime:
      break;
  }
  return forecast.added_job_time_s;
}

std::optional<double> outcome_of(const PastMove& move, Quantity quantity) {
  switch (quantity) {
    case Quantity::TotalTime:
      return move.total_time_s;
    case Quantity::SentBytes:
      return move.sent_bytes;
    case Quantity::Downtime:
      return move.downtime_s;
    case Quantity::AddedJobTime:
      break;
  }
  return move.added_job_time_s;
}

namespace {

/// The nearest moves, once there are enough of them to tell.
std::vector<Pair> nearest(const std::vector<Pair>& pairs, const Place& place) {
  for (const Nearness level : {kProgram, kHosts, kLink}) {
    std::vector<Pair> here;
    for (const auto& pair : pairs) {
      if (nearness(*pair.move, place) >= level) here.push_back(pair);
    }
    if (here.size() >= kEnoughMoves) return here;
  }
  return pairs;
}

}  // namespace

SetUp learn_set_up(const std::vector<PastMove>& past, const Place& place) {
  std::vector<const PastMove*> seen;
  for (auto move = past.rbegin(); move != past.rend() && seen.size() < kMostMoves; ++move) {
    // What the model had without a start that was timed has another factor.
    if (move->start_timed != place.start_timed) continue;
    if (move->set_up_s && *move->set_up_s > 0 && move->usual_set_up_s > 0) seen.push_back(&*move);
  }
  SetUp out;
  for (const bool here : {false, true}) {
    std::vector<std::pair<double, double>> factors;
    for (const auto* move : seen) {
      if (here && !between(*move, place.source, place.destination)) continue;
      factors.emplace_back(
          std::clamp(*move->set_up_s / move->usual_set_up_s, kLeastFactor, kMostSetUpFactor), 1);
    }
    if (factors.empty()) continue;
    factors.emplace_back(out.factor, kPriorMoves);
    out.factor = weighted_median(std::move(factors));
  }
  std::vector<double> off;
  for (const auto* move : seen) {
    off.push_back(std::abs(*move->set_up_s - out.factor * move->usual_set_up_s));
  }
  if (!off.empty()) out.deviation_s = median(off) / kHalfWithin;
  return out;
}

namespace {

/// What moves were off by, each with its weight.
struct Misses {
  std::vector<std::pair<double, double>> widths;  // in the prior's widths, or as the factor's log
  std::vector<std::pair<double, double>> seconds;
  double n = 0;     // sum of the weights
  double most = 0;  // is believed, in `widths`
};

/// Of those that count, beside `slope` times the model; without a slope by a factor on it.
template <typename Counts>
Misses misses(const std::vector<Pair>& from, std::optional<double> slope, const Prior& prior,
              const Counts& counts) {
  Misses out;
  for (const auto& pair : from) {
    if (!counts(*pair.move)) continue;
    const double beside = pair.actual - slope.value_or(1) * pair.model;
    out.widths.emplace_back(
        slope ? beside / width_of(prior, pair.model)
              : std::log(std::clamp(pair.actual / pair.model, kLeastFactor, kMostFactor)),
        pair.weight);
    out.seconds.emplace_back(beside, pair.weight);
    out.n += pair.weight;
  }
  out.most = kBelieved * out.n * (slope ? 1 : prior.relative);
  return out;
}

}  // namespace

Correction learn(const std::vector<PastMove>& past, const Place& place, Quantity quantity,
                 double model) {
  const bool factor = by_factor(quantity, place.strategy);
  const bool line = quantity == Quantity::TotalTime;
  const Prior prior = prior_of(quantity);
  const auto pairs = usable(past, place, quantity, false);
  Correction out;
  if (line) out.factor = slope_of(pairs);
  double known = 0;    // log of the factor, or the offset in the prior's widths,
  double known_s = 0;  // and as it is
  const auto off_of = [&](const std::vector<Pair>& from, double slope, const auto& counts) {
    return misses(from, factor ? std::nullopt : std::optional(slope), prior, counts);
  };
  const auto weigh = [&](const std::vector<Pair>& from, Nearness level, double slope) {
    Misses off =
        off_of(from, slope, [&](const PastMove& move) { return nearness(move, place) >= level; });
    if (!(off.n > 0)) return;
    // What was known counts as so many moves of its own: one move that went wrong for a reason of
    // its own changes nothing, and two that agree do.
    off.widths.emplace_back(known, kPriorMoves);
    known = std::clamp(weighted_median(off.widths), -off.most, off.most);
    off.seconds.emplace_back(known_s, kPriorMoves);
    known_s = weighted_median(off.seconds);
  };
  // What was unsure of another strategy says nothing of this one. (Of the downtimes of 332 moves on
  // slow machines most were said too short, by 15 to 21 ms in the median, by every live strategy
  // alike: in the mean, none counted above 200 ms, they are off by 39 ms so, and by 43 where each
  // learns from its own alone.)
  if (line || quantity == Quantity::AddedJobTime || (quantity == Quantity::Downtime && !factor))
    weigh(sure_of(usable(past, place, quantity, true)), kAny, 1);
  for (const Nearness level : kFarToNear) weigh(pairs, level, out.factor);
  if (quantity == Quantity::SentBytes || quantity == Quantity::AddedJobTime) {
    const Misses off =
        off_of(pairs, out.factor, [&](const PastMove& move) { return alike(move, place); });
    if (off.n > 0) {
      // Two moves of one job differ by less than jobs do: one is believed half.
      const double share = off.n / (off.n + kPriorLikeMoves);
      const double alone = std::clamp(weighted_median(off.widths), -off.most, off.most);
      known += share * (alone - known);
      known_s += share * (weighted_median(off.seconds) - known_s);
    }
  }
  if (quantity == Quantity::Downtime) {
    known *= kDowntimeTaken;
    known_s *= kDowntimeTaken;
  }
  out.width = width_of(prior, model);
  if (factor) {
    out.factor = std::exp(known);
  } else {
    // What a slow link took more is not added whole to a fast link's move, nor what was off by a
    // constant over a fast one, many times that, to a slow link's.
    const double scaled = known * out.width;
    out.offset = scaled * known_s > 0
                     ? std::copysign(std::min(std::abs(scaled), std::abs(known_s)), scaled)
                     : 0.0;
  }
  out.moves = static_cast<int>(pairs.size());
  if (quantity == Quantity::AddedJobTime) out.least = -std::numeric_limits<double>::infinity();
  spread(out, nearest(sure_of(pairs), place), prior, noise_squared(past, quantity, prior));
  if (line) {
    const SetUp set_up = learn_set_up(past, place);
    out.set_up_s = (set_up.factor - 1) * place.usual_set_up_s;
    out.absolute = std::hypot(out.absolute, set_up.deviation_s);
  }
  return out;
}

Correction with_bytes(Correction time, const Correction& of_bytes, const Estimate& bytes,
                      BytesPerSecond link_goodput) {
  if (!(link_goodput.value > 0)) return time;
  time.offset += (bytes.value - bytes.model) / link_goodput.value;
  // Time's own deviation before anything was learned has the usual one of bytes in it.
  const double unsure = std::hypot(of_bytes.relative * bytes.value, of_bytes.absolute);
  const double usual = width_of(prior_of(Quantity::SentBytes), bytes.value);
  const double more = std::sqrt(std::max(0.0, unsure * unsure - usual * usual));
  time.absolute = std::hypot(time.absolute, more / link_goodput.value);
  return time;
}

Estimate apply(const Correction& correction, double model, double low, double high) {
  Estimate out;
  out.model = model;
  const auto corrected = [&correction](double value) {
    return std::max(0.0, correction.factor * value + correction.offset + correction.set_up_s);
  };
  out.value = corrected(model);
  const double noise =
      kTwoSided95 * std::hypot(correction.relative * out.value, correction.absolute);
  const double below = std::max(0.0, out.value - corrected(std::min({low, model, high})));
  const double above = std::max(0.0, corrected(std::max({low, model, high})) - out.value);
  out.low = std::max(correction.least, out.value - std::hypot(below, noise));
  out.high = out.value + std::hypot(above, noise);
  return out;
}

}  // namespace mare::policy
