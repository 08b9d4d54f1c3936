#include "hypervisor/dirtylog/sweep_by_content.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace mare::dirtylog {
namespace {

constexpr std::size_t kFewestChanged = 8;
/// One more than a log's chunks need: these are of a few samples each.
constexpr int kFewestSteps = 3;
/// One that goes on and off goes through its memory at no speed: of its chunks, and after them, one
/// may be out of step by so much.
constexpr double kSteady = 2;
constexpr int kPauses = 1;

}  // namespace

SweepByContent::SweepByContent(PageSet written) : pages_(written.count()), fewest_(kFewestChanged) {
  if (pages_ < kLeastSwept) return;
  samples_ = spread_over(written, kSamplesOfASweep);
  // Of several blocks of the guest's kernel.
  fewest_ = std::max(kFewestChanged, samples_.size() * kChunkPages / pages_);
}

void SweepByContent::look(std::vector<std::uint64_t> sums, MonotonicTime at) {
  if (first_.empty()) {
    first_ = sums;
    sums_ = std::move(sums);
    at_ = at;
    return;
  }
  const auto since_first = change_between(first_, sums);
  changed_ = since_first ? since_first->count : 0;
  last_look_ = at;
  const auto change = change_between(sums_, sums);
  if (!change || change->count < fewest_) return;
  chunks_.push_back({*change, std::chrono::duration<double>(at - at_).count()});
  sums_ = std::move(sums);
  at_ = at;
}

std::size_t SweepByContent::changed() const {
  return samples_.empty() ? 0 : pages_ * changed_ / samples_.size();
}

std::optional<SweepSpeed> SweepByContent::found() const {
  const auto samples = static_cast<double>(samples_.size());
  double way = 0;  // in times through
  double took_s = 0;
  for (const Chunk& chunk : chunks_) {
    way += static_cast<double>(chunk.change.count) / samples;
    took_s += chunk.took_s;
  }
  if (took_s <= 0) return std::nullopt;
  SweepSteps steps;
  const double usual_s = took_s / static_cast<double>(chunks_.size());
  const double rests_s = std::chrono::duration<double>(last_look_ - at_).count();
  int pauses = rests_s > kSteady * usual_s ? 1 : 0;
  for (std::size_t i = 1; i < chunks_.size(); ++i) {
    const Change& one = chunks_[i - 1].change;
    const Change& next = chunks_[i].change;
    const auto share = [samples](std::size_t count) {
      return static_cast<double>(count) / samples;
    };
    steps.add(one.centre, next.centre, share(one.count + next.count) / 2);
    const double pace = share(next.count) / chunks_[i].took_s * took_s / way;
    if (pace > kSteady || pace * kSteady < 1) ++pauses;
  }
  if (pauses > kPauses || !steps.agree(kFewestSteps)) return std::nullopt;
  return SweepSpeed{steps.descending(), way / took_s * static_cast<double>(pages_)};
}

}  // namespace mare::dirtylog
