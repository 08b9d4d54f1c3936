// job.run: wait for VMs, start mpirun in the first one, follow it, end with its exit code.
#include <algorithm>
#include <set>

#include "orchestrator/engine/checkpoint_timer.h"
#include "orchestrator/engine/children.h"
#include "orchestrator/engine/job_output.h"
#include "orchestrator/engine/scale_plan.h"
#include "orchestrator/engine/spec.h"
#include "orchestrator/model/checkpoint_lifecycles.h"

namespace mare::engine {
namespace {

constexpr auto kQueuePoll = std::chrono::milliseconds{300};
constexpr auto kTermPatience = std::chrono::seconds{5};
constexpr auto kKillPatience = std::chrono::seconds{30};
constexpr int kBeatsForAVerdict = 3;  // beyond those after which a silent host is down

struct Polled {
  Result<RunStatus> status;
  Result<std::uint64_t> output;
};

class JobRun final : public Task {
 public:
  using Task::Task;

  void enter(bool /*recovered*/) override {
    auto row = query<Job>(store(), [&](const store::Reader& r) { return r.job(id()); });
    if (!row) return again();
    if (row->restarts != job_.restarts) forget_former_life();
    job_ = *row;
    // Nothing was kept of its output since it was put back: what is in the file is older than that.
    fetch_anew_ = job_.restarts > 0 && job_.output_bytes == 0;
    switch (state()) {
      case JobRunState::Queued:
        return wait_for_vms();
      case JobRunState::Starting:
      case JobRunState::Running:
      case JobRunState::Stopping:
        return go_on();
      case JobRunState::Done:
      case JobRunState::Failed:
        return;
    }
  }

  void on_cancel() override {
    if (state() == JobRunState::Queued) return wait_for_vms();
    // While Starting the launch may be on its way: its answer comes first, or it could begin after
    // its end.
    if (state() == JobRunState::Running && !restoring()) stop();
  }

 private:
  JobId id() const { return JobId{operation().target}; }
  JobRunState state() const {
    JobRunState parsed{};
    MARE_ASSERT(state_from(operation().state, parsed));
    return parsed;
  }
  Also keep_job() {
    return [this](store::Transaction& tx) { return put_job(tx, clock(), job_); };
  }

  // --- Queued
  // ---------------------------------------------------------------------------------------------

  void wait_for_vms() {
    if (operation().cancel_requested)
      return fail(make_error(Code::Cancelled, "cancelled before it began"));
    auto free =
        query<std::vector<Vm>>(store(), [&](const store::Reader& r) { return free_vms(r); });
    if (!free) {
      if (free.error().code == Code::NotFound) return fail(free.error());
      return again();
    }
    if (free->size() < static_cast<std::size_t>(job_.ranks)) {
      return after(kQueuePoll, [this] { wait_for_vms(); });
    }
    if (commit(to_string(JobRunEvent::Assign), to_string(JobRunState::Starting), "",
               [this](store::Transaction& tx) { return assign(tx); })) {
      go_on();
    }
  }

  /// Looks again: since the last look a pool.scale may have been accepted that takes them.
  Status assign(store::Transaction& tx) {
    auto free = free_vms(tx);
    if (!free) return free.error();
    if (free->size() < static_cast<std::size_t>(job_.ranks)) {
      return make_error(Code::Conflict, "its VMs were taken meanwhile");
    }
    Job begun = job_;
    begun.vms.clear();
    for (int i = 0; i < begun.ranks; ++i) {
      begun.vms.push_back(free->at(static_cast<std::size_t>(i)).id);
    }
    begun.state = JobState::Starting;
    auto kept = put_job(tx, clock(), begun);
    if (kept) job_ = std::move(begun);
    return kept;
  }

  /// The pool's VMs that run and have no rank; none while an older job of the pool waits.
  Result<std::vector<Vm>> free_vms(const store::Reader& r) {
    auto pool = r.pool(job_.pool);
    if (!pool) return pool.error();
    // A pool that is not complete may still be rolled back, and its VMs with it.
    auto holder = r.unfinished("pool", job_.pool.value);
    if (!holder) return holder.error();
    if (*holder && (*holder)->kind == OperationKind::PoolCreate) return std::vector<Vm>{};
    auto vms = r.vms_of(job_.pool);
    if (!vms) return vms.error();
    auto jobs = r.unfinished_jobs_of(job_.pool);
    if (!jobs) return jobs.error();
    auto leaving = leaving_vms(r, job_.pool);
    if (!leaving) return leaving.error();
    std::set<VmId> taken = std::move(*leaving);
    for (const auto& other : *jobs) {
      if (other.id == job_.id) break;
      if (other.state == JobState::Queued) return std::vector<Vm>{};  // first come, first served
      taken.insert(other.vms.begin(), other.vms.end());
    }
    for (const auto& other : *jobs) taken.insert(other.vms.begin(), other.vms.end());
    std::erase_if(*vms, [&](const Vm& vm) {
      const bool runs = vm.state == VmState::Running || vm.state == VmState::Migrating;
      return !runs || taken.contains(vm.id);
    });
    return vms;
  }

  // --- Starting, Running, Stopping
  // --------------------------------------------------------------------------

  void go_on() {
    std::vector<Vm> vms;
    for (const auto& name : job_.vms) {
      auto row = vm(name);
      if (!row) {
        if (row.error().code == Code::NotFound) return fail(row.error());
        return again();
      }
      vms.push_back(*row);
    }
    auto guest = find_guest(store(), vms.front());
    if (!guest) return fail(guest.error());
    guest_ = *guest;
    run_ = make_run(job_, vms, settings());
    if (state() == JobRunState::Starting) return launch();
    if (state() == JobRunState::Stopping) return ask_to_end();
    if (restoring()) return again(settings().job_poll);
    if (operation().cancel_requested) return stop();
    poll();
  }

  /// Its VMs are on their way back to a checkpoint: what a guest says now is of no life that
  /// counts.
  bool restoring() const {
    auto recovery = query<std::optional<Operation>>(
        store(), [&](const store::Reader& r) { return r.unfinished("recovery", id().value); });
    if (recovery && *recovery) return true;
    auto holder = query<std::optional<Operation>>(
        store(), [&](const store::Reader& r) { return r.unfinished("checkpoint", id().value); });
    return holder && *holder && (*holder)->kind == OperationKind::CheckpointRestore &&
           (*holder)->state != to_string(CheckpointRestoreState::Planned);
  }
  /// Since this was asked of a guest, too.
  bool restored_since() const {
    auto row = query<Job>(store(), [&](const store::Reader& r) { return r.job(id()); });
    return row && (row->restarts != job_.restarts || row->recovery_from != job_.recovery_from ||
                   row->recovery_tries != job_.recovery_tries);
  }
  void forget_former_life() {
    killed_ = false;
    output_tries_ = 0;
    lost_.clear();
    silent_since_.reset();
    verdict_since_.reset();
  }

  void launch() {
    call<Result<RunStatus>>(
        lane(),
        [&guests = context_.ports.guests, g = guest_, r = run_] { return guests.run(g, r); },
        [this](Result<RunStatus> status) {
          if (!status) return trouble(status.error(), [this] { launch(); });
          job_.state = JobState::Running;
          job_.started = clock().wall_now();
          if (commit(to_string(JobRunEvent::Started), to_string(JobRunState::Running), "",
                     keep_job())) {
            if (operation().cancel_requested) return stop();
            poll();
          }
        });
  }

  std::string lane() const { return "guest/" + guest_.vm.value; }

  void poll() {
    // A guest that is gone is not asked: that would take its time.
    if (a_vm_died_early()) return;
    const auto spared = context_.spared_for(guest_.vm);
    if (spared.count() > 0) return after(spared, [this] { poll(); });
    const std::string directory = settings().jobs_directory;
    call<Polled>(
        lane(),
        [&guests = context_.ports.guests, g = guest_, r = run_, directory, anew = fetch_anew_,
         have = job_.output_bytes] {
          // Status first: output that is complete at an end seen before is complete.
          auto status = guests.run_status(g, r);
          // Who does not answer is not asked twice: each time may take seconds.
          if (!status && status.error().code == Code::Unavailable) {
            return Polled{status, status.error()};
          }
          // What a guest is asked comes out of its rank's time.
          if (status && status->phase == RunPhase::Running && !anew &&
              status->output_bytes == have) {
            return Polled{std::move(status), have};
          }
          auto output = fetch_output(guests, g, r, directory, anew);
          return Polled{std::move(status), std::move(output)};
        },
        [this](Polled polled) { on_polled(std::move(polled)); });
  }

  void on_polled(Polled polled) {
    if (restoring() || restored_since()) return again(settings().job_poll);
    if (polled.output) fetch_anew_ = false;
    if (polled.output && *polled.output != job_.output_bytes) {
      job_.output_bytes = *polled.output;
      (void)store().write([&](store::Transaction& tx) { return tx.put(job_); });
      context_.changed();
    }
    if (!polled.status) return trouble(polled.status.error(), [this] { poll(); });
    silent_since_.reset();
    const bool ended_well =
        polled.status->phase == RunPhase::Exited && polled.status->exit_code == 0;
    if (polled.status->phase != RunPhase::Running && !ended_well && hold_verdict()) return;
    switch (polled.status->phase) {
      case RunPhase::Running:
        return still_running();
      case RunPhase::Exited:
        if (!polled.output && output_tries_++ < 20) {
          return after(settings().job_poll, [this] { poll(); });
        }
        if (polled.output && *polled.output < polled.status->output_bytes) {
          return soon([this] { poll(); });
        }
        return ended(polled.status->exit_code.value_or(1),
                     polled.output ? "" : polled.output.error().text());
      case RunPhase::Unknown:
      case RunPhase::Lost:
        return fail(
            make_error(Code::Internal,
                       "mpirun vanished from VM '" + guest_.vm.value + "' without an exit status",
                       "see its console log and the job's output"));
    }
  }

  void still_running() {
    if (a_vm_died()) return;
    if (state() == JobRunState::Stopping && in_state() > kTermPatience && !killed_) {
      killed_ = true;
      return signal(9);
    }
    if (state() == JobRunState::Stopping && in_state() > kKillPatience) {
      return fail(make_error(Code::Internal, "mpirun could not be ended"));
    }
    if (state() == JobRunState::Running) take_checkpoint();
    after(settings().job_poll, [this] { poll(); });
  }

  void take_checkpoint() {
    auto due = query<bool>(store(), [&](const store::Reader& r) {
      return checkpoint_is_due(r, settings(), job_, clock().wall_now());
    });
    if (!due || !*due) return;
    // Refused while a restart waits: the next look asks again.
    (void)start_child(context_, CheckpointRequest{job_.id}, operation().id);
  }

  /// Is it to come back by itself, and can it?
  bool is_recoverable() const {
    if (operation().cancel_requested || state() != JobRunState::Running) return false;
    auto back = query<bool>(store(), [&](const store::Reader& r) { return comes_back(r, job_); });
    return back && *back;
  }

  /// One try to bring it back, if there may be one.
  bool recover() {
    if (!is_recoverable()) return false;
    auto begun = start_child(context_, RecoveryRequest{id()}, operation().id);
    if (!begun) {
      no_recovery_ = begun.error().message;
      return false;
    }
    again(settings().job_poll);
    return true;
  }

  /// It ended badly, but a rank may have ended it that went with its VM, which is not known yet.
  bool hold_verdict() {
    if (!is_recoverable()) return false;
    if (a_vm_died()) return true;
    if (!verdict_since_) verdict_since_ = clock().now();
    const auto patience = settings().heartbeat * (settings().heartbeat_misses + kBeatsForAVerdict);
    if (clock().now() - *verdict_since_ > patience) return false;
    after(settings().job_poll, [this] { poll(); });
    return true;
  }

  bool a_vm_died_early() {
    const bool any = std::any_of(job_.vms.begin(), job_.vms.end(), [this](const VmId& name) {
      const auto row = vm(name);
      return row && (row->state == VmState::Failed || row->state == VmState::Lost);
    });
    return any && recover();
  }

  /// mpirun may wait for ever for a rank whose VM is gone.
  bool a_vm_died() {
    for (const auto& name : job_.vms) {
      auto row = vm(name);
      if (!row) continue;
      const bool died = row->state == VmState::Failed || row->state == VmState::Lost;
      if (died && recover()) return true;
      const bool gone = row->state == VmState::Failed || row->state == VmState::Stopped;
      if (!gone) continue;
      lost_ = "VM '" + name.value + "' is " + std::string(to_string(row->state)) +
              (row->reason.empty() ? "" : ": " + row->reason);
      if (!no_recovery_.empty()) lost_ += "; " + no_recovery_;
      // Its ranks can't come back; end what is left of it, if its launcher still answers.
      if (row->id == guest_.vm || killed_) {
        fail(make_error(Code::FailedPrecondition, lost_));
      } else {
        killed_ = true;
        signal(9);
      }
      return true;
    }
    return false;
  }

  void trouble(const Error& error, const std::function<void()>& retry) {
    // What the guest refuses for good (a bad request, a directory of somebody else) does not get
    // better.
    const bool passing = error.code == Code::Unavailable || error.code == Code::OutcomeUnknown;
    if (!passing) return fail(error);
    if (a_vm_died()) return;
    if (!silent_since_) silent_since_ = clock().now();
    if (clock().now() - *silent_since_ > settings().unreachable_timeout) {
      auto row = vm(guest_.vm);
      const bool lost = row && row->state == VmState::Lost;
      // A silent host may come back with everything as it was; only a VM that is there and mute is
      // hopeless.
      if (!lost) return fail(error.during("VM '" + guest_.vm.value + "' is silent"));
    }
    after(settings().job_poll * 2, retry);
  }

  // --- The end
  // ----------------------------------------------------------------------------------------------

  void stop() {
    if (commit(to_string(JobRunEvent::Stop), to_string(JobRunState::Stopping), "cancelled")) {
      ask_to_end();
    }
  }

  void ask_to_end() { signal(15); }

  void signal(int number) {
    call<Status>(
        lane(),
        [&guests = context_.ports.guests, g = guest_, r = run_, number] {
          return guests.signal(g, r, number);
        },
        [this](Status) { poll(); });
  }

  void ended(int exit_code, const std::string& output_trouble) {
    job_.exit_code = exit_code;
    job_.ended = clock().wall_now();
    const bool cancelled = operation().cancel_requested;
    if (cancelled) {
      job_.state = JobState::Cancelled;
      job_.reason = "cancelled";
    } else if (!lost_.empty()) {
      job_.state = JobState::Failed;
      job_.reason = lost_;
    } else {
      job_.state = exit_code == 0 ? JobState::Succeeded : JobState::Failed;
      if (exit_code != 0) job_.reason = "exit code " + std::to_string(exit_code);
    }
    if (!output_trouble.empty()) job_.reason += " (output is incomplete: " + output_trouble + ")";
    const auto outcome = cancelled                           ? Outcome::Cancelled
                         : job_.state == JobState::Succeeded ? Outcome::Succeeded
                                                             : Outcome::Failed;
    finish(to_string(JobRunEvent::Ended), to_string(JobRunState::Done), outcome, job_.reason, "",
           keep_job());
  }

  void fail(const Error& error) {
    const bool cancelled = operation().cancel_requested;
    job_.state = cancelled ? JobState::Cancelled : JobState::Failed;
    job_.reason = error.text();
    job_.ended = clock().wall_now();
    finish(to_string(JobRunEvent::Abort), to_string(JobRunState::Failed),
           cancelled ? Outcome::Cancelled : Outcome::Failed, job_.reason,
           std::string(to_string(error.code)), keep_job());
  }

  Job job_;
  GuestAddress guest_;
  GuestRun run_;
  bool killed_ = false;
  int output_tries_ = 0;
  bool fetch_anew_ = false;
  std::string lost_;
  std::optional<MonotonicTime> silent_since_;
  std::optional<MonotonicTime> verdict_since_;
  std::string no_recovery_;  // why it is not brought back
};

}  // namespace

std::shared_ptr<Task> make_job_run(Context& context, const Operation& operation) {
  return std::make_shared<JobRun>(context, operation);
}

}  // namespace mare::engine
