#include "orchestrator/guestlink/probe_math.h"

#include <algorithm>

namespace mare::guestlink {
namespace {

constexpr std::ptrdiff_t kEnd = 20;

MonotonicTime round_trip(const Sample& sample) {
  return sample.received - sample.sent;
}

bool shorter(const Sample& a, const Sample& b) {
  return round_trip(a) < round_trip(b);
}

MonotonicTime middle(const Sample& sample) {
  return sample.sent + round_trip(sample) / 2;
}

}  // namespace

ProbeReport evaluate(const std::vector<Sample>& samples, int sent, Microseconds period) {
  ProbeReport report;
  report.sent = sent;
  report.answered = static_cast<int>(samples.size());
  report.period = period;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const auto silence =
        std::chrono::duration_cast<Microseconds>(samples[i].received - samples[i - 1].received);
    if (silence <= report.longest_silence) continue;
    report.longest_silence = silence;
    report.silence_began = samples[i - 1].received_wall;
  }
  const auto count = static_cast<std::ptrdiff_t>(samples.size());
  if (count < 2) return report;
  const auto some = std::min(kEnd, count / 2);
  const Sample& first = *std::min_element(samples.begin(), samples.begin() + some, shorter);
  const Sample& last = *std::min_element(samples.end() - some, samples.end(), shorter);
  const auto ours = middle(last) - middle(first);
  const auto guests = last.guest - first.guest;
  report.clock_lost =
      std::max(Microseconds{0}, std::chrono::duration_cast<Microseconds>(ours - guests));
  return report;
}

}  // namespace mare::guestlink
