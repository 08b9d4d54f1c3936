// What plan.drain, plan.layout and plan.rebalance share: children that forecast moves, a few at a
// time, and then a sentence. Nothing moves; a restart in the middle goes on with the children that
// there are.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/engine/children.h"

namespace mare::engine {

class Planning : public Task {
 public:
  using Task::Task;

  void enter(bool recovered) override;
  void on_cancel() override { advance(); }
  void on_child_ended(const Operation&) override { advance(); }

 protected:
  // As many as a forecast's patience bears that wait for each other's bursts.
  static constexpr std::size_t kAtOnce = 4;

  struct Asked {
    std::vector<Operation> children;
    std::size_t running = 0;  // of them
  };
  /// Asks for more, or makes an end. Called whenever a child has ended; not after a cancel.
  virtual void plan_on(Asked asked) = 0;

  void advance();
  void made(const std::string& words, const Also& also = {});
  void give_up(const Error& error);
};

}  // namespace mare::engine
