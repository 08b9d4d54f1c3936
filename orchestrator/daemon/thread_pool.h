// The executor of the real daemon: a fixed number of threads, at most a few calls of one lane at a
// time, so that a host that hangs can't take them all. Urgent lanes go first and have some threads
// for themselves: a host is fenced for what is not heard of it in time, so its heartbeat must not
// wait behind hundred guests that boot.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "orchestrator/engine/engine.h"

namespace mare::daemon {

class ThreadPool final : public engine::Executor {
 public:
  /// `for_urgent` threads come on top of `threads`.
  ThreadPool(int threads, int per_lane, int for_urgent);
  /// Waits for the calls that run; those that wait are dropped (their operations are taken up again
  /// later).
  ~ThreadPool() override;

  void run(const std::string& lane, std::function<void()> work) override;

 private:
  struct Lane {
    std::deque<std::function<void()>> waiting;
    int running = 0;
  };
  void work(bool only_urgent);
  bool may_take(bool only_urgent) const {
    return !urgent_.empty() || (!only_urgent && !ready_.empty());
  }
  /// And wakes who may take it.
  void make_ready(const std::string& lane);

  const int per_lane_;
  std::mutex mutex_;
  // A call wakes one thread of each kind that may take it: with a hundred that wait, to wake all of
  // them for each is more work than most calls are.
  std::condition_variable more_;
  std::condition_variable more_urgent_;  // for those that take nothing else
  std::map<std::string, Lane> lanes_;
  // A lane's name once for each of its calls that may start.
  std::deque<std::string> urgent_;
  std::deque<std::string> ready_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace mare::daemon
