#include "orchestrator/policy/overrun.h"

#include <algorithm>

#include "orchestrator/policy/choice.h"

namespace mare::policy {
namespace {

// The interval's end is passed by one move in forty by chance: so the limit is well beyond it, and
// a short move is not given up for a second or two.
constexpr double kFar = 1.5;
constexpr double kFar_s = 5;
/// Rounds that shrink by less than this are as large as they were.
constexpr double kSmaller = 0.9;
constexpr std::size_t kTriesToConverge = 2;

/// Do its rounds get smaller? Two at least must be there to tell; till then it may be the link
/// alone that is slower than it was, and nothing would be gained by beginning anew.
bool shrinks(const std::vector<Round>& rounds) {
  if (rounds.size() < 4) return true;
  const auto begin = rounds.begin() + 1;
  const auto end = rounds.end() - 1;
  const auto half = begin + (end - begin) / 2;
  const auto less = [](const Round& a, const Round& b) { return a.sent < b.sent; };
  const auto before = static_cast<double>(std::min_element(begin, half, less)->sent.count);
  const auto after = static_cast<double>(std::min_element(half, end, less)->sent.count);
  return after < kSmaller * before;
}

}  // namespace

bool must_converge(Strategy strategy) {
  return strategy == Strategy::PreCopy || strategy == Strategy::RateControlled ||
         strategy == Strategy::Throttled || strategy == Strategy::Compressed;
}

bool is_overrun(const StrategyForecast& said, Seconds elapsed, const std::vector<Round>& rounds) {
  if (!must_converge(said.strategy) || !said.converges) return false;
  const double most = said.total_time_s.high;
  return elapsed.count() > std::max(kFar * most, most + kFar_s) && !shrinks(rounds);
}

std::string overrun_words(const StrategyForecast& said, Seconds elapsed, std::size_t rounds) {
  return std::string(to_string(said.strategy)) + " was to take " +
         say_time(said.total_time_s.value) + " (at most " + say_time(said.total_time_s.high) +
         ") and had not ended after " + say_time(elapsed.count()) + ", in " +
         std::to_string(rounds) + (rounds == 1 ? " round" : " rounds");
}

bool may_be_tried_again(const std::vector<EarlierTry>& tried) {
  return tried.size() < kTriesToConverge;
}

std::string why_not_again(const std::vector<EarlierTry>& tried, Strategy strategy) {
  for (const auto& one : tried) {
    if (one.strategy != strategy) continue;
    return "it was tried: " + say_time(one.said_s.value) + " were forecast, and after " +
           say_time(Seconds{one.lasted}.count()) + " it had not ended";
  }
  if (may_be_tried_again(tried) || !must_converge(strategy)) return "";
  return "it must converge, and " + std::to_string(tried.size()) + " tries did not";
}

}  // namespace mare::policy
