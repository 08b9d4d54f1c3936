#include "orchestrator/engine/switch_gangs.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace mare::engine {

void SwitchGangs::join(const OperationId& id, const JobId& job) {
  if (members_.contains(id)) return;
  const auto [open, fresh] = open_.try_emplace(job, last_ + 1);
  if (fresh) ++last_;
  members_[id].gang = open->second;
}

void SwitchGangs::ready(const OperationId& id, std::function<void()> go) {
  const auto found = members_.find(id);
  if (found == members_.end()) return go();
  found->second.go = std::move(go);
  const int gang = found->second.gang;
  std::erase_if(open_, [&](const auto& entry) { return entry.second == gang; });
  go_if_ready(gang);
}

void SwitchGangs::leave(const OperationId& id) {
  const auto found = members_.find(id);
  if (found == members_.end()) return;
  const int gang = found->second.gang;
  members_.erase(found);
  if (std::none_of(members_.begin(), members_.end(),
                   [&](const auto& entry) { return entry.second.gang == gang; })) {
    std::erase_if(open_, [&](const auto& entry) { return entry.second == gang; });
  }
  go_if_ready(gang);
}

void SwitchGangs::let_go(const OperationId& id) {
  const auto found = members_.find(id);
  if (found != members_.end()) go(found->second.gang);
}

int SwitchGangs::size(const OperationId& id) const {
  const auto found = members_.find(id);
  if (found == members_.end()) return 0;
  return static_cast<int>(std::count_if(members_.begin(), members_.end(), [&](const auto& entry) {
    return entry.second.gang == found->second.gang;
  }));
}

void SwitchGangs::go_if_ready(int gang) {
  const bool all = std::all_of(members_.begin(), members_.end(), [&](const auto& entry) {
    return entry.second.gang != gang || entry.second.go;
  });
  if (all) go(gang);
}

void SwitchGangs::go(int gang) {
  std::vector<std::function<void()>> calls;
  std::erase_if(members_, [&](auto& entry) {
    if (entry.second.gang != gang) return false;
    if (entry.second.go) calls.push_back(std::move(entry.second.go));
    return true;
  });
  std::erase_if(open_, [&](const auto& entry) { return entry.second == gang; });
  for (const auto& call : calls) call();
}

}  // namespace mare::engine
