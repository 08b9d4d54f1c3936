#include "orchestrator/engine/context.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "orchestrator/engine/task.h"

namespace mare::engine {
namespace {
using nlohmann::json;

std::string text_of(const json& data) {
  return data.dump(-1, ' ', false, json::error_handler_t::replace);
}

json host_or_null(const std::optional<HostId>& host) {
  return host ? json(host->value) : json(nullptr);
}
}  // namespace

void Inbox::post(std::function<void()> message) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    messages_.push_back(std::move(message));
  }
  arrived_.notify_one();
}

std::vector<std::function<void()>> Inbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(messages_, {});
}

void Inbox::wait(std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, limit, [this] { return closed_ || !messages_.empty(); });
}

void Inbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  messages_.clear();
}

void Context::spare(const VmId& vm, std::chrono::nanoseconds length) {
  const MonotonicTime now = ports.clock.now();
  std::erase_if(spared, [now](const auto& one) { return one.second <= now; });
  spared[vm] = now + length;
}

std::chrono::nanoseconds Context::spared_for(const VmId& vm) const {
  const auto found = spared.find(vm);
  if (found == spared.end()) return MonotonicTime{0};
  return std::max(found->second - ports.clock.now(), MonotonicTime{0});
}

void Context::changed() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(change_mutex);
    callback = on_change;
  }
  if (callback) callback();
}

void Context::adopt(const Operation& operation, bool recovered) {
  if (operation.finished() || tasks.contains(operation.id)) return;
  auto task = make_task(*this, operation);
  tasks.emplace(operation.id, task);
  // The state that it was accepted in is a committed one as well.
  if (!recovered && after_commit) after_commit(operation);
  task->enter(recovered);
}

Result<std::shared_ptr<Driver>> Context::driver_of(const HostId& host) const {
  auto row = query<Host>(ports.store, [&](const store::Reader& r) { return r.host(host); });
  if (!row) return row.error();
  return ports.drivers.driver(row->id, row->address);
}

Status emit(store::Transaction& tx, const Clock& clock, const std::string& topic,
            const std::string& subject, const std::string& type, const std::string& data) {
  return tx.append(Event{0, clock.wall_now(), topic, subject, type, data});
}

Status put_host(store::Transaction& tx, const Clock& clock, const Host& host) {
  if (auto done = tx.put(host); !done) return done;
  return emit(tx, clock, "host", host.id.value, "host.state",
              text_of({{"admin", to_string(host.admin)},
                       {"health", to_string(host.health)},
                       {"reason", host.health_reason}}));
}

Status put_vm(store::Transaction& tx, const Clock& clock, const Vm& vm) {
  if (auto done = tx.put(vm); !done) return done;
  return emit(tx, clock, "vm", vm.id.value, "vm.state",
              text_of({{"state", to_string(vm.state)},
                       {"host", host_or_null(vm.host)},
                       {"pool", vm.pool.value},
                       {"reason", vm.reason}}));
}

Status put_job(store::Transaction& tx, const Clock& clock, const Job& job) {
  if (auto done = tx.put(job); !done) return done;
  return emit(tx, clock, "job", job.id.value, "job.state",
              text_of({{"state", to_string(job.state)},
                       {"name", job.name},
                       {"pool", job.pool.value},
                       {"exit_code", job.exit_code ? json(*job.exit_code) : json(nullptr)},
                       {"reason", job.reason}}));
}

Status put_checkpoint(store::Transaction& tx, const Clock& clock, const Checkpoint& checkpoint) {
  if (auto done = tx.put(checkpoint); !done) return done;
  return emit(tx, clock, "job", checkpoint.job.value, "checkpoint.state",
              text_of({{"checkpoint", checkpoint.id.value},
                       {"state", to_string(checkpoint.state)},
                       {"size_bytes", checkpoint.size.count},
                       {"pause_us", checkpoint.pause.count()},
                       {"safe_point", to_string(checkpoint.safe_point)}}));
}

Status put_forecast(store::Transaction& tx, const Clock& clock, const Forecast& forecast) {
  if (auto done = tx.put(forecast); !done) return done;
  return emit(
      tx, clock, "migration", forecast.id.value,
      forecast.outcome ? "forecast.scored" : "forecast.made",
      text_of({{"vm", forecast.vm.value},
               {"source", forecast.source.value},
               {"destination", forecast.destination.value},
               {"choice", forecast.choice ? json(to_string(*forecast.choice)) : json(nullptr)},
               {"reason", forecast.reason}}));
}

Status put_pool(store::Transaction& tx, const Clock& clock, const Pool& pool,
                const std::string& what) {
  if (auto done = tx.put(pool); !done) return done;
  return emit(tx, clock, "pool", pool.id.value, what, text_of({{"size", pool.size}}));
}

Result<Operation> insert_operation(store::Transaction& tx, const Clock& clock, Operation draft) {
  auto number = tx.next_number("operation");
  if (!number) return number.error();
  draft.id = OperationId{"op-" + std::to_string(*number)};
  draft.created = clock.wall_now();
  draft.attempt = 1;
  if (draft.state.empty()) {
    draft.state = draft.kind == OperationKind::JobRun ? "Queued" : "Planned";
  }
  if (draft.request.empty()) draft.request = "{}";
  if (auto done = tx.insert(draft); !done) return done.error();
  const OperationEvent line{0, draft.id, draft.created, "", "Submit", draft.state, ""};
  if (auto done = tx.append(line); !done) return done.error();
  const json data{{"kind", to_string(draft.kind)},
                  {"target", draft.target},
                  {"state", draft.state},
                  {"outcome", to_string(draft.outcome)}};
  auto told = emit(tx, clock, "operation", draft.id.value, "operation.created", text_of(data));
  if (!told) return told.error();
  return draft;
}

}  // namespace mare::engine
