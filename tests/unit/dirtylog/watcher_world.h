// VMs that are made up, and a watcher of them on a clock that stands still.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hypervisor/dirtylog/page_samples.h"
#include "hypervisor/dirtylog/watcher.h"

namespace mare::dirtylog {

/// A VM that writes `rate` new bytes a second up to `wws`, with half a CPU, or sweeps; and what was
/// done to it.
struct FakeVm {
  double rate = 1e6;
  Bytes wws = mebibytes(16);
  std::optional<Error> open_error;
  std::optional<Error> log_error;
  std::chrono::milliseconds scan_takes{0};
  int waits_as_often = 0;  // as it runs
  bool stands_still = false;
  int opened = 0;
  int closed = 0;
  int armed = 0;
  int read = 0;
  double heat = 0.25;
  PageSet pages;
  std::size_t sweeps_over = 0;  // so many pages,
  std::size_t sweeps_each_s = 100;
  std::optional<MonotonicTime> sweeps_until;
  bool content_hidden = false;
  MonotonicTime armed_at{0};
};

class FakeLog final : public PageLog {
 public:
  FakeLog(FakeVm& vm, ManualClock& clock) : vm_(vm), clock_(clock) { ++vm_.opened; }
  ~FakeLog() override { ++vm_.closed; }
  Result<Microseconds> arm() override {
    if (vm_.log_error) return *vm_.log_error;
    ++vm_.armed;
    vm_.armed_at = clock_.now();
    return progress();
  }
  Result<LogReading> read() override {
    if (vm_.log_error) return *vm_.log_error;
    ++vm_.read;
    clock_.advance(vm_.scan_takes);
    const double since = std::chrono::duration<double>(clock_.now() - vm_.armed_at).count();
    const auto written = static_cast<std::uint64_t>(vm_.rate * since);
    if (vm_.sweeps_over > 0) return swept();
    return LogReading{Bytes{std::min(written, vm_.wws.count)}, progress(),
                      progress() * vm_.waits_as_often, std::vector<double>(kHeatRegions, vm_.heat),
                      vm_.pages};
  }
  Result<ContentReading> content() override {
    if (vm_.content_hidden) return make_error(Code::Unavailable, "its memory can't be read");
    ContentReading out;
    out.pages_each = 64;
    out.progress = progress();
    const std::size_t at = place(clock_.now());
    for (std::size_t i = 0; i < 2048; ++i) {
      const std::size_t page = sampled_page(i, out.pages_each);
      // How often it was written.
      const bool swept = page < vm_.sweeps_over && at > page;
      out.sums.push_back(1 + (swept ? (at - 1 - page) / vm_.sweeps_over + 1 : 0));
    }
    return out;
  }

 private:
  std::size_t place(MonotonicTime when) const {
    if (vm_.sweeps_until) when = std::min(when, *vm_.sweeps_until);
    return static_cast<std::size_t>(std::chrono::duration<double>(when).count() *
                                    static_cast<double>(vm_.sweeps_each_s));
  }
  Microseconds progress() const {
    if (vm_.stands_still) return Microseconds{5};
    return std::chrono::duration_cast<Microseconds>(clock_.now() / 2);
  }
  LogReading swept() const {
    PageSet pages;
    for (std::size_t at = place(vm_.armed_at); at < place(clock_.now()); ++at) {
      pages.add(at % vm_.sweeps_over, at % vm_.sweeps_over + 1);
    }
    return {Bytes{pages.count() * 4096}, progress(), Microseconds{0},
            std::vector<double>(kHeatRegions, vm_.heat), pages};
  }

  FakeVm& vm_;
  ManualClock& clock_;
};

class WatcherTest : public testing::Test {
 protected:
  explicit WatcherTest(std::chrono::nanoseconds first_write = kUsualFirstWrite)
      : watcher_([this](const std::string& uuid) { return open(uuid); }, clock_, log_,
                 first_write) {}
  Result<std::unique_ptr<PageLog>> open(const std::string& uuid) {
    FakeVm& vm = vms_[uuid];
    if (vm.open_error) return *vm.open_error;
    return std::unique_ptr<PageLog>(std::make_unique<FakeLog>(vm, clock_));
  }
  /// Steps whenever the watcher says, for so long.
  void run(std::chrono::nanoseconds span) {
    const MonotonicTime end = clock_.now() + span;
    while (true) {
      const MonotonicTime next = watcher_.step();
      if (next > end) break;
      if (next > clock_.now()) clock_.advance(next - clock_.now());
    }
    if (end > clock_.now()) clock_.advance(end - clock_.now());
  }
  std::vector<DirtyCycle> cycles() const { return watcher_.report("a")->cycles; }
  static std::vector<int> walls_ms(const DirtyCycle& cycle) {
    std::vector<int> out;
    for (const auto& point : cycle.points)
      out.push_back(static_cast<int>(point.wall.count() / 1000));
    return out;
  }

  ManualClock clock_;
  Log log_{clock_, LogLevel::Error};
  std::map<std::string, FakeVm> vms_;
  Watcher watcher_;
};

}  // namespace mare::dirtylog
