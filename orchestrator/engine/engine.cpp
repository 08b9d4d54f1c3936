#include "orchestrator/engine/engine.h"

#include <atomic>
#include <type_traits>

#include "orchestrator/engine/auto_spread.h"
#include "orchestrator/engine/autoscaling.h"
#include "orchestrator/engine/cancelling.h"
#include "orchestrator/engine/checkpoint_keeper.h"
#include "orchestrator/engine/children.h"
#include "orchestrator/engine/host_fencer.h"
#include "orchestrator/engine/host_monitor.h"
#include "orchestrator/engine/job_output.h"
#include "orchestrator/engine/link_meter.h"
#include "orchestrator/engine/memory_report.h"
#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/move_slots.h"
#include "orchestrator/engine/plan.h"
#include "orchestrator/engine/quotas.h"
#include "orchestrator/engine/rebalancing.h"
#include "orchestrator/engine/standby_keeper.h"
#include "orchestrator/engine/switch_gangs.h"
#include "orchestrator/engine/task.h"
#include "orchestrator/engine/templates.h"
#include "orchestrator/model/migration_state.h"

namespace mare::engine {
namespace {
constexpr auto kLongestWait = std::chrono::seconds{1};
constexpr auto kThreadIsStuck = std::chrono::seconds{30};
}  // namespace

class Engine::Impl {
 public:
  Impl(Ports ports, Settings settings, AfterCommit after_commit)
      : context_{ports, std::move(settings), std::move(after_commit)},
        monitor_(context_),
        keeper_(context_),
        standbys_(context_),
        autoscaling_(context_),
        auto_spread_(context_),
        rebalancing_(context_) {
    context_.links = std::make_shared<LinkMeter>(context_);
    context_.slots = std::make_shared<MoveSlots>(context_.settings.move_caps);
    context_.gangs = std::make_shared<SwitchGangs>();
    context_.fencer = std::make_shared<HostFencer>(context_);
    context_.silences = std::make_shared<Silences>();
    context_.templates = std::make_shared<Templates>(context_);
  }
  ~Impl() { context_.inbox->close(); }

  template <typename Request>
  Result<Operation> submit(const Request& request) {
    Result<Operation> accepted = make_error(Code::Internal, "not planned");
    bool is_new = true;
    auto done = context_.ports.store.write([&](store::Transaction& tx) -> Status {
      if constexpr (std::is_same_v<Request, PoolScaleRequest>) {
        auto same = find_same(tx, request);
        if (!same) return same.error();
        is_new = !same->has_value();
        if (!is_new) accepted = **same;
      }
      if constexpr (std::is_same_v<Request, EvacuateRequest>) {
        auto same = tighten(tx, context_, request);
        if (!same) return same.error();
        is_new = !same->has_value();
        if (!is_new) accepted = **same;
      }
      if (is_new) accepted = plan(tx, context_, request);
      if (!accepted) return accepted.error();
      return ok_status();
    });
    if (!done) return done.error();
    // One that goes on has its task, or has ended since.
    if (!is_new) {
      context_.inbox->post([this, id = accepted->id] {
        const auto task = context_.tasks.find(id);
        if (task == context_.tasks.end()) return;
        const auto keep = task->second;  // it may end itself
        keep->on_asked_again();
      });
      return accepted;
    }
    context_.inbox->post([this, operation = *accepted] { context_.adopt(operation, false); });
    context_.changed();
    return accepted;
  }

  Result<Operation> cancel(const OperationId& id) {
    Result<Operation> out = make_error(Code::Internal, "not looked up");
    auto done = context_.ports.store.write([&](store::Transaction& tx) -> Status {
      out = tx.operation(id);
      if (!out) return out.error();
      if (auto possible = can_cancel(*out); !possible) return possible;
      out->cancel_requested = true;
      return tx.update(*out);
    });
    if (!done) return done.error();
    context_.inbox->post([this, id] {
      const auto task = context_.tasks.find(id);
      if (task == context_.tasks.end()) return;
      const auto keep = task->second;  // it may end itself
      keep->cancel_was_committed();
    });
    context_.changed();
    return out;
  }

  Result<Host> activate(const HostId& id) {
    Result<Host> out = make_error(Code::Internal, "not looked up");
    auto done = context_.ports.store.write([&](store::Transaction& tx) -> Status {
      out = tx.host(id);
      if (!out) return out.error();
      if (out->admin == HostAdmin::Draining) {
        return make_error(Code::Conflict, "host '" + id.value + "' is being drained",
                          "cancel the drain first: see 'mare operation list'");
      }
      out->admin = HostAdmin::Active;
      return put_host(tx, context_.ports.clock, *out);
    });
    if (!done) return done.error();
    context_.changed();
    return out;
  }

  Result<Pool> set_move_policy(const PoolId& id, const PolicyChange& change) {
    Result<Pool> out = make_error(Code::Internal, "not looked up");
    auto done = context_.ports.store.write([&](store::Transaction& tx) -> Status {
      out = tx.pool(id);
      if (!out) return out.error();
      out->move_policy = changed(out->move_policy, change);
      if (auto good = check(out->move_policy); !good) return good;
      return put_pool(tx, context_.ports.clock, *out, "pool.changed");
    });
    if (!done) return done.error();
    context_.changed();
    return out;
  }

  Result<Autoscaler> set_autoscale(const PoolId& id, const AutoscaleSetting& setting) {
    if (auto good = check(setting); !good) return good.error();
    return change_autoscaler(id, true, [&](Autoscaler& row) {
      row.setting = setting;
      row.memory.wishes.clear();
      row.reason = "";
    });
  }

  Status clear_autoscale(const PoolId& id) {
    auto done = context_.ports.store.write([&](store::Transaction& tx) -> Status {
      if (auto there = tx.pool(id); !there) return there.error();
      if (auto there = tx.autoscaler(id); !there) return there.error();
      return tx.erase_autoscaler(id);
    });
    if (done) context_.changed();
    return done;
  }

  Result<Autoscaler> post_metric(const PoolId& id, double value) {
    return change_autoscaler(id, false, [&](Autoscaler& row) {
      row.posted = value;
      row.posted_at = context_.ports.clock.wall_now();
    });
  }

  Result<Rebalancing> set_rebalancing(const RebalanceSetting& setting) {
    if (auto good = check(setting); !good) return good.error();
    Result<Rebalancing> out = make_error(Code::Internal, "not looked up");
    auto done = context_.ports.store.write([&](store::Transaction& tx) -> Status {
      out = tx.rebalancing();
      if (!out) return out.error();
      RebalanceSetting kept = setting;
      for (const auto& [pool, mode] : setting.pools) {
        auto there = tx.pool(pool);
        if (there) continue;
        // Of a pool that has been deleted since it is no use, and no fault.
        if (!out->setting.pools.contains(pool)) return there.error();
        kept.pools.erase(pool);
      }
      out->setting = std::move(kept);
      return tx.put(*out);
    });
    if (!done) return done.error();
    context_.inbox->post([this] { rebalancing_.look_soon(); });
    context_.changed();
    return out;
  }

  Status recover() {
    auto unfinished =
        query<std::vector<Operation>>(context_.ports.store, [](const store::Reader& reader) {
          store::OperationFilter filter;
          filter.unfinished_only = true;
          filter.limit = 1'000'000;
          return reader.operations(filter);
        });
    if (!unfinished) return unfinished.error();
    for (auto& operation : *unfinished) {
      ++operation.attempt;
      auto kept = context_.ports.store.write([&](store::Transaction& tx) -> Status {
        if (auto done = tx.update(operation); !done) return done;
        return tx.append(OperationEvent{0, operation.id, context_.ports.clock.wall_now(),
                                        operation.state, "Recover", operation.state,
                                        "taken up again after a restart"});
      });
      if (!kept) return kept;
    }
    if (auto held = hold_slots(*unfinished); !held) return held;
    // Entered only when all rows are marked: a task may look at others.
    for (const auto& operation : *unfinished) {
      context_.inbox->post([this, operation] { context_.adopt(operation, true); });
    }
    return ok_status();
  }

  MonotonicTime step() {
    if (!beating_) {
      beating_ = true;
      monitor_.begin();
      keeper_.beat();
      standbys_.beat();
      autoscaling_.beat();
      auto_spread_.beat();
      rebalancing_.beat();
    }
    last_step_.store(context_.ports.clock.now().count());
    for (auto& message : context_.inbox->take()) message();
    while (!context_.timers.empty() &&
           context_.timers.begin()->first <= context_.ports.clock.now()) {
      auto due = context_.timers.extract(context_.timers.begin());
      due.mapped()();
    }
    if (context_.timers.empty()) return context_.ports.clock.now() + kLongestWait;
    return context_.timers.begin()->first;
  }

  void run() {
    while (!stopping_.load()) {
      const MonotonicTime due = step();
      const MonotonicTime now = context_.ports.clock.now();
      if (due > now) {
        context_.inbox->wait(std::min<std::chrono::nanoseconds>(due - now, kLongestWait));
      }
    }
  }

  void stop() {
    stopping_.store(true);
    context_.inbox->post([] {});
  }

  Status ready() const {
    const MonotonicTime last{last_step_.load()};
    if (context_.ports.clock.now() - last > kThreadIsStuck) {
      return make_error(Code::Unavailable, "the engine's thread does not advance");
    }
    // An empty change tells whether the file can be written.
    return context_.ports.store.write([](store::Transaction& tx) -> Status {
      auto number = tx.next_number("ready");
      if (!number) return number.error();
      return ok_status();
    });
  }

  Context context_;

 private:
  /// Changes the rule's row, makes it if `make`, and has it looked at.
  Result<Autoscaler> change_autoscaler(const PoolId& id, bool make,
                                       const std::function<void(Autoscaler&)>& change) {
    Result<Autoscaler> out = make_error(Code::Internal, "not looked up");
    auto done = context_.ports.store.write([&](store::Transaction& tx) -> Status {
      if (auto there = tx.pool(id); !there) return there.error();
      out = tx.autoscaler(id);
      const bool missing = !out && out.error().code == Code::NotFound;
      if (missing && make) out = Autoscaler{id};
      if (!out) return out.error();
      change(*out);
      return tx.put(*out);
    });
    if (!done) return done.error();
    context_.inbox->post([this, id] { autoscaling_.look_soon(id); });
    context_.changed();
    return out;
  }

  /// Migrations under way have their places before any other asks for one.
  Status hold_slots(const std::vector<Operation>& unfinished) {
    return context_.ports.store.read([&](const store::Reader& reader) -> Status {
      for (const auto& operation : unfinished) {
        if (operation.kind != OperationKind::VmMigrate) continue;
        if (operation.state == to_string(MigrationState::Planned)) continue;
        auto migration = reader.migration(operation.id);
        if (!migration) return migration.error();
        context_.slots->hold(operation.id, migration->source, migration->destination);
      }
      return ok_status();
    });
  }

  HostMonitor monitor_;
  CheckpointKeeper keeper_;
  StandbyKeeper standbys_;
  Autoscaling autoscaling_;
  AutoSpread auto_spread_;
  RebalanceLoop rebalancing_;
  bool beating_ = false;
  std::atomic<bool> stopping_{false};
  std::atomic<std::chrono::nanoseconds::rep> last_step_{0};
};

Engine::Engine(Ports ports, Settings settings, AfterCommit after_commit)
    : impl_(std::make_unique<Impl>(ports, std::move(settings), std::move(after_commit))) {}
Engine::~Engine() = default;

Result<Operation> Engine::submit(const HostAddRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const HostRemoveRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const HostDrainRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const EvacuateRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const EvacuationForecastRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const PoolCreateRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const PoolScaleRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const PoolDeleteRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const VmStartRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const VmStopRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const MigrateRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const ForecastRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const DrainForecastRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const LayoutForecastRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const LayoutChangeRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const RebalanceForecastRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const RebalanceRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const JobSubmitRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const CheckpointRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::submit(const RestartRequest& request) {
  return impl_->submit(request);
}
Result<Operation> Engine::cancel(const OperationId& id) {
  return impl_->cancel(id);
}
Result<Host> Engine::activate(const HostId& id) {
  return impl_->activate(id);
}
Result<Pool> Engine::set_move_policy(const PoolId& id, const PolicyChange& change) {
  return impl_->set_move_policy(id, change);
}
Result<Autoscaler> Engine::set_autoscale(const PoolId& id, const AutoscaleSetting& setting) {
  return impl_->set_autoscale(id, setting);
}
Result<Rebalancing> Engine::set_rebalancing(const RebalanceSetting& setting) {
  return impl_->set_rebalancing(setting);
}
Status Engine::clear_autoscale(const PoolId& id) {
  return impl_->clear_autoscale(id);
}
Result<Autoscaler> Engine::post_metric(const PoolId& id, double value) {
  return impl_->post_metric(id, value);
}
Result<Quota> Engine::set_quota(const Quota& quota) {
  return keep_quota(impl_->context_.ports.store, quota);
}
Status Engine::clear_quota(const ProjectId& project) {
  return erase_quota(impl_->context_.ports.store, project);
}
Result<Forecast> Engine::report(const OperationId& migration, const MigrationReport& report) {
  auto kept = keep_report(impl_->context_, migration, report);
  if (kept) impl_->context_.changed();
  return kept;
}
void Engine::memory_profile(const VmId& vm, std::function<void(Result<MemoryProfile>)> then) {
  ask_memory_profile(impl_->context_, vm, std::move(then));
}
Status Engine::recover() {
  return impl_->recover();
}
MonotonicTime Engine::step() {
  return impl_->step();
}
void Engine::run() {
  impl_->run();
}
void Engine::stop() {
  impl_->stop();
}
Status Engine::ready() const {
  return impl_->ready();
}
const Settings& Engine::settings() const {
  return impl_->context_.settings;
}
Silences::Counts Engine::silences() const {
  return impl_->context_.silences->counts();
}
std::string Engine::output_file(const JobId& job) const {
  return job_output_path(impl_->context_.settings.jobs_directory, job);
}
void Engine::on_change(std::function<void()> callback) {
  const std::lock_guard lock(impl_->context_.change_mutex);
  impl_->context_.on_change = std::move(callback);
}

}  // namespace mare::engine
