#include "orchestrator/policy/sweep.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>

namespace mare::policy {
namespace {

// Parts of what is swept: a hundredth is finer than anybody knows where the guest is.
constexpr int kParts = 128;
constexpr int kStepsEach = 8;  // for each part that is sent
constexpr int kWaits = 46;
// What a second of the migration is worth beside one of the guest's, which it is slowed in.
constexpr double kHoldWorth = 0.3;
// Nobody knows exactly where it is, or how fast while it is sent; and who switches just before it
// has come round to the beginning has it wait until all is there.
constexpr double kUnsure[] = {-0.04, -0.02, 0, 0.02, 0.04};

using Missing = std::array<bool, kParts>;

double wrapped(double place) {
  return place - std::floor(place);
}

}  // namespace

SweepReplay::SweepReplay(double speed, double slowdown, bool descending)
    : speed_(speed), slowed_(speed * (1 - slowdown)), descending_(descending) {}

SweepEnd SweepReplay::switched(double place, double wait) const {
  // Along its own way: 0 where it begins.
  const double begin = descending_ ? 1 - place : place;
  const auto address = [&](int at) { return descending_ ? kParts - 1 - at : at; };
  const double gone = slowed_ * wait;
  Missing missing{};
  int count = 0;
  for (int at = 0; at < kParts; ++at) {
    const bool sent = (address(at) + 0.5) / kParts < wait;
    const bool written = wrapped((at + 0.5) / kParts - begin) < gone;
    missing.at(static_cast<std::size_t>(address(at))) = written || !sent;
    count += missing.at(static_cast<std::size_t>(address(at))) ? 1 : 0;
  }
  SweepEnd out;
  out.missing = static_cast<double>(count) / kParts;
  double where = wrapped(begin + gone) * kParts;
  double sent = 0;  // parts
  int stream = 0;
  constexpr double kStep = 1.0 / (kParts * kStepsEach);
  for (int left = count; left > 0;) {
    for (sent += kParts * kStep; sent >= 1 && left > 0; ++stream) {
      if (!missing.at(static_cast<std::size_t>(stream))) continue;
      missing.at(static_cast<std::size_t>(stream)) = false;
      sent -= 1;
      --left;
    }
    const double wanted = speed_ * kStep * kParts;
    double to = where + wanted;
    for (int at = static_cast<int>(where); at <= static_cast<int>(to); ++at) {
      if (!missing.at(static_cast<std::size_t>(address(at % kParts)))) continue;
      to = std::max(where, std::min(to, static_cast<double>(at)));
      break;
    }
    out.lost += kStep * (1 - (to - where) / wanted);
    where = std::fmod(to, kParts);
  }
  return out;
}

double SweepReplay::best_wait(double place) const {
  double best = 0;
  double least = 0;
  for (int i = 0; i < kWaits; ++i) {
    const double wait = kLongestWait * i / (kWaits - 1);
    // Waiting is not free: the guest is slowed.
    double lost = (speed_ - slowed_) / speed_ * wait;
    for (const double beside : kUnsure) {
      lost += switched(wrapped(place + beside), wait).lost / std::size(kUnsure);
    }
    if (i > 0 && lost >= least) continue;
    least = lost;
    best = wait;
  }
  return best;
}

std::vector<double> SweepReplay::best_waits(int parts) const {
  std::vector<double> out;
  for (int i = 0; i < parts; ++i) out.push_back(best_wait((i + 0.5) / parts));
  return out;
}

double SweepReplay::best_place(const std::vector<double>& waits) const {
  const auto parts = static_cast<int>(waits.size());
  std::vector<double> lost;
  for (int i = 0; i < parts; ++i) {
    lost.push_back(switched((i + 0.5) / parts, waits[static_cast<std::size_t>(i)]).lost);
  }
  const int beside = std::max(1, static_cast<int>(kUsualMiss * parts));
  double best = 0;
  double least = 0;
  for (int i = 0; i < parts; ++i) {
    double sum = 0;
    for (int j = i - beside; j <= i + beside; ++j) {
      sum += lost[static_cast<std::size_t>((j + parts) % parts)];
    }
    if (i > 0 && sum >= least) continue;
    least = sum;
    best = (i + 0.5) / parts;
  }
  return best;
}

double SweepReplay::way(double place, double best) const {
  return wrapped(descending_ ? place - best : best - place);
}

double SweepReplay::longest_way(const std::vector<double>& waits, double best) const {
  const auto parts = static_cast<int>(waits.size());
  const auto lost_at = [&](double place) {
    const auto part = std::min(parts - 1, static_cast<int>(wrapped(place) * parts));
    return switched((part + 0.5) / parts, waits[static_cast<std::size_t>(part)]).lost;
  };
  // It is not hit exactly.
  const double least =
      (lost_at(best - kUsualMiss) + lost_at(best) + lost_at(best + kUsualMiss)) / 3;
  double longest = 0;
  double most = 0;
  double won = 0;
  for (int i = 1; i < parts; ++i) {
    const double back = static_cast<double>(i) / parts;
    won += lost_at(descending_ ? best + back : best - back) - least - kHoldWorth * back / speed_;
    if (won <= most) continue;
    most = won;
    longest = back;
  }
  return longest;
}

}  // namespace mare::policy
