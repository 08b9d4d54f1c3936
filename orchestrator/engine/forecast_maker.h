// What a forecast is made of, gathered from both hosts at once, and its making. Keeps nothing: the
// operation that asked stores the forecast together with its own state. The engine's thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "orchestrator/engine/context.h"
#include "orchestrator/policy/forecast.h"

namespace mare::engine {

struct ForecastQuestion {
  OperationId id;
  Vm vm;  // its host is the source
  HostId destination;
  MovePolicy policy;
  /// How old a measurement of the link may be. A move begins with a fresh one: a burst is nothing
  /// beside it, and a link may have changed.
  std::chrono::nanoseconds link_age{0};
  /// Of the trough that it is in, or else of the next one that begins within this time, if there is
  /// one.
  std::optional<Seconds> trough_within = {};
  /// What the same move tried: no such strategy again, and nothing that was seen before.
  std::vector<EarlierTry> tried = {};
};

class ForecastMaker : public std::enable_shared_from_this<ForecastMaker> {
 public:
  using Then = std::function<void(Result<Forecast>)>;

  /// Answers once, at the latest after Settings::forecast_timeout. Unsupported: the source has no
  /// dirty-page log, or links can't be measured. Unavailable: a host did not answer in time.
  static void make(Context& context, ForecastQuestion question, Then then);

 private:
  ForecastMaker(Context& context, ForecastQuestion question, Then then)
      : context_(context), question_(std::move(question)), then_(std::move(then)) {}

  void begin();
  void ask_source();
  void ask_memory(const std::shared_ptr<Driver>& driver);
  void ask_destination();
  void ask_link();
  void gathered();
  void take_trough(MemoryProfile& profile);
  void compute(policy::ForecastInput input);
  Result<policy::ForecastInput> input() const;
  std::vector<policy::Offer> offers() const;
  std::string missing() const;
  void answer(Result<Forecast> answer);
  void give_up(const Error& error) { answer(error); }

  Context& context_;
  const ForecastQuestion question_;
  Then then_;  // empty once it was called
  std::optional<HostFacts> source_;
  std::optional<HostFacts> destination_;
  std::optional<MemoryProfile> profile_;
  std::optional<LinkMeasurement> link_;
  std::string moment_;  // of which trough it is, in a sentence
};

}  // namespace mare::engine
