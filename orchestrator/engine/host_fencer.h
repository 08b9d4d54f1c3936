// Fences silent hosts (docs/adr/0008): what the rows call Begun becomes Over when nothing can run
// there any more, and then the VMs' rows are set free. Engine's thread. A process that finds a
// fence begun by another starts its wait anew, which is never too short.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/engine/context.h"

namespace mare::engine {

/// Where the storage shows that this host is fenced, for the nth time.
std::string fence_note(const Settings& settings, const Host& host, int number);
/// From that commit on its lease is not renewed.
Status begin_fence(store::Transaction& tx, const Clock& clock, const HostId& id);

class HostFencer {
 public:
  explicit HostFencer(Context& context) : context_(context) {}

  /// Goes on with what is begun; comes back by itself as long as something is.
  void look();

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
  Status free_vms(store::Transaction& tx, const Host& host);

  Context& context_;
  std::map<HostId, Watch> watches_;
  bool comes_back_ = false;
};

}  // namespace mare::engine
