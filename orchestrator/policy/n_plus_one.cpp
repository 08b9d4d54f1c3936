#include "orchestrator/policy/n_plus_one.h"

#include <algorithm>
#include <numeric>

namespace mare::policy {
namespace {

// Of the search for a packing that simple rules miss: 0.1 ms on 100 hosts.
constexpr int kSearchSteps = 200;

std::size_t at(int index) {
  return ClusterState::at(index);
}

void add_once(std::vector<HostIndex>& hosts, HostIndex host) {
  if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
}

}  // namespace

NPlusOne::NPlusOne(const ClusterState& state)
    : state_(&state),
      refuge_(at(state.vms()), kNowhere),
      claims_(at(state.hosts())),
      stranded_(at(state.hosts()), 0) {
  if (!on()) return;
  for (int h = 0; h < state.hosts(); ++h) {
    if (state.usable(h)) keep(pack(h));
  }
  changes_.clear();
}

void NPlusOne::renew() {
  if (!on()) return;
  for (int h = 0; h < state_->hosts(); ++h) {
    if (!state_->usable(h)) continue;
    const Packing packing = pack(h);
    if (packing.stranded <= stranded_[at(h)]) keep(packing);
  }
  changes_.clear();
}

void NPlusOne::retry_exposed() {
  for (int h = 0; h < state_->hosts(); ++h) {
    if (!exposed(h)) continue;
    const Packing packing = pack(h);
    if (packing.stranded < stranded_[at(h)]) keep(packing);
  }
}

/// Hosts whose VMs may have lost their refuge: the destination, which has one VM more; those whose
/// claims on the destination no longer fit beside it, or may not share a host with it.
std::vector<HostIndex> NPlusOne::broken_by(VmIndex v, HostIndex from, HostIndex to) const {
  std::vector<HostIndex> broken{to};
  if (from != kNowhere && exposed(from)) broken.push_back(from);
  std::vector<std::pair<HostIndex, std::uint64_t>> claimed;  // by the host that would fail
  const int anti = state_->anti_group(v);
  for (const VmIndex guest : claims_[at(to)]) {
    const HostIndex failing = state_->host_of(guest);
    if (guest == v || failing == kNowhere || failing == to) continue;
    if (anti != kNowhere && state_->anti_group(guest) == anti) add_once(broken, failing);
    auto found = std::find_if(claimed.begin(), claimed.end(),
                              [failing](const auto& one) { return one.first == failing; });
    if (found == claimed.end()) found = claimed.insert(found, {failing, 0});
    found->second += state_->need(guest, to);
  }
  const auto free = static_cast<std::uint64_t>(std::max<std::int64_t>(0, state_->free_memory(to)));
  for (const auto& [failing, bytes] : claimed) {
    if (bytes > free) add_once(broken, failing);
  }
  return broken;
}

bool NPlusOne::admit(VmIndex v, HostIndex from, HostIndex to) {
  if (!on()) return true;
  std::vector<Packing> packings;
  for (const HostIndex failing : broken_by(v, from, to)) {
    if (!state_->usable(failing)) continue;
    Packing packing = pack(failing);
    if (packing.stranded > stranded_[at(failing)]) return false;
    packings.push_back(std::move(packing));
  }
  for (const Packing& packing : packings) keep(packing);  // that of `to` has v in it
  return true;
}

NPlusOne::Packing NPlusOne::pack(HostIndex failing) const {
  std::vector<VmIndex> order = state_->vms_on(failing);
  std::sort(order.begin(), order.end(), [this](VmIndex a, VmIndex b) {
    const auto of_a = state_->memory_of(a);
    const auto of_b = state_->memory_of(b);
    return of_a != of_b ? of_a > of_b : a < b;
  });
  // The emptiest host first leaves the claims spread thin, so that later moves break few of them;
  // the tightest first finds a packing in clusters that are nearly full; a search finds what both
  // miss, as far as its limit goes.
  Packing loose = pack_by(failing, order, Fit::Worst);
  if (loose.stranded == 0) return loose;
  Packing tight = pack_by(failing, order, Fit::Best);
  if (tight.stranded == 0) return tight;
  Packing found;
  found.host = failing;
  for (const VmIndex v : order) found.refuges.emplace_back(v, kNowhere);
  std::vector<std::int64_t> left = room_beside(failing);
  int steps_left = kSearchSteps;
  if (search(found, left, 0, steps_left)) return found;
  return tight.stranded < loose.stranded ? tight : loose;
}

std::vector<std::int64_t> NPlusOne::room_beside(HostIndex failing) const {
  std::vector<std::int64_t> left(at(state_->hosts()));
  for (int h = 0; h < state_->hosts(); ++h) {
    left[at(h)] = h == failing || !state_->usable(h) ? -1 : state_->free_memory(h);
  }
  return left;
}

/// Memory, tags, and no VM of its anti-affinity group there, nor one that fled there with it.
bool NPlusOne::may_shelter(const Packing& packing, VmIndex v, HostIndex h,
                           const std::vector<std::int64_t>& left) const {
  if (left[at(h)] < static_cast<std::int64_t>(state_->need(v, h))) return false;
  if (!state_->tags_allow(v, h)) return false;
  const int anti = state_->anti_group(v);
  if (anti == kNowhere) return true;
  if (state_->anti_members_on(anti, h) > 0) return false;
  return std::none_of(packing.refuges.begin(), packing.refuges.end(), [&](const auto& fled) {
    return fled.second == h && fled.first != v && state_->anti_group(fled.first) == anti;
  });
}

NPlusOne::Packing NPlusOne::pack_by(HostIndex failing, const std::vector<VmIndex>& largest_first,
                                    Fit fit) const {
  Packing out;
  out.host = failing;
  std::vector<std::int64_t> left = room_beside(failing);
  for (const VmIndex v : largest_first) {
    HostIndex best = kNowhere;
    for (int h = 0; h < state_->hosts(); ++h) {
      const bool better = best == kNowhere || (fit == Fit::Worst ? left[at(h)] > left[at(best)]
                                                                 : left[at(h)] < left[at(best)]);
      if (better && may_shelter(out, v, h, left)) best = h;
    }
    out.refuges.emplace_back(v, best);
    if (best == kNowhere) {
      out.stranded += std::max<std::uint64_t>(1, state_->memory_of(v));
    } else {
      left[at(best)] -= static_cast<std::int64_t>(state_->need(v, best));
    }
  }
  return out;
}

/// Depth first, the tightest host first.
bool NPlusOne::search(Packing& packing, std::vector<std::int64_t>& left, std::size_t item,
                      int& steps_left) const {
  if (item == packing.refuges.size()) return true;
  const VmIndex v = packing.refuges[item].first;
  std::vector<std::pair<std::int64_t, HostIndex>> hosts;
  for (int h = 0; h < state_->hosts(); ++h) {
    if (may_shelter(packing, v, h, left)) hosts.emplace_back(left[at(h)], h);
  }
  std::sort(hosts.begin(), hosts.end());
  for (const auto& [room, h] : hosts) {
    if (--steps_left < 0) return false;
    packing.refuges[item].second = h;
    left[at(h)] -= static_cast<std::int64_t>(state_->need(v, h));
    if (search(packing, left, item + 1, steps_left)) return true;
    left[at(h)] = room;
    packing.refuges[item].second = kNowhere;
  }
  return false;
}

void NPlusOne::set_refuge(VmIndex v, HostIndex refuge) {
  HostIndex& now = refuge_[at(v)];
  if (now == refuge) return;
  if (now != kNowhere) {
    auto& guests = claims_[at(now)];
    const auto found = std::find(guests.begin(), guests.end(), v);
    *found = guests.back();
    guests.pop_back();
  }
  now = refuge;
  if (refuge != kNowhere) claims_[at(refuge)].push_back(v);
}

void NPlusOne::keep(const Packing& packing) {
  for (const auto& [v, refuge] : packing.refuges) {
    changes_.push_back({v, refuge_[at(v)], 0});
    set_refuge(v, refuge);
  }
  changes_.push_back({kNowhere, packing.host, stranded_[at(packing.host)]});
  stranded_[at(packing.host)] = packing.stranded;
}

void NPlusOne::roll_back() {
  for (; !changes_.empty(); changes_.pop_back()) {
    const Change& last = changes_.back();
    if (last.vm == kNowhere) {
      stranded_[at(last.host)] = last.stranded;
    } else {
      set_refuge(last.vm, last.host);
    }
  }
}

int NPlusOne::exposed_hosts() const {
  return static_cast<int>(std::count_if(stranded_.begin(), stranded_.end(),
                                        [](std::uint64_t bytes) { return bytes > 0; }));
}

std::uint64_t NPlusOne::stranded_bytes() const {
  return std::accumulate(stranded_.begin(), stranded_.end(), std::uint64_t{0});
}

double NPlusOne::penalty() const {
  const int usable = state_->usable_hosts();
  return usable == 0 ? 0 : state_->policy().weights.n_plus_one * exposed_hosts() / usable;
}

}  // namespace mare::policy
