#include "orchestrator/engine/move_slots.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace mare::engine {

void MoveSlots::hold(const OperationId& id, const HostId& source, const HostId& destination) {
  going_[id] = {source, destination};
}

policy::MoveLoad MoveSlots::load() const {
  policy::MoveLoad out;
  for (const auto& [id, route] : going_) out.add(route.source, route.destination);
  return out;
}

std::string MoveSlots::ask(const OperationId& id, const HostId& source, const HostId& destination) {
  if (going_.contains(id)) return "";
  const auto mine = [&](const Waiter& waiter) { return waiter.id == id; };
  if (std::none_of(queue_.begin(), queue_.end(), mine)) {
    queue_.push_back({id, {source, destination}, 0, {}});
    serve();
    if (going_.contains(id)) return "";
  }
  const std::string over = load().over(source, destination, caps_);
  return over.empty() ? "its place is kept for one that waits longer" : over;
}

void MoveSlots::on_turn(const OperationId& id, std::function<void()> turn) {
  const auto waiter =
      std::find_if(queue_.begin(), queue_.end(), [&id](const auto& one) { return one.id == id; });
  if (waiter != queue_.end()) waiter->turn = std::move(turn);
}

bool MoveSlots::shares(const OperationId& id) const {
  const auto mine = going_.find(id);
  if (mine == going_.end()) return false;
  return std::any_of(going_.begin(), going_.end(), [&](const auto& other) {
    return other.first != id && (other.second.source == mine->second.source ||
                                 other.second.destination == mine->second.destination);
  });
}

void MoveSlots::leave(const OperationId& id) {
  const auto waited = std::erase_if(queue_, [&](const Waiter& waiter) { return waiter.id == id; });
  if (going_.erase(id) + waited > 0) serve();
}

/// From the oldest on, everybody who fits beside those that go, and beside those before it that
/// were overtaken too often.
void MoveSlots::serve() {
  policy::MoveLoad taken = load();
  std::vector<Waiter*> before;
  std::vector<std::function<void()>> turns;
  for (auto at = queue_.begin(); at != queue_.end();) {
    const Route route = at->route;
    if (!taken.over(route.source, route.destination, caps_).empty()) {
      if (at->overtaken >= kMostOvertakings) taken.add(route.source, route.destination);
      before.push_back(&*at);
      ++at;
      continue;
    }
    for (Waiter* earlier : before) {
      const Route& theirs = earlier->route;
      const bool shares = theirs.source == route.source || theirs.source == route.destination ||
                          theirs.destination == route.source ||
                          theirs.destination == route.destination;
      if (shares) ++earlier->overtaken;
    }
    taken.add(route.source, route.destination);
    going_[at->id] = route;
    if (at->turn) turns.push_back(std::move(at->turn));
    at = queue_.erase(at);
  }
  for (const auto& turn : turns) turn();
}

}  // namespace mare::engine
