// What every task of the engine shares: ports, the message queue, timers, the list of tasks.
// Internal. Everything here but Inbox belongs to the engine's thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/engine/engine.h"

namespace mare::engine {

class HostFencer;
class LinkMeter;
class MoveSlots;
class SwitchGangs;
class Task;
class Templates;

/// Messages to the engine's thread. Outlives the engine, so that a late answer of a call falls into
/// nothing.
class Inbox {
 public:
  void post(std::function<void()> message);
  std::vector<std::function<void()>> take();
  /// Waits for a message, at most `limit`.
  void wait(std::chrono::nanoseconds limit);
  void close();

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::function<void()>> messages_;
  bool closed_ = false;
};

struct Context {
  Ports ports;
  Settings settings;
  Engine::AfterCommit after_commit;
  std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>();
  std::multimap<MonotonicTime, std::function<void()>> timers{};
  std::map<OperationId, std::shared_ptr<Task>> tasks{};
  /// When the last operation on a VM ended; a host's list from before says nothing about that VM.
  std::map<VmId, MonotonicTime> settled{};
  /// Guests whose answers would come out of their program's time just now, and until when.
  std::map<VmId, MonotonicTime> spared{};
  std::mutex change_mutex{};
  std::function<void()> on_change{};
  std::shared_ptr<LinkMeter> links{};
  std::shared_ptr<MoveSlots> slots{};
  std::shared_ptr<SwitchGangs> gangs{};
  std::shared_ptr<HostFencer> fencer{};
  std::shared_ptr<Silences> silences{};
  std::shared_ptr<Templates> templates{};

  void after(std::chrono::nanoseconds delay, std::function<void()> what) {
    timers.emplace(ports.clock.now() + delay, std::move(what));
  }
  /// Nothing that can wait is asked of its guest for so long.
  void spare(const VmId& vm, std::chrono::nanoseconds length);
  /// How long its guest is to be spared; 0: it may be asked.
  std::chrono::nanoseconds spared_for(const VmId& vm) const;
  void changed();
  /// Starts a task for a committed operation that has none.
  void adopt(const Operation& operation, bool recovered);
  /// The driver of a host, by its row.
  Result<std::shared_ptr<Driver>> driver_of(const HostId& host) const;
};

/// Appends one event to the stream that clients follow. `data` is a JSON object.
Status emit(store::Transaction& tx, const Clock& clock, const std::string& topic,
            const std::string& subject, const std::string& type, const std::string& data);

// The events of entities, so that every change looks the same wherever it is made.
Status put_host(store::Transaction& tx, const Clock& clock, const Host& host);
Status put_vm(store::Transaction& tx, const Clock& clock, const Vm& vm);
Status put_job(store::Transaction& tx, const Clock& clock, const Job& job);
/// Told as an event of its job.
Status put_checkpoint(store::Transaction& tx, const Clock& clock, const Checkpoint& checkpoint);
Status put_forecast(store::Transaction& tx, const Clock& clock, const Forecast& forecast);
Status put_pool(store::Transaction& tx, const Clock& clock, const Pool& pool,
                const std::string& what);

/// Inserts an operation with its first history line and event. Fills in id, creation time and, if
/// it has none, its first state.
Result<Operation> insert_operation(store::Transaction& tx, const Clock& clock, Operation draft);

/// Runs a read query and hands out its value.
template <typename T>
Result<T> query(const store::Store& store,
                const std::function<Result<T>(const store::Reader&)>& ask) {
  Result<T> out = make_error(Code::Internal, "query did not run");
  auto done = store.read([&](const store::Reader& reader) -> Status {
    out = ask(reader);
    return ok_status();
  });
  if (!done) return done.error();
  return out;
}

}  // namespace mare::engine
