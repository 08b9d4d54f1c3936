// Asks the guests of a job whether every rank is in a collective or just past one, until it is so
// or the time is over. It only looks: nothing is touched, and nothing of it survives a crash.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "orchestrator/engine/context.h"

namespace mare::engine {

/// What one round of questions found, for the decision. Pure.
struct SafePointView {
  Result<SafePointStatus> status;
  Milliseconds age{0};  // at most: since it was asked for
};
/// Hit: all ranks of all guests are in a collective, or out of it for at most `window`. Absent: no
/// guest has a rank that announces any, or one can't tell at all. Missed: neither, yet.
SafePoint judge(const std::vector<SafePointView>& views, Milliseconds window);

class SafePointSearch : public std::enable_shared_from_this<SafePointSearch> {
 public:
  struct Found {
    SafePoint point = SafePoint::Missed;
    std::string words;  // for the history
  };
  /// `then` is called once, on the engine's thread, unless this is destroyed before.
  SafePointSearch(Context& context, JobId job, std::vector<GuestAddress> guests, Seconds longest,
                  std::function<void(const Found&)> then);
  void begin();

 private:
  void ask();
  void answered(std::size_t which, int round, Result<SafePointStatus> status);
  void all_answered();
  void end(SafePoint point, const std::string& words);
  Milliseconds waited() const;
  std::string who_is_late() const;

  Context& context_;
  const JobId job_;
  const std::vector<GuestAddress> guests_;
  const Seconds longest_;
  std::function<void(const Found&)> then_;  // none: it has ended
  MonotonicTime began_{0};
  MonotonicTime asked_{0};
  int round_ = 0;
  std::size_t open_ = 0;  // guests that have not answered in this round
  std::vector<SafePointView> views_;
};

}  // namespace mare::engine
