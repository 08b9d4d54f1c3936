// The fence command of silent hosts (docs/adr/0008): tried while a fence is begun, again some time
// after each try that failed. Nothing of it is kept: a process that finds a fence begun by another
// runs the command anew. Engine's thread; the command itself runs on the executor.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "orchestrator/engine/context.h"

namespace mare::engine {

class FenceTries {
 public:
  /// The host is off, by what the command said. The row is as it is now, its fence begun.
  using IsOff = std::function<void(const Host& host, const std::string& words)>;

  FenceTries(Context& context, IsOff is_off) : context_(context), is_off_(std::move(is_off)) {}

  /// Of a host whose fence is begun: runs the command if a try is due.
  void go_on(const Host& host);
  /// Its fence is not begun any more: a try that still waits for a thread is not made. One that
  /// runs can't be taken back.
  void stop(const HostId& id);
  /// The command runs for it, and may turn it off any moment.
  bool under_way(const HostId& id) const;

 private:
  using Said = std::optional<Result<std::string>>;  // none: it was not run
  struct Tries {
    int number = 0;  // of the fence
    bool running = false;
    MonotonicTime next{0};
    std::shared_ptr<std::atomic<bool>> wanted;  // of the try under way
  };

  void ended(const Host& asked, const Said& said);
  void failed(Host host, const Error& error);

  Context& context_;
  IsOff is_off_;
  std::map<HostId, Tries> tries_;
};

/// The host's reason with these words of the fence command in the place of earlier ones.
std::string with_command_words(const std::string& reason, const std::string& words);

}  // namespace mare::engine
