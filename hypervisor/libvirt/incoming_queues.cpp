#include "hypervisor/libvirt/incoming_queues.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace mare::libvirt {
namespace {

// What gathered in a connection by then is long read when the VM stands still.
constexpr auto kLookEvery = std::chrono::milliseconds{40};
// When all are there that were told of: a source that lost one may connect anew.
constexpr auto kLookSeldom = std::chrono::milliseconds{500};
constexpr auto kBeginsWithin = std::chrono::minutes{10};

}  // namespace

IncomingQueues::IncomingQueues(Host host, Clock& clock, Log& log)
    : host_(std::move(host)), clock_(clock), log_(log) {}

IncomingQueues::~IncomingQueues() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void IncomingQueues::expect(const VmKey& vm, int connections, dirtylog::Reader reader, bool more) {
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    expected_[vm.uuid] = {vm, connections, reader, more, clock_.now(), 0, std::nullopt};
    if (!thread_.joinable()) thread_ = std::thread([this] { look_after_them(); });
  }
  changed_.notify_all();
}

void IncomingQueues::look_after_them() {
  std::map<std::string, Coming> coming;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const auto called = [this] { return closing_ || !expected_.empty(); };
      if (coming.empty()) {
        changed_.wait(lock, called);
      } else {
        const bool settled = std::all_of(coming.begin(), coming.end(),
                                         [](const auto& one) { return one.second.all_there(); });
        changed_.wait_for(lock, settled ? kLookSeldom : kLookEvery, called);
      }
      if (closing_) return;
      for (auto& [uuid, one] : expected_) coming[uuid] = std::move(one);
      expected_.clear();
    }
    for (auto it = coming.begin(); it != coming.end();) {
      const auto next = std::next(it);
      if (!look_after(it->second)) coming.erase(it);
      it = next;
    }
  }
}

bool IncomingQueues::look_after(Coming& coming) {
  // Post-copy may run here before anybody looked, and all its pages are still to come: so once
  // more.
  const bool last = !host_.expected(coming.vm.uuid);
  if (!coming.queues || !coming.queues->lives()) {
    coming.queues.reset();
    coming.bounded = 0;
    const auto pid = host_.find(coming.vm);
    auto queues = pid ? dirtylog::TcpQueues::open(*pid) : Result<dirtylog::TcpQueues>(pid.error());
    if (!queues) return !last && clock_.now() - coming.since < kBeginsWithin;
    coming.queues.emplace(std::move(*queues));
  }
  const auto bounded = coming.queues->bound_unread(host_.link(), coming.connections, coming.reader);
  if (bounded) {
    coming.bounded += *bounded;
    return !last;
  }
  log_.warn("libvirt", "what waits to be read for '" + coming.vm.id.value +
                           "', which comes here, is not bounded: " + bounded.error().text());
  return false;
}

}  // namespace mare::libvirt
