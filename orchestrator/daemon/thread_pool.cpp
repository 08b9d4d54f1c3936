#include "orchestrator/daemon/thread_pool.h"

namespace mare::daemon {

ThreadPool::ThreadPool(int threads, int per_lane, int for_urgent) : per_lane_(per_lane) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(false); });
  for (int i = 0; i < for_urgent; ++i) threads_.emplace_back([this] { work(true); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  more_.notify_all();
  more_urgent_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::run(const std::string& lane, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  Lane& into = lanes_[lane];
  into.waiting.push_back(std::move(work));
  if (into.running >= per_lane_) return;
  ++into.running;
  make_ready(lane);
}

void ThreadPool::make_ready(const std::string& lane) {
  const bool urgent = engine::is_urgent(lane);
  (urgent ? urgent_ : ready_).push_back(lane);
  more_.notify_one();
  if (urgent) more_urgent_.notify_one();
}

void ThreadPool::work(bool only_urgent) {
  std::unique_lock lock(mutex_);
  auto& more = only_urgent ? more_urgent_ : more_;
  while (true) {
    more.wait(lock, [&] { return stopping_ || may_take(only_urgent); });
    if (stopping_) return;
    auto& from = urgent_.empty() ? ready_ : urgent_;
    const std::string name = std::move(from.front());
    from.pop_front();
    auto call = std::move(lanes_[name].waiting.front());
    lanes_[name].waiting.pop_front();
    lock.unlock();
    call();
    call = nullptr;  // what it holds goes outside the lock
    lock.lock();
    Lane& lane = lanes_[name];
    // This call's place goes to the next one in its lane, at the end of the line for the threads.
    if (static_cast<int>(lane.waiting.size()) >= lane.running) {
      make_ready(name);
    } else if (--lane.running == 0 && lane.waiting.empty()) {
      lanes_.erase(name);
    }
  }
}

}  // namespace mare::daemon
