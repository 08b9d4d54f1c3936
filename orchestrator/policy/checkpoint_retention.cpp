#include "orchestrator/policy/checkpoint_retention.h"

#include <algorithm>
#include <set>

namespace mare::policy {
namespace {

const Checkpoint* find(const std::vector<Checkpoint>& all, const CheckpointId& id) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Checkpoint& one) { return one.id == id; });
  return found == all.end() ? nullptr : &*found;
}

const Checkpoint* newest_complete(const std::vector<Checkpoint>& newest_first) {
  const auto found =
      std::find_if(newest_first.begin(), newest_first.end(),
                   [](const Checkpoint& one) { return one.state == CheckpointState::Complete; });
  return found == newest_first.end() ? nullptr : &*found;
}

/// Those that stay for their own sake.
std::set<CheckpointId> kept(const std::vector<Checkpoint>& newest_first, const CheckpointPlan& plan,
                            WallTime now) {
  std::set<CheckpointId> out;
  for (const auto& one : newest_first) {
    if (one.state == CheckpointState::Writing) out.insert(one.id);
  }
  int complete = 0;
  for (const auto& one : newest_first) {
    if (one.state != CheckpointState::Complete) continue;
    const bool last = complete++ == 0;
    const bool old = plan.max_age > Seconds{0} && Seconds{now - one.completed} > plan.max_age;
    if (last || (complete <= plan.keep && !old)) out.insert(one.id);
  }
  return out;
}

/// Those and all that they are built on.
std::set<CheckpointId> with_bases(const std::vector<Checkpoint>& all,
                                  const std::set<CheckpointId>& some) {
  std::set<CheckpointId> out;
  for (const auto& id : some) {
    const Checkpoint* at = find(all, id);
    while (at != nullptr && out.insert(at->id).second) at = find(all, base_of(*at));
  }
  return out;
}

}  // namespace

std::optional<int> chain_depth(const std::vector<Checkpoint>& all, const CheckpointId& id) {
  int depth = 0;
  const Checkpoint* at = find(all, id);
  while (at != nullptr) {
    const CheckpointId base = base_of(*at);
    if (base.value.empty()) return depth;
    if (++depth > static_cast<int>(all.size())) return std::nullopt;
    at = find(all, base);
  }
  return std::nullopt;
}

std::optional<Checkpoint> base_for_next(const std::vector<Checkpoint>& newest_first,
                                        const CheckpointPlan& plan) {
  if (plan.mode != CheckpointMode::Incremental) return std::nullopt;
  const Checkpoint* newest = newest_complete(newest_first);
  if (newest == nullptr) return std::nullopt;
  const auto depth = chain_depth(newest_first, newest->id);
  if (!depth || *depth >= plan.chain) return std::nullopt;
  return *newest;
}

std::vector<Retired> retire(const std::vector<Checkpoint>& newest_first, const CheckpointPlan& plan,
                            WallTime now) {
  const auto stays = kept(newest_first, plan, now);
  const auto needed = with_bases(newest_first, stays);
  std::vector<Retired> out;
  for (const auto& one : newest_first) {
    if (one.state != CheckpointState::Complete && one.state != CheckpointState::Needed) continue;
    if (stays.contains(one.id)) continue;
    const auto to = needed.contains(one.id) ? CheckpointState::Needed : CheckpointState::Dropping;
    if (to != one.state) out.emplace_back(one.id, to);
  }
  return out;
}

std::optional<Checkpoint> worth_merging(const std::vector<Checkpoint>& newest_first,
                                        const CheckpointPlan& plan) {
  const Checkpoint* newest = newest_complete(newest_first);
  if (plan.mode != CheckpointMode::Incremental || newest == nullptr) return std::nullopt;
  if (chain_depth(newest_first, newest->id).value_or(0) < plan.chain) return std::nullopt;
  // The oldest that stays: all below it are only needed for it.
  for (auto one = newest_first.rbegin(); one != newest_first.rend(); ++one) {
    if (one->state != CheckpointState::Complete) continue;
    const Checkpoint* base = find(newest_first, base_of(*one));
    if (base == nullptr || base->state != CheckpointState::Needed) return std::nullopt;
    return *one;
  }
  return std::nullopt;
}

}  // namespace mare::policy
