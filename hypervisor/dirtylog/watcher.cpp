#include "hypervisor/dirtylog/watcher.h"

#include <algorithm>
#include <utility>

#include "hypervisor/dirtylog/undisturbed.h"
#include "hypervisor/dirtylog/watcher_times.h"

namespace mare::dirtylog {

using namespace times;

namespace {

constexpr seconds kRetry{1};
/// After its arrival: arming and reading all of its memory takes from a guest that has much to do
/// anew anyway, and how it writes in these seconds says nothing of how it writes.
constexpr seconds kSettles{2};
constexpr seconds kOfNow{15};
constexpr int kGlances = 3;
/// No multiple of what programs beat by: each glance, and the cycle after them, begins at another
/// moment of a beat of 0.1, 0.2 or 0.5 s.
constexpr milliseconds kGlance{235};
/// Of its time. A look that takes more of it is not for nothing, whatever it may cost: it is made
/// for a migration, which is to cost less.
constexpr milliseconds kFelt{100};
constexpr seconds kIdle{3600};
/// Who looked so lately has missed nothing.
constexpr milliseconds kLookedJustNow{10};
/// By less than one part in so many a cycle need not be longer: the look that tells so costs, too.
constexpr int kMuchLater = 10;
/// Pages are armed, and read, one after the other. A point is kept only if that took less than this
/// part of its time: on a busy host a 50 ms point may be worth nothing.
constexpr int kExactness = 4;
/// Times what was written in a second before.
constexpr double kBeganRate = 2;
/// Of CPU time, to tell how much of it a guest gets.
constexpr Microseconds kEnoughWanted{20'000};

/// Not for want of work, which leaves a kernel some: its CPUs were stopped, as those of a copy
/// whose pages still go elsewhere. Such a cycle tells nothing of how the guest writes.
bool stood_still(const DirtyCycle& cycle) {
  return !cycle.points.empty() && cycle.points.back().wall >= kTells &&
         cycle.points.back().progress.count() == 0;
}

/// The most of each region.
void add_heat(std::vector<double>& heat, const std::vector<double>& more) {
  heat.resize(std::max(heat.size(), more.size()), 0.0);
  for (std::size_t i = 0; i < more.size(); ++i) heat[i] = std::max(heat[i], more[i]);
}

double in_seconds(nanoseconds span) {
  return std::chrono::duration<double>(span).count();
}

/// Bytes that a window of that length may have: by the first one, and by what came between later
/// looks. Where that is much quicker than before, something began in between (a program, after a
/// boot), and it may have been as quick as one likes.
double most_written_in(const std::vector<DirtyPoint>& points, double span) {
  double most = 0;
  double rate_before = 0;
  DirtyPoint before;
  for (const auto& point : points) {
    const double took = in_seconds(point.wall - before.wall);
    const auto fresh = static_cast<double>((point.unique - before.unique).count);
    const double rate = took > 0 ? fresh / took : 0;
    if (before.wall >= kTells) {
      most = std::max(most, rate > kBeganRate * rate_before ? fresh : rate * span);
    }
    rate_before = rate;
    before = point;
  }
  const auto first = std::find_if(points.begin(), points.end(), [&](const DirtyPoint& point) {
    return in_seconds(point.wall) >= span;
  });
  if (first == points.end()) return std::max(most, static_cast<double>(before.unique.count));
  const double share = span / in_seconds(first->wall);
  return std::max(most, share * static_cast<double>(first->unique.count));
}

}  // namespace

nanoseconds Watcher::faults(Bytes written) const {
  return first_write_ * static_cast<std::int64_t>(written.count / kPageBytes);
}

nanoseconds Watcher::cost(const Cycle& cycle) const {
  if (cycle.glance) return nanoseconds{0};
  return cycle.owed + cycle.scanning + faults(cycle.written);
}

/// Where nothing is known that tells, what it costs is not either.
Watcher::LookAnew Watcher::what_a_look_may_cost(const Vm& vm) const {
  const std::lock_guard lock(mutex_);
  const auto told = std::find_if(vm.cycles.rbegin(), vm.cycles.rend(), [](const Cycle& cycle) {
    return !cycle.seen.points.empty() && cycle.seen.points.back().wall >= kTells;
  });
  if (told == vm.cycles.rend()) return {kGlances, first_write_ >= kDear, 0};
  const auto pages = [&](nanoseconds span) {
    return most_written_in(told->seen.points, in_seconds(span)) / static_cast<double>(kPageBytes);
  };
  const auto costs = [&](nanoseconds span) { return in_seconds(first_write_) * pages(span); };
  const nanoseconds since = clock_.now() - vm.cycles.back().began;
  const double budget = in_seconds(std::max<nanoseconds>(since, kOfNow)) * kCostLimitPercent / 100;
  const double cycle = costs(kTells + kPoints.front());
  LookAnew out;
  out.felt = cycle > in_seconds(kFelt);
  out.usual_pages = static_cast<std::size_t>(pages(kUsualFor));
  if (cycle > budget) return out;
  const double glance = costs(kGlance);
  const double left = budget - cycle;
  out.glances = left < kGlances * glance ? static_cast<int>(left / glance) : kGlances;
  return out;
}

Watcher::Vm::Vm() : joined(kCycle) {}

/// When the last cycle may be followed by another one.
MonotonicTime Watcher::paid_for_at(const Vm& vm) const {
  const std::lock_guard lock(mutex_);
  if (vm.cycles.empty()) return MonotonicTime{0};
  const Cycle& last = vm.cycles.back();
  return last.began + bounded(Microseconds{0}, cost(last) + vm.owed);
}

/// What the last cycle cost counts as well where the log was closed in the middle of it: a VM that
/// is moved there and back would pay for a cycle at each arrival.
bool Watcher::puts_off_its_next_cycle(Vm& vm) const {
  const MonotonicTime then = paid_for_at(vm);
  const std::lock_guard lock(mutex_);
  return put_off_until(vm, then);
}

/// Under mutex_. Of a VM that is watched, though its log is not armed yet. False: it is then
/// already.
bool Watcher::put_off_until(Vm& vm, MonotonicTime then) const {
  if (then <= clock_.now()) return false;
  vm.due = then;
  vm.why.clear();
  vm.hopeless = false;
  return true;
}

/// It may come back, and nobody else knows that a cycle of it is not paid for yet.
void Watcher::gone(const std::string& uuid, Vm& vm, const std::string& why) {
  const MonotonicTime then = paid_for_at(vm);
  if (then <= clock_.now()) return forget(uuid);
  const std::lock_guard lock(mutex_);
  vm.gone = true;
  vm.settles = false;
  vm.due = then;
  vm.why = why;
}

Watcher::Watcher(OpenLog open, Clock& clock, Log& log, nanoseconds first_write)
    : open_(std::move(open)),
      clock_(clock),
      log_(log),
      first_write_(std::max(first_write, kUsualFirstWrite)) {}

Watcher::VmPtr Watcher::find(const std::string& uuid) const {
  const std::lock_guard lock(mutex_);
  const auto known = vms_.find(uuid);
  return known == vms_.end() ? nullptr : known->second;
}

void Watcher::watch(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  if (const auto known = vms_.find(uuid); known != vms_.end()) {
    if (std::exchange(known->second->gone, false)) known->second->due = clock_.now();
    return;
  }
  auto vm = std::make_shared<Vm>();
  vm->due = clock_.now();
  vms_.emplace(uuid, std::move(vm));
}

void Watcher::arrived(const std::string& uuid) {
  watch(uuid);
  const VmPtr vm = find(uuid);
  if (!vm) return;
  const std::lock_guard busy(vm->busy);
  close_log(*vm, "it has just come", kSettles);
  const std::lock_guard lock(mutex_);
  vm->settles = true;
}

bool Watcher::back_off(const std::string& uuid) {
  const VmPtr vm = find(uuid);
  if (!vm) return false;
  const std::lock_guard busy(vm->busy);
  const bool open = vm->log != nullptr;
  close_log(*vm, "it is being migrated", kRetry);
  return open;
}

Milliseconds Watcher::look_anew(const std::string& uuid) {
  const VmPtr vm = find(uuid);
  if (!vm) return Milliseconds{0};
  const std::lock_guard busy(vm->busy);
  const MonotonicTime now = clock_.now();
  if (!vm->log) {
    const std::lock_guard lock(mutex_);
    if (!vm->settles) return Milliseconds{0};
    vm->due = std::min(vm->due, now);
    return kTells + kPoints.front();
  }
  if (!vm->glanced || now - *vm->glanced > kOfNow) {
    const LookAnew may = what_a_look_may_cost(*vm);
    vm->glanced = now;
    vm->tells_at = now;
    if (may.felt) {
      // From its last look on the guest may have written for 20 s.
      if (vm->content) static_cast<void>(take_content(*vm));
      {
        const std::lock_guard lock(mutex_);
        end_content(*vm);
        begin_content(*vm);
      }
      vm->tells_at = now + kTells + kContentLook;
      if (may.glances && may.usual_pages >= kUsualPages) {
        vm->content_usual = may.usual_pages;
        vm->tells_at += kUsualFor + kContentLook;
      }
    } else if (may.glances) {
      if (auto begun = glance(*vm, *may.glances); !begun) {
        failed(uuid, *vm, begun.error());
        return Milliseconds{0};
      }
    }
  }
  return std::chrono::ceil<milliseconds>(std::max(vm->tells_at - now, MonotonicTime{0}));
}

Status Watcher::glance(Vm& vm, int glances) {
  if (auto looked = look_once_more(vm); !looked) return looked;
  cut_short(vm);
  vm.glances = glances;
  vm.tells_at = clock_.now() + glances * kGlance + kTells + kPoints.front();
  return begin_cycle(vm);
}

MonotonicTime Watcher::next_due(const Vm& vm) {
  return vm.content ? std::min(vm.due, vm.content_due) : vm.due;
}

void Watcher::saw_first_write(nanoseconds takes) {
  const std::lock_guard lock(mutex_);
  first_write_ = std::max(std::min(first_write_, takes), kUsualFirstWrite);
}

void Watcher::left(const std::string& uuid) {
  const VmPtr vm = find(uuid);
  if (!vm) return;
  const std::lock_guard busy(vm->busy);
  close_log(*vm, "it is not here", kRetry);
  gone(uuid, *vm, "it is not here");
}

void Watcher::forget(const std::string& uuid) {
  VmPtr gone;  // ends under no lock
  const std::lock_guard lock(mutex_);
  const auto known = vms_.find(uuid);
  if (known == vms_.end()) return;
  gone = std::move(known->second);
  vms_.erase(known);
}

std::optional<WatchReport> Watcher::report(const std::string& uuid) const {
  const std::lock_guard lock(mutex_);
  const auto known = vms_.find(uuid);
  if (known == vms_.end() || known->second->gone) return std::nullopt;
  const Vm& vm = *known->second;
  WatchReport out;
  double cost = 0;
  double time = 0;
  for (const auto& cycle : vm.cycles) {
    if (!stood_still(cycle.seen)) out.cycles.push_back({cycle.seen.began, seen_by(vm, cycle)});
    const nanoseconds takes = this->cost(cycle);
    cost += in_seconds(takes);
    // A running one will last so long that it costs no more than the limit.
    time += in_seconds(cycle.whole ? cycle.length : bounded(cycle.length, takes));
  }
  std::vector<DirtyCycle> by_content;
  for (const auto& seen : vm.by_content) by_content.push_back(seen.cycle);
  if (vm.content) by_content.push_back({vm.content_began, vm.content->points()});
  for (const auto& cycle : by_content) {
    const auto later = std::upper_bound(
        out.cycles.begin(), out.cycles.end(), cycle,
        [](const DirtyCycle& a, const DirtyCycle& b) { return a.began < b.began; });
    out.cycles.insert(later, cycle);
  }
  const auto told = std::find_if(vm.cycles.rbegin(), vm.cycles.rend(),
                                 [](const Cycle& cycle) { return cycle.wanted >= kEnoughWanted; });
  if (told != vm.cycles.rend()) {
    out.cpu_granted =
        static_cast<double>(told->granted.count()) / static_cast<double>(told->wanted.count());
  }
  out.heat = vm.heat;
  if (out.heat.empty() && vm.content) out.heat = vm.content->heat();
  if (out.heat.empty() && !vm.by_content.empty()) out.heat = vm.by_content.back().heat;
  out.written = written_now(vm);
  out.sequential = sequential_now(vm);
  SweepFinder::Found found = sweep_of(vm);
  out.sweep = found.sweep;
  // Also where the newest look leaves it open for a moment: who asks for them was told of a sweep.
  out.swept = std::move(found.pages);
  out.cost_fraction = time > 0 ? cost / time : 0;
  out.not_watched = vm.why;
  out.hopeless = vm.hopeless;
  return out;
}

std::vector<DirtyPoint> Watcher::seen_by(const Vm& vm, const Cycle& cycle) const {
  auto points = cycle.seen.points;
  const auto more = beyond_others(vm, cycle);
  points.insert(points.end(), more.begin(), more.end());
  const double granted =
      cycle.wanted >= kEnoughWanted
          ? static_cast<double>(cycle.granted.count()) / static_cast<double>(cycle.wanted.count())
          : 1;
  return without_faults(std::move(points), first_write_, granted, cycle.vcpus);
}

MonotonicTime Watcher::step() {
  std::vector<std::pair<std::string, VmPtr>> due;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [uuid, vm] : vms_) {
      if (next_due(*vm) <= clock_.now()) due.emplace_back(uuid, vm);
    }
  }
  for (const auto& [uuid, vm] : due) {
    const std::lock_guard busy(vm->busy);
    work(uuid, *vm);
  }
  const std::lock_guard lock(mutex_);
  MonotonicTime next = clock_.now() + kIdle;
  for (const auto& [uuid, vm] : vms_) next = std::min(next, next_due(*vm));
  return next;
}

void Watcher::work(const std::string& uuid, Vm& vm) {
  if (vm.content && vm.content_due <= clock_.now()) look_at_content(uuid, vm);
  work_on_log(uuid, vm);
  goes_on_by_content(vm);
}

void Watcher::work_on_log(const std::string& uuid, Vm& vm) {
  if (!vm.log) {
    auto opened = open_(uuid);
    if (!opened) return failed(uuid, vm, opened.error());
    vm.log = std::move(*opened);
    vm.just_opened = true;
    vm.opened = clock_.now();
    if (puts_off_its_next_cycle(vm) || looks_first(vm)) return;
    if (auto begun = begin_cycle(vm); !begun) failed(uuid, vm, begun.error());
    return;
  }
  bool whole = true;
  {
    const std::lock_guard lock(mutex_);
    if (vm.due > clock_.now()) return;  // somebody backed off since it was found to be due
    whole = vm.cycles.empty() || vm.cycles.back().whole;
  }
  if (looks_first(vm)) return;
  const Status done = whole ? begin_next_cycle(vm) : take_point(vm);
  if (!done) failed(uuid, vm, done.error());
}

Status Watcher::begin_next_cycle(Vm& vm) {
  if (auto looked = look_once_more(vm); !looked) return looked;
  {
    // What was written since the look before is to be paid for, too.
    const std::lock_guard lock(mutex_);
    const MonotonicTime now = clock_.now();
    if (!vm.cycles.empty() && (vm.due - now) * kMuchLater > now - vm.cycles.back().began)
      return ok_status();
  }
  return begin_cycle(vm);
}

/// Before the log is armed anew, which forgets what was written since the last look. (A guest that
/// wrote 25 MB each 2 s was cut short after 1.3 s, 1 s and 16 MB after it was armed: joined to the
/// cycles after it that looked like a window of 2.6 s with 17 MB.)
Status Watcher::look_once_more(Vm& vm) {
  {
    const std::lock_guard lock(mutex_);
    if (vm.cycles.empty() || vm.just_opened || clock_.now() - vm.looked < kLookedJustNow)
      return ok_status();
    if (vm.cycles.back().seen.points.empty()) return ok_status();
  }
  return take_point(vm);
}

Status Watcher::begin_cycle(Vm& vm) {
  const MonotonicTime before = clock_.now();
  const auto progress = vm.log->arm();
  if (!progress) return progress.error();
  const MonotonicTime after = clock_.now();
  Cycle cycle;
  cycle.seen.began = clock_.wall_now();
  // Pages are armed one after the other.
  cycle.began = before + (after - before) / 2;
  cycle.progress_then = *progress;
  cycle.arming = cycle.scanning = after - before;
  const std::lock_guard lock(mutex_);
  end_content(vm);  // faults would make it look slow
  const bool first = vm.cycles.empty();
  cycle.first_of_log = std::exchange(vm.just_opened, false);
  if (cycle.first_of_log) {
    vm.joined.begin();
  } else {
    vm.joined.next_cycle();
  }
  vm.sweep.begin_cycle(vm.written);
  cycle.glance = vm.glances > 0;
  if (first || !vm.cycles.back().glance) {
    vm.lately = {};
    vm.lately_heat.clear();
  }
  if (cycle.glance) {
    --vm.glances;
  } else {
    cycle.owed = std::exchange(vm.owed, nanoseconds{0});
  }
  if (!first && vm.cycles.back().whole) {
    vm.cycles.back().length = micro(cycle.began - vm.cycles.back().began);
  }
  if (first) vm.next_length = kFirstCycle;
  cycle.length = micro(kGlance);
  if (!cycle.glance) {
    cycle.length = vm.next_length;
    vm.next_length = std::min<Microseconds>(2 * vm.next_length, kCycle);
  }
  vm.due = cycle.began + kPoints.front();
  vm.why.clear();
  vm.hopeless = false;
  if (cycle.glance) vm.owed += cycle.scanning;
  vm.looked = after;
  vm.cycles.push_back(std::move(cycle));
  if (vm.cycles.size() > kCyclesKept) vm.cycles.pop_front();
  return ok_status();
}

Status Watcher::take_point(Vm& vm) {
  const MonotonicTime before = clock_.now();
  const auto reading = vm.log->read();
  if (!reading) return reading.error();
  const MonotonicTime after = clock_.now();
  const std::lock_guard lock(mutex_);
  add_point(vm, *reading, before, after);
  return ok_status();
}

void Watcher::add_point(Vm& vm, const LogReading& reading, MonotonicTime before,
                        MonotonicTime after) {
  Cycle& cycle = vm.cycles.back();
  vm.looked = after;
  const Bytes written = std::max(cycle.written, reading.unique);
  // A glance is paid for by the cycle after it, which lasts the longer.
  if (cycle.glance) vm.owed += (after - before) + faults(written) - faults(cycle.written);
  cycle.scanning += after - before;
  cycle.written = written;
  cycle.vcpus = reading.vcpus;
  if (!cycle.first) {
    cycle.first = LogReading{{}, reading.progress, reading.waited, {}, {}};
    if (!vm.first_look.empty()) {
      // What is written all the time, a stack or the kernel's own, tells nothing of the program's
      // way.
      const PageSet fresh = reading.written.without(vm.first_look);
      cycle.first_pages = fresh.count();
      cycle.first_runs = fresh.runs();
    }
    vm.first_look = reading.written;
  }
  cycle.granted = std::max(Microseconds{0}, reading.progress - cycle.first->progress);
  cycle.wanted = cycle.granted + std::max(Microseconds{0}, reading.waited - cycle.first->waited);
  DirtyPoint point;
  point.wall = micro(before + (after - before) / 2 - cycle.began);
  point.progress = reading.progress - cycle.progress_then;
  // A page that the guest gave back may vanish from the log, but it was written.
  point.unique = cycle.written;
  if (!cycle.seen.points.empty()) {
    point.progress = std::max(point.progress, cycle.seen.points.back().progress);
  }
  const bool exact = (cycle.arming + (after - before)) * kExactness < point.wall;
  if (exact) cycle.seen.points.push_back(point);
  join(vm, reading, point);
  const auto next = std::find_if(kPoints.begin(), kPoints.end(),
                                 [&](milliseconds at) { return at > point.wall; });
  cycle.whole = next == kPoints.end() || *next > cycle.length;
  keep_heat(vm, reading);
  vm.sweep.look(reading.written, point.wall);
  keep_lately(vm, reading);
  if (!cycle.whole) {
    vm.due = cycle.began + *next;
    return;
  }
  cycle.length = bounded(cycle.length, cost(cycle));
  vm.due = std::max(after, cycle.began + cycle.length);
}

void Watcher::join(Vm& vm, const LogReading& seen, const DirtyPoint& point) {
  vm.joined.look(seen.written, point.wall, point.progress);
  const auto first = std::find_if(vm.cycles.rbegin(), vm.cycles.rend(),
                                  [](const Cycle& cycle) { return cycle.first_of_log; });
  if (first != vm.cycles.rend()) first->onwards = vm.joined.points();
}

/// As far as cycles of their own were seen, these tell more: there are several of them, and no gap
/// is in any.
std::vector<DirtyPoint> Watcher::beyond_others(const Vm& vm, const Cycle& cycle) {
  std::vector<DirtyPoint> out;
  if (cycle.onwards.empty() || cycle.seen.points.empty()) return out;
  Microseconds longest{0};
  for (const auto& other : vm.cycles) {
    if (!other.seen.points.empty()) longest = std::max(longest, other.seen.points.back().wall);
  }
  DirtyPoint before = cycle.seen.points.back();
  for (DirtyPoint point : cycle.onwards) {
    if (point.wall <= longest) continue;
    point.progress = std::max(point.progress, before.progress);
    point.unique = std::max(point.unique, before.unique);
    out.push_back(point);
    before = point;
  }
  return out;
}

/// A glance, or a cycle that is not over, may fall between two bursts of the guest: it adds to what
/// the last long one saw.
void Watcher::keep_heat(Vm& vm, const LogReading& seen) {
  const Cycle& cycle = vm.cycles.back();
  if ((cycle.whole && !cycle.glance) || vm.heat.size() != seen.heat.size()) {
    vm.heat = seen.heat;
    vm.written = seen.written;
    forget_gathered(vm);
    return;
  }
  add_heat(vm.heat, seen.heat);
  vm.written.add(seen.written);
}

void Watcher::keep_lately(Vm& vm, const LogReading& seen) {
  vm.lately.add(seen.written);
  add_heat(vm.lately_heat, seen.heat);
}

void Watcher::forget_gathered(Vm& vm) {
  vm.gathered = {};
  vm.gathered_heat.clear();
  vm.gathered_for = Microseconds{0};
}

/// Of a VM that is forecast again and again no cycle lasts to its planned end: so many that were
/// cut short stand for a long one, or what it wrote at its boot would be there for ever.
void Watcher::gather(Vm& vm, Microseconds length) {
  vm.gathered.add(vm.lately);
  add_heat(vm.gathered_heat, vm.lately_heat);
  vm.gathered_for += length;
  if (vm.gathered_for < kCycle) return;
  vm.written = vm.gathered;
  vm.heat = vm.gathered_heat;
  forget_gathered(vm);
}

/// A set-up, or another program, that the last long cycle saw is over: what was written since the
/// look anew tells more, if it is enough.
const PageSet& Watcher::written_now(const Vm& vm) {
  return vm.lately.count() >= kEnoughPages ? vm.lately : vm.written;
}

/// By the first looks of the last cycles: in 50 ms few guests come round to where they began. 0
/// where too little was written to tell.
double Watcher::sequential_now(const Vm& vm) {
  std::size_t pages = 0;
  std::size_t runs = 0;
  for (auto cycle = vm.cycles.rbegin(); cycle != vm.cycles.rend() && pages < kEnoughPages;
       ++cycle) {
    pages += cycle->first_pages;
    runs += cycle->first_runs;
  }
  if (pages < kEnoughPages) return 0;
  return 1 - static_cast<double>(runs) / static_cast<double>(pages);
}

/// Ends the running cycle, if there is one, with what it has seen.
void Watcher::cut_short(Vm& vm) {
  const std::lock_guard lock(mutex_);
  if (vm.cycles.empty()) return;
  Cycle& last = vm.cycles.back();
  if (last.seen.points.empty()) {
    vm.just_opened = last.first_of_log;
    vm.cycles.pop_back();
    return;
  }
  // Cut short: it lasted for as long as it was looked at.
  if (!last.whole) last.length = last.seen.points.back().wall;
  last.whole = true;
  if (!last.glance) gather(vm, last.length);
}

void Watcher::close_log(Vm& vm, const std::string& why, nanoseconds again) {
  const bool open = vm.log != nullptr;
  vm.log.reset();
  vm.glances = 0;
  vm.glanced.reset();
  if (open) cut_short(vm);
  const std::lock_guard lock(mutex_);
  end_content(vm);
  vm.due = clock_.now() + again;
  vm.settles = false;
  vm.why = why;
  vm.hopeless = false;
}

void Watcher::failed(const std::string& uuid, Vm& vm, const Error& error) {
  // A process that ended need not be the VM's end: perhaps it runs here anew. Whether it does, the
  // next attempt to open its log tells.
  if (error.code == Code::NotFound && vm.log) return close_log(vm, error.message, kRetry);
  if (error.code == Code::NotFound) return gone(uuid, vm, error.message);
  const bool hopeless = error.code == Code::Unsupported;
  bool known = true;
  {
    const std::lock_guard lock(mutex_);
    known = vm.why == error.message;
  }
  // Once for each reason; what passes by itself is for debugging.
  if (!known && hopeless) log_.warn("dirtylog", "VM " + uuid + " is not watched: " + error.text());
  if (!known && !hopeless) log_.debug("dirtylog", "VM " + uuid + ": " + error.text());
  close_log(vm, error.message, hopeless ? nanoseconds{kRetryHopeless} : nanoseconds{kRetry});
  const std::lock_guard lock(mutex_);
  vm.hopeless = hopeless;
}

WatcherThread::WatcherThread(Watcher& watcher, Clock& clock)
    : watcher_(watcher), clock_(clock), thread_([this] { run(); }) {}

WatcherThread::~WatcherThread() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void WatcherThread::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void WatcherThread::run() {
  while (true) {
    const MonotonicTime next = watcher_.step();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, next - clock_.now(), [&] { return woken_ || closed_; });
    woken_ = false;
    if (closed_) return;
  }
}

}  // namespace mare::dirtylog
