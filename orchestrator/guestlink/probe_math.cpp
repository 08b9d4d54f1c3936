#include "orchestrator/guestlink/probe_math.h"

#include <algorithm>

namespace mare::guestlink {
namespace {

constexpr std::ptrdiff_t kEnd = 20;
// Periods; less is the machine's noise.
constexpr int kSilent = 3;

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
  std::size_t after = 0;  // the first answer after the longest silence
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const auto silence =
        std::chrono::duration_cast<Microseconds>(samples[i].received - samples[i - 1].received);
    if (silence <= report.longest_silence) continue;
    report.longest_silence = silence;
    report.silence_began = samples[i - 1].received_wall;
    after = i;
  }
  const auto count = static_cast<std::ptrdiff_t>(samples.size());
  if (count < 2) return report;
  // Each end on its side of the silence, which is where time is lost.
  const bool silent = report.longest_silence > kSilent * period;
  const auto before = silent ? static_cast<std::ptrdiff_t>(after) : count / 2;
  const auto at_begin = std::min(kEnd, before);
  const auto at_end = std::min(kEnd, count - before);
  const Sample& first = *std::min_element(samples.begin(), samples.begin() + at_begin, shorter);
  const Sample& last = *std::min_element(samples.end() - at_end, samples.end(), shorter);
  const auto ours = middle(last) - middle(first);
  const auto guests = last.guest - first.guest;
  report.clock_lost =
      std::max(Microseconds{0}, std::chrono::duration_cast<Microseconds>(ours - guests));
  return report;
}

}  // namespace mare::guestlink
