// One unfinished operation in memory. A task acts on the committed state of its operation; every
// act is idempotent, so entering a state again (after a crash, or when the disk was full) repeats
// it harmlessly.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/engine/context.h"
#include "orchestrator/model/lifecycles.h"

namespace mare::engine {

class Task : public std::enable_shared_from_this<Task> {
 public:
  using Also = std::function<Status(store::Transaction&)>;

  Task(Context& context, Operation operation)
      : context_(context),
        operation_(std::move(operation)),
        state_since_(context.ports.clock.now()) {}
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// Acts on the committed state. `recovered`: this process did not commit it.
  virtual void enter(bool recovered) = 0;
  /// operation().cancel_requested has become true.
  virtual void on_cancel() {}
  virtual void on_child_ended(const Operation& child) { (void)child; }
  /// The same was asked for once more, which may have changed the row.
  virtual void on_asked_again() {}

  const Operation& operation() const { return operation_; }
  void cancel_was_committed();

 protected:
  Clock& clock() const { return context_.ports.clock; }
  Log& log() const { return context_.ports.log; }
  store::Store& store() const { return context_.ports.store; }
  const Settings& settings() const { return context_.settings; }

  /// What another thread may have changed in the row since this copy was read. Called for every
  /// commit.
  virtual void take_over(const Operation& row, Operation& mine) const {
    mine.cancel_requested = row.cancel_requested;
  }

  /// Commits a transition together with `also`. False when the store refused (disk full): the state
  /// was not changed, and enter() is called again in a second. Continue only on true.
  bool commit(std::string_view event, std::string_view to, const std::string& detail,
              const Also& also = {});
  /// Commits, without a transition, why it does not go on yet; "" when it does. Shown as its
  /// reason.
  bool wait_because(std::string_view event, const std::string& reason, const std::string& detail,
                    const Also& also = {});
  /// Commits the last transition. The task is gone afterwards.
  bool finish(std::string_view event, std::string_view to, Outcome outcome,
              const std::string& reason, const std::string& error_code = {}, const Also& also = {});
  /// From the next commit on. What it waited before its beginning counts for nothing.
  void set_deadline(WallTime deadline) { operation_.deadline = deadline; }
  /// From the next commit on: what was decided is kept with what was asked for.
  void set_request(std::string request) { operation_.request = std::move(request); }
  /// What its history tells of its last step into that state; `otherwise` if it never took one.
  std::string why_in(std::string_view state, const std::string& otherwise) const;
  /// Keeps a fraction of work done, 0 to 1. May be lost.
  void progress(double fraction);
  void save_progress();

  /// Runs `work` on the executor and `then` here with its result, unless the state changed
  /// meanwhile.
  template <typename R>
  void call(const std::string& lane, std::function<R()> work, std::function<void(R)> then) {
    context_.ports.executor.run(lane, [inbox = context_.inbox, guard = guard_here(),
                                       work = std::move(work), then = std::move(then)] {
      auto answer = std::make_shared<R>(work());
      inbox->post([guard, then, answer] {
        if (guard()) then(std::move(*answer));
      });
    });
  }
  /// The same for a driver's call; a host without a driver answers at once.
  template <typename R>
  void call_host(const HostId& host, std::function<R(Driver&)> work, std::function<void(R)> then) {
    call_host<R>("host/" + host.value, host, std::move(work), std::move(then));
  }
  template <typename R>
  void call_host(const std::string& lane, const HostId& host, std::function<R(Driver&)> work,
                 std::function<void(R)> then) {
    auto driver = context_.driver_of(host);
    if (!driver) {
      soon([then, error = driver.error()] { then(R(error)); });
      return;
    }
    call<R>(
        lane, [driver = *driver, work = std::move(work)] { return work(*driver); },
        std::move(then));
  }
  /// Calls hosts for several VMs at once, each in a lane of its own, so that none waits for
  /// another. `then` gets the answers, in the order of the calls, when all are there.
  template <typename R>
  struct GangCall {
    VmId vm;
    HostId host;
    std::function<R(Driver&)> work;
  };
  template <typename R>
  void call_gang(const std::vector<GangCall<R>>& calls,
                 std::function<void(const std::vector<R>&)> then) {
    auto answers = std::make_shared<std::vector<std::optional<R>>>(calls.size());
    auto left = std::make_shared<std::size_t>(calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      call_host<R>("gang/" + calls[i].vm.value, calls[i].host, calls[i].work,
                   [i, answers, left, then](R answer) {
                     answers->at(i) = std::move(answer);
                     if (--*left > 0) return;
                     std::vector<R> all;
                     for (auto& one : *answers) all.push_back(std::move(*one));
                     then(all);
                   });
    }
  }
  /// Later, on this thread, unless the state changed meanwhile.
  void after(std::chrono::nanoseconds delay, std::function<void()> what);
  void soon(std::function<void()> what) { after(std::chrono::nanoseconds{0}, std::move(what)); }
  /// `then`, unless the state changed meanwhile.
  template <typename R>
  std::function<void(R)> guarded(std::function<void(R)> then) {
    return [guard = guard_here(), then = std::move(then)](R answer) {
      if (guard()) then(std::move(answer));
    };
  }
  /// The same whenever it is called, from this thread.
  std::function<void()> later(std::function<void()> what);
  /// Enters the state again in a while.
  void again(std::chrono::nanoseconds delay = std::chrono::seconds{1});

  /// How long this process has been in the present state.
  MonotonicTime in_state() const { return clock().now() - state_since_; }

  Result<Vm> vm(const VmId& id) const;
  Result<Host> host(const HostId& id) const;
  /// It fell silent, and is called down.
  bool is_down(const HostId& id) const;

  Context& context_;

 private:
  /// True while the task lives and is in the state that it is in now.
  std::function<bool()> guard_here();
  bool write(Operation updated, std::string_view event, const std::string& detail,
             const Also& also);

  Operation operation_;
  std::uint64_t epoch_ = 0;
  MonotonicTime state_since_;
};

/// Of a call to a host that may be made again later, and may have been done.
inline bool passes(const Error& error) {
  return error.code == Code::Unavailable || error.code == Code::OutcomeUnknown;
}

std::shared_ptr<Task> make_task(Context& context, const Operation& operation);

// One maker per kind, each in a file of its own.
std::shared_ptr<Task> make_host_add(Context& context, const Operation& operation);
std::shared_ptr<Task> make_host_remove(Context& context, const Operation& operation);
std::shared_ptr<Task> make_host_drain(Context& context, const Operation& operation);
std::shared_ptr<Task> make_pool_create(Context& context, const Operation& operation);
std::shared_ptr<Task> make_pool_scale(Context& context, const Operation& operation);
std::shared_ptr<Task> make_pool_delete(Context& context, const Operation& operation);
std::shared_ptr<Task> make_vm_start(Context& context, const Operation& operation);
std::shared_ptr<Task> make_vm_stop(Context& context, const Operation& operation);
std::shared_ptr<Task> make_vm_migrate(Context& context, const Operation& operation);
std::shared_ptr<Task> make_job_run(Context& context, const Operation& operation);
std::shared_ptr<Task> make_forecast(Context& context, const Operation& operation);
std::shared_ptr<Task> make_plan_drain(Context& context, const Operation& operation);
std::shared_ptr<Task> make_plan_layout(Context& context, const Operation& operation);
std::shared_ptr<Task> make_layout_change(Context& context, const Operation& operation);
std::shared_ptr<Task> make_plan_rebalance(Context& context, const Operation& operation);
std::shared_ptr<Task> make_cluster_rebalance(Context& context, const Operation& operation);
std::shared_ptr<Task> make_checkpoint_take(Context& context, const Operation& operation);
std::shared_ptr<Task> make_checkpoint_restore(Context& context, const Operation& operation);
std::shared_ptr<Task> make_recovery_run(Context& context, const Operation& operation);
std::shared_ptr<Task> make_host_evacuate(Context& context, const Operation& operation);
std::shared_ptr<Task> make_plan_evacuate(Context& context, const Operation& operation);

}  // namespace mare::engine
