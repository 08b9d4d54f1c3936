// The executor of the real daemon: a fixed number of threads, at most a few calls of one lane at a
// time, so that a host that hangs can't take them all.
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
  ThreadPool(int threads, int per_lane);
  /// Waits for the calls that run; those that wait are dropped (their operations are taken up again
  /// later).
  ~ThreadPool() override;

  void run(const std::string& lane, std::function<void()> work) override;

 private:
  struct Lane {
    std::deque<std::function<void()>> waiting;
    int running = 0;
  };
  void work();

  const int per_lane_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::map<std::string, Lane> lanes_;
  std::deque<std::string> ready_;  // a lane's name once for each of its calls that may start
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace mare::daemon
