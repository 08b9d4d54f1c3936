// Has the newest checkpoint of each job that asks for it kept in the memory of partner hosts: looks
// once a second which host is to keep what, and tells those that do not know. Nothing depends on
// it: what a row says of a partner is where a restart looks first, and the files are always there.
// A host is told all that it is to keep, so nothing of ended jobs stays. Engine's thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/engine/context.h"

namespace mare::engine {

class StandbyKeeper {
 public:
  explicit StandbyKeeper(Context& context) : context_(context) {}

  /// Looks once, then again every second.
  void beat();

 private:
  using Wanted = std::pair<CheckpointId, CheckpointPart>;
  using Wishes = std::map<HostId, std::vector<Wanted>>;
  struct Told {
    std::string what;  // the wishes, in words
    MonotonicTime when{0};
    bool good = false;
  };
  struct Rows {
    std::vector<Host> hosts;
    Wishes wishes;
    std::vector<Checkpoint> outdated;  // their rows name partners that are not wanted any more
  };

  Result<Rows> look(const store::Reader& reader) const;
  /// Which host is to keep which of its parts.
  Status wish(const store::Reader& reader, const Job& job, const Checkpoint& newest,
              Rows& out) const;
  static void keep_as_it_is(const Checkpoint& checkpoint, Wishes& to);
  void forget_outdated(const std::vector<Checkpoint>& outdated);
  void tell(const Host& host, const std::vector<Wanted>& wanted);
  void answered(const HostId& host, const std::vector<Wanted>& wanted,
                const Result<std::vector<StandbyAnswer>>& answer);
  void note(const HostId& host, const Wanted& wanted, const StandbyAnswer& answer);

  Context& context_;
  std::map<HostId, Told> told_;
  std::set<HostId> busy_;
  std::set<HostId> unable_;  // until they are started anew
};

}  // namespace mare::engine
