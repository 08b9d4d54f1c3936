// The watcher's part that goes by content: while a VM is not armed, or is not to be.
#include <algorithm>
#include <utility>

#include "hypervisor/dirtylog/watcher.h"
#include "hypervisor/dirtylog/watcher_times.h"

namespace mare::dirtylog {

using namespace times;

namespace {

constexpr std::size_t kContentKept = 6;

}  // namespace

/// Like a cycle of the log, the first ones shorter than the next.
void Watcher::begin_content(Vm& vm) const {
  vm.content.emplace();
  vm.content_began = clock_.wall_now();
  vm.content_from = vm.content_due = clock_.now();
  vm.content_length = std::max<Microseconds>(vm.next_content_length, kFirstCycle);
  vm.next_content_length = std::min<Microseconds>(2 * vm.content_length, kCycle);
  vm.content_told = false;
  vm.content_usual = 0;
}

/// For as long as the next arming is not paid for.
void Watcher::goes_on_by_content(Vm& vm) const {
  const std::lock_guard lock(mutex_);
  const MonotonicTime now = clock_.now();
  if (vm.content || !vm.log || now < vm.content_not_before || vm.due - now <= kFirstCycle) return;
  if (!vm.cycles.empty() && !vm.cycles.back().whole) return;
  begin_content(vm);
}

/// One that is not known here, where to arm it may cost it 1.5 s: by content it is seen first what
/// it writes, and armed when that has been paid for since it came.
bool Watcher::looks_first(Vm& vm) const {
  const std::lock_guard lock(mutex_);
  if (!vm.cycles.empty() || first_write_ < kDear) return false;
  const MonotonicTime now = clock_.now();
  // A little more than the first look takes, so that it ends before.
  MonotonicTime then = vm.opened + kFirstCycle + kContentLook;
  if (now < vm.content_not_before) then = now;  // nobody can
  if (!vm.by_content.empty()) {
    const auto takes = faults(vm.by_content.back().cycle.points.back().unique);
    then = std::max(then, vm.opened + bounded(Microseconds{0}, takes));
  }
  return put_off_until(vm, then);
}

/// One look of the cycle that goes on.
Status Watcher::take_content(Vm& vm) const {
  const MonotonicTime before = clock_.now();
  auto read = vm.log->content();
  if (!read) return read.error();
  const MonotonicTime after = clock_.now();
  const std::lock_guard lock(mutex_);
  vm.content->look(std::move(*read), before + (after - before) / 2);
  return ok_status();
}

/// One that can't be read is watched all the same; whether it has ended its log tells.
void Watcher::look_at_content(const std::string& uuid, Vm& vm) {
  const Status read = take_content(vm);
  const MonotonicTime after = clock_.now();
  if (!read) log_.debug("dirtylog", "VM " + uuid + ": " + read.error().text());
  bool writes_less = false;
  {
    const std::lock_guard lock(mutex_);
    if (!read) {
      vm.content_not_before = after + kRetryHopeless;
      if (vm.cycles.empty()) vm.due = after;
    }
    const auto since = std::chrono::duration_cast<milliseconds>(after - vm.content_from);
    if (vm.content_usual > 0 && (since >= kUsualFor || !read)) {
      const auto points = vm.content->points();
      const std::uint64_t wrote = points.empty() ? 0 : points.back().unique.count / kPageBytes;
      writes_less = 2 * wrote < std::exchange(vm.content_usual, 0);
      if (writes_less) vm.speed.reset();
    }
    if (!vm.content_told && since >= kTells) tell_by_content(vm, after);
    const auto next =
        std::find_if(kPoints.begin(), kPoints.end(), [&](milliseconds at) { return at > since; });
    if (!read || next == kPoints.end() || *next > vm.content_length) {
      end_content(vm);
    } else {
      vm.content_due =
          vm.content_from + (since < kTells ? (since / kContentLook + 1) * kContentLook : *next);
    }
  }
  // So a look costs it little now.
  if (!writes_less) return;
  if (auto begun = glance(vm, 0); !begun) failed(uuid, vm, begun.error());
}

/// Of all that it wrote lately: in what the running cycle saw so far may be a part of its way only.
/// A slow sweep is no chunk in a second: then it is looked on, and what the cycle before told
/// holds.
void Watcher::tell_by_content(Vm& vm, MonotonicTime now) {
  PageSet written = vm.content->written();
  if (written.count() >= kEnoughPages) vm.lately = std::move(written);
  const auto verdict = vm.content->sweep(all_written(vm));
  vm.content_told = verdict.speed || now - vm.content_from >= kFirstCycle;
  if (!verdict.sure) return;
  vm.speed = verdict.speed;
  vm.speed_seen = now;
}

PageSet Watcher::all_written(const Vm& vm) {
  PageSet out = vm.written;
  for (const auto& seen : vm.by_content) out.add(seen.written);
  if (vm.content) out.add(vm.content->written());
  return out;
}

void Watcher::end_content(Vm& vm) {
  if (!vm.content) return;
  auto points = vm.content->points();
  if (!points.empty() && points.back().wall >= kTells) {
    vm.by_content.push_back(
        {{vm.content_began, std::move(points)}, vm.content->written(), vm.content->heat()});
  }
  if (vm.by_content.size() > kContentKept) vm.by_content.pop_front();
  vm.content.reset();
}

/// By content where it was looked at lately: that is the newest, and no fault slowed it.
SweepFinder::Found Watcher::sweep_of(const Vm& vm) const {
  const bool lately = vm.speed && clock_.now() - vm.speed_seen <= 2 * kCycle;
  if (!lately) return vm.sweep.found(vm.written);
  for (auto seen = vm.by_content.rbegin(); seen != vm.by_content.rend(); ++seen) {
    auto found = SweepFinder::over(seen->written, *vm.speed);
    if (SweepFinder::has_come_round(seen->lasted(), found.sweep)) return found;
  }
  return vm.sweep.found(all_written(vm), *vm.speed);
}

}  // namespace mare::dirtylog
