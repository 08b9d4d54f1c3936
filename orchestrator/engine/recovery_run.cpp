// recovery.run: one try to bring a job back after a host or a VM of it died. What is silent is
// fenced first; then a child restarts the job from its last complete checkpoint, on the hosts that
// remain. Who follows the job (job.run) asks for it, and for the next one if this fails.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "orchestrator/engine/children.h"
#include "orchestrator/engine/host_fencer.h"
#include "orchestrator/engine/task.h"
#include "orchestrator/model/checkpoint_lifecycles.h"

namespace mare::engine {
namespace {

constexpr auto kRecoveryLookAgain = std::chrono::milliseconds{100};
constexpr auto kRoomAgain = std::chrono::seconds{1};
/// Before the last try: tries that fail at once would all be over before a host that stumbles, or
/// storage that does, is well again.
constexpr auto kLastTryWaits = std::chrono::seconds{10};

/// What keeps the job from going on.
struct Dead {
  bool any = false;
  std::vector<Host> silent;  // that its VMs may run on
};

Result<Dead> find_dead(const store::Reader& reader, const Job& job) {
  Dead out;
  for (const auto& id : job.vms) {
    auto vm = reader.vm(id);
    if (!vm) return vm.error();
    if (!vm->host) {
      out.any = true;
      continue;
    }
    auto host = reader.host(*vm->host);
    if (!host) return host.error();
    if (host->health == HostHealth::Up && host->fence == HostFence::None) continue;
    out.any = true;
    const bool known = std::any_of(out.silent.begin(), out.silent.end(),
                                   [&](const Host& other) { return other.id == host->id; });
    if (!known) out.silent.push_back(*host);
  }
  return out;
}

Error not_leased(const Host& host, const JobId& job) {
  return make_error(Code::FailedPrecondition,
                    "host '" + host.id.value + "' is silent and holds no lease: VMs of " +
                        job.value + " may run there",
                    "the job waits for it; 'mared --fence-command' could turn it off");
}

class RecoveryRun final : public Task {
 public:
  using State = RecoveryRunState;
  using Event = RecoveryRunEvent;
  using Task::Task;

  void enter(bool /*recovered*/) override {
    State state{};
    MARE_ASSERT(state_from(operation().state, state));
    switch (state) {
      case State::Planned:
        return begin();
      case State::Fencing:
        return fence();
      case State::Restarting:
        return restart();
      case State::Done:
      case State::Failed:
        return;
    }
  }

  void on_child_ended(const Operation& child) override {
    if (child.kind == OperationKind::CheckpointRestore) conclude(child);
  }

 private:
  JobId job() const { return JobId{operation().target}; }
  CheckpointId checkpoint() const {
    const auto request = nlohmann::json::parse(operation().request, nullptr, false);
    return CheckpointId{request.value("checkpoint", "")};
  }

  void give_up(const Error& error) {
    finish(to_string(Event::GiveUp), to_string(State::Failed), Outcome::Failed, error.text(),
           std::string(to_string(error.code)));
  }

  Result<Dead> dead() const {
    return query<Dead>(store(), [&](const store::Reader& r) -> Result<Dead> {
      auto row = r.job(job());
      if (!row) return row.error();
      return find_dead(r, *row);
    });
  }

  void begin() {
    auto seen = dead();
    if (!seen) return give_up(seen.error());
    if (!seen->any) return give_up(make_error(Code::FailedPrecondition, "all its VMs run again"));
    int count = 0;
    const auto also = [&](store::Transaction& tx) -> Status {
      auto row = tx.job(job());
      if (!row) return row.error();
      count = row->recovery_from == checkpoint() ? row->recovery_tries + 1 : 1;
      row->recovery_from = checkpoint();
      row->recovery_tries = count;
      if (auto kept = put_job(tx, clock(), *row); !kept) return kept;
      for (const auto& host : seen->silent) {
        if (host.fence != HostFence::None || !can_be_fenced(context_, host)) continue;
        if (auto begun = begin_fence(tx, clock(), host.id); !begun) return begun;
      }
      return ok_status();
    };
    if (commit(to_string(Event::Begin), to_string(State::Fencing), "from " + checkpoint().value,
               also)) {
      fence();
    }
  }

  /// Until nothing that is silent can run a VM of the job.
  void fence() {
    auto seen = dead();
    if (!seen) return again();
    bool all = true;
    bool by_command = false;  // alone: for as long as it takes, as without a command
    for (const auto& host : seen->silent) {
      if (host.fence == HostFence::Over) continue;
      all = false;
      by_command = by_command || host.lease.count() == 0;
      if (host.fence == HostFence::Begun) continue;
      if (!can_be_fenced(context_, host)) return give_up(not_leased(host, job()));
      auto begun =
          store().write([&](store::Transaction& tx) { return begin_fence(tx, clock(), host.id); });
      if (!begun) return again();
    }
    if (job_is_cancelled()) {
      return give_up(make_error(Code::Cancelled, "the job is cancelled"));
    }
    if (all) {
      if (seen->any && in_state() < kLastTryWaits && is_last_try()) {
        return after(kRecoveryLookAgain, [this] { fence(); });
      }
      return fenced(seen->any);
    }
    if (!by_command && in_state() > settings().checkpoint_timeout) {
      return give_up(make_error(Code::Unavailable, "a silent host could not be fenced"));
    }
    context_.fencer->look();
    after(kRecoveryLookAgain, [this] { fence(); });
  }

  void fenced(bool still_dead) {
    // A host without a lease came back with its VMs: that was no try.
    const auto also = [&](store::Transaction& tx) -> Status {
      if (still_dead) return ok_status();
      auto row = tx.job(job());
      if (!row) return row.error();
      row->recovery_tries = std::max(row->recovery_tries - 1, 0);
      return put_job(tx, clock(), *row);
    };
    if (commit(to_string(Event::Fenced), to_string(State::Restarting), "", also)) restart();
  }

  bool is_last_try() const {
    auto row = query<Job>(store(), [&](const store::Reader& r) { return r.job(job()); });
    return row && settings().recovery_tries > 1 && row->recovery_tries >= settings().recovery_tries;
  }

  bool job_is_cancelled() const {
    if (!operation().parent) return false;
    auto run = query<Operation>(
        store(), [&](const store::Reader& r) { return r.operation(*operation().parent); });
    return run && run->cancel_requested;
  }

  void restart() {
    auto children = children_of(context_, operation().id);
    if (!children) return again();
    if (children->empty()) return start();
    const Operation& newest = children->front();
    if (newest.finished()) conclude(newest);
  }

  void start() {
    auto holder = query<std::optional<Operation>>(
        store(), [&](const store::Reader& r) { return r.unfinished("checkpoint", job().value); });
    if (!holder) return again();
    if (*holder) {
      // A checkpoint of a job that has lost a VM can't become one.
      const Operation& other = **holder;
      const bool take = other.kind == OperationKind::CheckpointTake;
      if (take && !other.cancel_requested) cancel_child(context_, other.id);
      return after(kRecoveryLookAgain, [this] { start(); });
    }
    auto seen = dead();
    if (!seen) return again();
    if (!seen->any) {
      finish(to_string(Event::Runs), to_string(State::Done), Outcome::Succeeded,
             "somebody else has restarted it");
      return;
    }
    auto child = start_child(context_, RestartRequest{job(), checkpoint(), {}}, operation().id);
    if (!child) give_up(child.error());
  }

  void conclude(const Operation& child) {
    // Hosts that answer again are not used at once: this is worth some patience, and no try.
    const bool no_room = child.error_code == to_string(Code::ResourceExhausted);
    if (no_room && in_state() < settings().checkpoint_timeout) {
      return after(kRoomAgain, [this] { start(); });
    }
    if (child.outcome != Outcome::Succeeded) {
      return give_up(make_error(Code::FailedPrecondition, child.reason));
    }
    finish(to_string(Event::Runs), to_string(State::Done), Outcome::Succeeded, child.reason);
  }
};

}  // namespace

Result<Operation> plan(store::Transaction& tx, Context& context, const RecoveryRequest& request,
                       const std::optional<OperationId>& parent) {
  auto job = tx.job(request.job);
  if (!job) return job.error();
  auto newest = find_checkpoint(tx, RestartRequest{request.job, {}, {}});
  if (!newest) return newest.error();
  const int most = context.settings.recovery_tries;
  if (job->recovery_from == newest->id && job->recovery_tries >= most) {
    return make_error(Code::FailedPrecondition,
                      job->id.value + " was to be brought back from " + newest->id.value + " " +
                          std::to_string(most) + " times, and failed again",
                      "see 'mare operation list', then 'mare job restart " + job->id.value + "'");
  }
  auto dead = find_dead(tx, *job);
  if (!dead) return dead.error();
  for (const auto& host : dead->silent) {
    if (host.fence != HostFence::None || can_be_fenced(context, host)) continue;
    return not_leased(host, job->id);
  }
  Operation draft;
  draft.kind = OperationKind::RecoveryRun;
  draft.target = request.job.value;
  draft.parent = parent;
  draft.request = nlohmann::json{{"checkpoint", newest->id.value}}.dump();
  return insert_operation(tx, context.ports.clock, draft);
}

std::shared_ptr<Task> make_recovery_run(Context& context, const Operation& operation) {
  return std::make_shared<RecoveryRun>(context, operation);
}

}  // namespace mare::engine
