// Ctrl-C as a descriptor that becomes readable: waits can include it, and nothing is done in the
// signal handler. The second Ctrl-C ends the program as usual.
#pragma once

#include "orchestrator/core/units.h"

namespace mare::cli {

class Interrupt {
 public:
  /// Handles SIGINT and SIGTERM from now on. One per process.
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  int fd() const;
  bool seen() const;
  /// Waits that long; false when interrupted.
  bool wait(Milliseconds duration) const;
  /// Forgets an interrupt, so that further waits are possible. The next one ends the program.
  void clear();
};

}  // namespace mare::cli
