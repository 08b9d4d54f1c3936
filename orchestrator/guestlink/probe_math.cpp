#include "orchestrator/guestlink/probe_math.h"

#include <algorithm>

namespace mare::guestlink {
namespace {

constexpr std::ptrdiff_t kEnd = 20;
// Periods; less is the machine's noise.
constexpr int kSilent = 3;
// Periods: it may have fallen silent so long before it was asked, as a guest that is about to is
// asked that often.
constexpr int kBefore = 4;

MonotonicTime round_trip(const Sample& sample) {
  return sample.received - sample.sent;
}

bool shorter(const Sample& a, const Sample& b) {
  return round_trip(a) < round_trip(b);
}

/// Of each sample: when the first was sent that had no answer before this one.
std::vector<MonotonicTime> first_asked(const std::vector<Sample>& samples,
                                       const std::vector<MonotonicTime>& unanswered) {
  std::vector<MonotonicTime> first(samples.size());
  for (std::size_t i = samples.size(); i-- > 0;) {
    first[i] = samples[i].sent;
    if (i + 1 < samples.size()) first[i] = std::min(first[i], first[i + 1]);
  }
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const auto lost =
        std::upper_bound(unanswered.begin(), unanswered.end(), samples[i - 1].received);
    if (lost != unanswered.end()) first[i] = std::min(first[i], *lost);
  }
  return first;
}

MonotonicTime middle(const Sample& sample) {
  return sample.sent + round_trip(sample) / 2;
}

}  // namespace

ProbeReport evaluate(const std::vector<Sample>& samples,
                     const std::vector<MonotonicTime>& unanswered, int sent, Microseconds period) {
  ProbeReport report;
  report.sent = sent;
  report.answered = static_cast<int>(samples.size());
  report.period = period;
  std::size_t after = 0;  // the first answer after the longest silence
  bool silent = false;
  const auto first = first_asked(samples, unanswered);
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const MonotonicTime answered = samples[i - 1].received;
    const MonotonicTime began = std::max(answered, first[i] - kBefore * MonotonicTime{period});
    const auto silence = std::chrono::duration_cast<Microseconds>(samples[i].received - began);
    if (silence <= report.longest_silence) continue;
    report.longest_silence = silence;
    report.silence_began =
        samples[i - 1].received_wall + std::chrono::duration_cast<Microseconds>(began - answered);
    after = i;
    silent = samples[i].received - std::max(answered, first[i]) > kSilent * MonotonicTime{period};
  }
  const auto count = static_cast<std::ptrdiff_t>(samples.size());
  if (count < 2) return report;
  // Each end on its side of the silence, which is where time is lost.
  const auto before = silent ? static_cast<std::ptrdiff_t>(after) : count / 2;
  const auto at_begin = std::min(kEnd, before);
  const auto at_end = std::min(kEnd, count - before);
  const Sample& begin = *std::min_element(samples.begin(), samples.begin() + at_begin, shorter);
  const Sample& last = *std::min_element(samples.end() - at_end, samples.end(), shorter);
  const auto ours = middle(last) - middle(begin);
  const auto guests = last.guest - begin.guest;
  report.clock_lost =
      std::max(Microseconds{0}, std::chrono::duration_cast<Microseconds>(ours - guests));
  return report;
}

}  // namespace mare::guestlink
