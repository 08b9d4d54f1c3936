// Fences silent hosts (docs/adr/0008): what the rows call Begun becomes Over when nothing can run
// there any more, and then the VMs' rows are set free. That is when the host's lease is over, or
// when the fence command has turned it off, whichever is first; one that holds no lease (Begun with
// a lease of 0) waits for the command alone. Engine's thread. A process that finds a fence begun by
// another starts its wait anew, which is never too short.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/engine/fence_tries.h"

namespace mare::engine {

/// Where the storage shows that this host is fenced, for the nth time.
std::string fence_note(const Settings& settings, const Host& host, int number);
/// It holds a lease, or there is a command that turns it off.
bool can_be_fenced(const Context& context, const Host& host);
/// From that commit on its lease is not renewed.
Status begin_fence(store::Transaction& tx, const Clock& clock, const HostId& id);

class HostFencer {
 public:
  explicit HostFencer(Context& context);

  /// Goes on with what is begun; comes back by itself as long as something is.
  void look();
  /// A host without a lease answers while its fence is begun. Nothing has told its VMs to end, so
  /// there is a way back. False when that could not be kept.
  bool take_back(Host host);
  /// The fence command runs for it, and may turn it off any moment.
  bool is_being_turned_off(const HostId& id) const { return tries_.under_way(id); }

 private:
  struct Watch {
    MonotonicTime since{0};
    bool asking = false;
    std::size_t asked = 0;
    std::optional<MonotonicTime> noted;
  };

  void go_on(const Host& host, const std::vector<Host>& hosts);
  void order_note(const Host& host, const std::vector<Host>& hosts);
  void over(Host host);
  void over_by_command(Host host, const std::string& words);
  void wait_for_lease(const Host& host, const std::vector<Host>& hosts);
  Status free_vms(store::Transaction& tx, const Host& host);

  Context& context_;
  std::map<HostId, Watch> watches_;
  FenceTries tries_;
  bool comes_back_ = false;
};

}  // namespace mare::engine
