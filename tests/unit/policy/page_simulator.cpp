#include "page_simulator.h"

#include <algorithm>
#include <cmath>

namespace mare::policy::test {
namespace {

constexpr double kStep = 0.01;  // s
constexpr double kHeader = 8;
constexpr double kZeroPage = 9;
constexpr double kSetUp = 0.10;
constexpr double kSwitch = 0.03;
constexpr double kDevice = 0.4e6;

std::vector<bool> zero_pages(const Workload& workload) {
  SeededRng rng(workload.seed ^ 0x5eed);
  std::vector<bool> out(workload.pages, false);
  std::size_t left = workload.zero_pages;
  while (left > 0) {
    std::size_t at = rng.below(workload.pages);
    for (std::size_t run = 1 + rng.below(64); run > 0 && left > 0; --run) {
      if (!out[at]) --left;
      out[at] = true;
      at = (at + 1) % workload.pages;
    }
  }
  return out;
}

class Migration {
 public:
  Migration(const Workload& workload, const Move& move)
      : workload_(workload),
        move_(move),
        guest_(workload, workload.seed),
        zero_(zero_pages(workload)),
        marked_(workload.pages, true),
        log_(workload.pages, false),
        left_(workload.pages),
        rate_(move.link_pages_per_s * (kPage + kHeader)) {
    // What the guest works with has something in it.
    SeededRng rng(workload.seed + 1);
    Guest past(workload, rng.next());
    past.run(20, [this](std::size_t page) { zero_[page] = false; });
  }

  Truth run(double most_s) {
    double slice = 0;
    for (;;) {
      step();
      slice += kStep;
      measure();
      tick();
      if (slice + 1e-9 < 0.05) continue;
      slice = 0;
      if (pending() < threshold_) {
        sync();
        if (pending() < threshold_) break;
      }
      if (now_ > most_s) {
        out_.converged = false;
        break;
      }
    }
    finish();
    return out_;
  }

 private:
  double pending() const { return static_cast<double>(left_) * kPage; }

  void step() {
    budget_ += rate_ * kStep;
    while (budget_ > 0 && left_ > 0) send_next();
    if (left_ == 0) budget_ = std::min(budget_, 0.0);
    guest_.run(kStep * std::min(workload_.share, 1 - throttle_), [this](std::size_t page) {
      log_[page] = true;
      zero_[page] = false;
    });
    now_ += kStep;
  }

  void send_next() {
    while (!marked_[cursor_]) cursor_ = (cursor_ + 1) % marked_.size();
    marked_[cursor_] = false;
    --left_;
    const double bytes = zero_[cursor_] ? kZeroPage : kPage + kHeader;
    budget_ -= bytes;
    out_.sent_bytes += bytes;
  }

  /// Every 100 ms: the bandwidth, and what would fit into the downtime.
  void measure() {
    if (now_ - window_began_ + 1e-9 < 0.1) return;
    const double bandwidth = (out_.sent_bytes - window_sent_) / (now_ - window_began_);
    threshold_ = bandwidth * move_.downtime_limit_s;
    window_began_ = now_;
    window_sent_ = out_.sent_bytes;
  }

  void sync() {
    std::size_t fresh = 0;
    for (std::size_t page = 0; page < log_.size(); ++page) {
      if (!log_[page]) continue;
      log_[page] = false;
      if (!marked_[page]) ++fresh;
      marked_[page] = true;
    }
    left_ += fresh;
    ++out_.rounds;
    period_fresh_ += static_cast<double>(fresh) * kPage;
    if (now_ - period_began_ <= 1) return;
    if (move_.throttled && period_fresh_ > 0.5 * (out_.sent_bytes - period_sent_) && ++high_ >= 2) {
      high_ = 0;
      throttle_ =
          throttle_ > 0 ? std::min(0.99, throttle_ + move_.throttle_step) : move_.throttle_initial;
    }
    period_began_ = now_;
    period_sent_ = out_.sent_bytes;
    period_fresh_ = 0;
  }

  /// Auto-converge's own look at the log.
  void tick() {
    if (!move_.throttled || now_ + 1e-9 < next_tick_) return;
    next_tick_ += 5;
    if (out_.rounds >= 1 && out_.rounds == rounds_at_tick_) sync();
    rounds_at_tick_ = out_.rounds;
  }

  void finish() {
    double rest = kDevice;
    for (std::size_t page = 0; page < marked_.size(); ++page) {
      if (marked_[page]) rest += zero_[page] ? kZeroPage : kPage + kHeader;
    }
    out_.downtime_s = kSwitch + rest / rate_;
    out_.sent_bytes += rest;
    out_.total_time_s = kSetUp + now_ + out_.downtime_s;
  }

  const Workload& workload_;
  const Move& move_;
  Guest guest_;
  std::vector<bool> zero_;
  std::vector<bool> marked_;
  std::vector<bool> log_;
  std::size_t left_;
  std::size_t cursor_ = 0;
  double rate_;
  double now_ = 0;
  double budget_ = 0;
  double threshold_ = 0;
  double window_began_ = 0;
  double window_sent_ = 0;
  double throttle_ = 0;
  int high_ = 0;
  double period_began_ = 0;
  double period_sent_ = 0;
  double period_fresh_ = 0;
  double next_tick_ = 5;
  int rounds_at_tick_ = 0;
  Truth out_;
};

}  // namespace

Guest::Guest(const Workload& workload, std::uint64_t seed) : workload_(workload), rng_(seed) {
  position_ = rng_.below(std::max<std::size_t>(1, workload.wws_pages));
}

std::size_t Guest::next() {
  // The WWS lies somewhere in memory, at the same place every time.
  const std::size_t base = (workload_.seed * 7919) % workload_.pages;
  std::size_t at = 0;
  switch (workload_.kind) {
    case Workload::Kind::Random:
      at = rng_.below(workload_.wws_pages);
      break;
    case Workload::Kind::Sweep:
      at = position_++ % workload_.wws_pages;
      break;
    case Workload::Kind::HotAndCold:
      at = rng_.chance(0.9) ? rng_.below(1 + workload_.wws_pages / 8)
                            : rng_.below(workload_.wws_pages);
      break;
    case Workload::Kind::Everywhere:
      at = rng_.below(workload_.pages);
      break;
  }
  return (base + at) % workload_.pages;
}

Truth simulate(const Workload& workload, const Move& move, double most_s) {
  return Migration(workload, move).run(most_s);
}

MemoryProfile watch(const Workload& workload, int cycles, double cycle_s) {
  MemoryProfile out;
  out.source = "sim";
  out.total = Bytes{static_cast<std::uint64_t>(workload.pages * 4096)};
  std::vector<bool> zero = zero_pages(workload);
  SeededRng days(workload.seed ^ 0xda75);
  Guest guest(workload, days.next());
  guest.run(20, [&](std::size_t page) { zero[page] = false; });
  for (int i = 0; i < cycles; ++i) {
    DirtyCycle cycle;
    std::vector<bool> seen(workload.pages, false);
    std::uint64_t unique = 0;
    double before = 0;
    for (const double at : {0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 64.0}) {
      if (at > cycle_s) break;
      guest.run((at - before) * workload.share, [&](std::size_t page) {
        unique += seen[page] ? 0 : 1;
        seen[page] = true;
      });
      before = at;
      const auto micro = [](double s) { return Microseconds{std::llround(s * 1e6)}; };
      cycle.points.push_back({micro(at), micro(at * workload.share), Bytes{unique * 4096}});
    }
    out.cycles.push_back(cycle);
  }
  out.zero = Bytes{static_cast<std::uint64_t>(std::count(zero.begin(), zero.end(), true)) * 4096};
  return out;
}

Workload any_workload(SeededRng& rng) {
  Workload out;
  out.kind = static_cast<Workload::Kind>(rng.below(4));
  out.pages = 2048 + rng.below(6144);
  out.zero_pages = rng.below(out.pages / 2);
  out.wws_pages = 16 + rng.below(out.pages / 2);
  out.writes_per_s = std::pow(10, 0.5 + 3 * rng.unit());  // 3 to 3000
  out.share = 0.3 + 0.7 * rng.unit();
  out.seed = rng.next();
  return out;
}

Move any_move(SeededRng& rng, const Workload& workload) {
  Move out;
  // Round 0 of 1 to 12 s, as for real VMs.
  out.link_pages_per_s = static_cast<double>(workload.pages) / (1 + 11 * rng.unit());
  out.downtime_limit_s = 0.1 + 0.4 * rng.unit();
  out.throttled = rng.chance(0.3);
  return out;
}

}  // namespace mare::policy::test
