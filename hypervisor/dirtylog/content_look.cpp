#include "hypervisor/dirtylog/content_look.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "hypervisor/dirtylog/page_samples.h"
#include "hypervisor/dirtylog/sweep_steps.h"

namespace mare::dirtylog {
namespace {

constexpr std::size_t kFewestChanged = 8;
/// Twice what a log needs, which sees each page: half a block of the guest's kernel beside where it
/// ought to be is an eighth of a step then.
constexpr std::size_t kPagesOfAChunk = 2 * kChunkPages;
/// One more than a log's chunks need: these are of a few samples each.
constexpr int kFewestSteps = 3;
/// One that goes on and off goes through its memory at no speed: of its chunks, and after them, one
/// may be out of step by so much.
constexpr double kSteady = 2;
constexpr int kPauses = 1;

double seconds_between(MonotonicTime from, MonotonicTime to) {
  return std::chrono::duration<double>(to - from).count();
}

std::vector<std::uint64_t> some_of(const std::vector<std::uint64_t>& sums,
                                   const std::vector<std::size_t>& which) {
  std::vector<std::uint64_t> out;
  out.reserve(which.size());
  for (const std::size_t i : which) out.push_back(sums[i]);
  return out;
}

}  // namespace

/// What was written until so much of it was that its centre tells something.
struct ContentLook::Chunk {
  Change change;
  MonotonicTime began{0};
  MonotonicTime ended{0};
  double took_s() const { return seconds_between(began, ended); }
};

void ContentLook::look(ContentReading reading, MonotonicTime at) {
  pages_each_ = reading.pages_each;
  looks_.push_back({std::move(reading.sums), reading.progress, at});
}

std::vector<DirtyPoint> ContentLook::points() const {
  std::vector<DirtyPoint> out;
  Bytes most;
  for (std::size_t i = 1; i < looks_.size(); ++i) {
    const Look& first = looks_.front();
    const auto change = change_between(first.sums, looks_[i].sums);
    // What is written back as it was had been written.
    most = std::max(most, Bytes{(change ? change->count : 0) * pages_each_ * kPageBytes});
    DirtyPoint point;
    point.wall = std::chrono::duration_cast<Microseconds>(looks_[i].at - first.at);
    point.progress = looks_[i].progress - first.progress;
    point.unique = most;
    out.push_back(point);
  }
  return out;
}

PageSet ContentLook::written() const {
  PageSet out;
  if (looks_.empty()) return out;
  const auto& first = looks_.front().sums;
  const auto& last = looks_.back().sums;
  for (std::size_t i = 0; i < std::min(first.size(), last.size()); ++i) {
    if (first[i] != last[i]) out.add(i * pages_each_, (i + 1) * pages_each_);
  }
  return out;
}

std::vector<double> ContentLook::heat() const {
  std::vector<double> out(kHeatRegions, 0);
  if (looks_.empty()) return out;
  const auto& first = looks_.front().sums;
  const auto& last = looks_.back().sums;
  const std::size_t samples = std::min(first.size(), last.size());
  std::vector<std::size_t> all(kHeatRegions, 0);
  for (std::size_t i = 0; i < samples; ++i) {
    const std::size_t region = i * kHeatRegions / samples;
    ++all[region];
    if (first[i] != last[i]) out[region] += 1;
  }
  for (std::size_t region = 0; region < kHeatRegions; ++region) {
    if (all[region] != 0) out[region] /= static_cast<double>(all[region]);
  }
  return out;
}

std::vector<ContentLook::Chunk> ContentLook::chunks(const std::vector<std::size_t>& which) const {
  const std::size_t fewest = std::max(kFewestChanged, kPagesOfAChunk / pages_each_);
  std::vector<Chunk> out;
  auto before = some_of(looks_.front().sums, which);
  MonotonicTime began = looks_.front().at;
  for (std::size_t i = 1; i < looks_.size(); ++i) {
    auto now = some_of(looks_[i].sums, which);
    const auto change = change_between(before, now);
    if (!change || change->count < fewest) continue;
    out.push_back({*change, began, looks_[i].at});
    began = looks_[i].at;
    before = std::move(now);
  }
  return out;
}

ContentLook::Verdict ContentLook::sweep(const PageSet& known) const {
  if (looks_.empty()) return {};
  const PageSet lately = written();
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < looks_.front().sums.size(); ++i) {
    const std::size_t page = sampled_page(i, pages_each_);
    if (known.has(page) || lately.has(page)) which.push_back(i);
  }
  if (which.size() * pages_each_ < kLeastSwept) return {};
  const auto all = chunks(which);
  if (all.empty()) return {};
  const auto samples = static_cast<double>(which.size());
  const auto share = [samples](const Chunk& chunk) {
    return static_cast<double>(chunk.change.count) / samples;
  };
  double way = 0;  // in times through
  for (const Chunk& chunk : all) way += share(chunk);
  const double took_s = seconds_between(all.front().began, all.back().ended);
  const double usual_s = took_s / static_cast<double>(all.size());
  int pauses = seconds_between(all.back().ended, looks_.back().at) > kSteady * usual_s ? 1 : 0;
  SweepSteps steps;
  for (std::size_t i = 1; i < all.size(); ++i) {
    steps.add(all[i - 1].change.centre, all[i].change.centre,
              (share(all[i - 1]) + share(all[i])) / 2);
    const double pace = share(all[i]) / all[i].took_s() * took_s / way;
    if (pace > kSteady || pace * kSteady < 1) ++pauses;
  }
  if (steps.count() < kFewestSteps) return {};
  if (pauses > kPauses || !steps.agree(kFewestSteps)) return {true, std::nullopt};
  return {true, SweepSpeed{steps.descending(),
                           way / took_s * samples * static_cast<double>(pages_each_)}};
}

}  // namespace mare::dirtylog
