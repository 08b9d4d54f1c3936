#include "orchestrator/daemon/thread_pool.h"

namespace mare::daemon {

ThreadPool::ThreadPool(int threads, int per_lane) : per_lane_(per_lane) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  more_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::run(const std::string& lane, std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    Lane& into = lanes_[lane];
    into.waiting.push_back(std::move(work));
    if (into.running < per_lane_) {
      ++into.running;
      ready_.push_back(lane);
    }
  }
  more_.notify_one();
}

void ThreadPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    more_.wait(lock, [this] { return stopping_ || !ready_.empty(); });
    if (stopping_) return;
    const std::string name = ready_.front();
    ready_.pop_front();
    auto call = std::move(lanes_[name].waiting.front());
    lanes_[name].waiting.pop_front();
    lock.unlock();
    call();
    call = nullptr;  // what it holds goes outside the lock
    lock.lock();
    Lane& lane = lanes_[name];
    // This call's place goes to the next one in its lane, at the end of the line for the threads.
    if (static_cast<int>(lane.waiting.size()) >= lane.running) {
      ready_.push_back(name);
      more_.notify_one();
    } else if (--lane.running == 0 && lane.waiting.empty()) {
      lanes_.erase(name);
    }
  }
}

}  // namespace mare::daemon
