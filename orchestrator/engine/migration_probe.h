// The guest's echo during one migration. Starting it is a call that can block, so it happens on the
// executor and may come too late or never: a migration does not wait for being watched.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "orchestrator/engine/context.h"

namespace mare::engine {

class MigrationProbe {
 public:
  static std::shared_ptr<MigrationProbe> start(Context& context, const GuestAddress& guest);
  /// GuestProbe::watch_closely().
  void watch_closely(bool closely);
  /// What was seen; empty when it never began. Ends the sampling.
  std::optional<ProbeReport> stop();

 private:
  std::mutex mutex_;
  bool stopped_ = false;
  bool closely_ = false;
  std::unique_ptr<GuestProbe> probe_;
};

}  // namespace mare::engine
