// checkpoint.take: one cut through all VMs of a job. All stop, their states are taken, and only
// then all go on; the files are written meanwhile. It is a checkpoint when every part is durable,
// by one transaction, or it is nothing: docs/checkpoints.md.
//
// What holds a job up must be short and must end: no commit is made while VMs stand still, nobody
// waits for a slow host for long, and a VM that hears nothing goes on by itself.
#include <algorithm>
#include <cstdio>

#include "orchestrator/engine/plan.h"
#include "orchestrator/engine/safe_point_search.h"
#include "orchestrator/engine/spec.h"
#include "orchestrator/engine/task.h"
#include "orchestrator/model/checkpoint_lifecycles.h"
#include "orchestrator/policy/checkpoint_retention.h"

namespace mare::engine {
namespace {

using Answers = std::vector<Result<CaptureStatus>>;

constexpr auto kTakeLookAgain = std::chrono::milliseconds{300};
constexpr auto kDropAgain = std::chrono::milliseconds{500};
constexpr int kReleases = 5;
constexpr auto kReleaseAgain = std::chrono::milliseconds{50};
constexpr auto kWatchCaptureEvery = std::chrono::milliseconds{100};
// Calls that wait keep threads busy that others of the gang need to stop their VMs.
constexpr std::size_t kWaitingCalls = 16;

/// `because`: why parts are full that need not be.
std::string in_words(const Checkpoint& checkpoint, const std::string& because) {
  char text[240];
  std::snprintf(text, sizeof text,
                "%s: %.0f MiB in %.1f s, %.1f MiB written, the job stood still for %.0f ms, skew "
                "%.0f ms",
                checkpoint.id.value.c_str(), checkpoint.size.mib(),
                Seconds{checkpoint.completed - checkpoint.began}.count(),
                written_by(checkpoint).mib(), static_cast<double>(checkpoint.pause.count()) / 1e3,
                static_cast<double>(checkpoint.skew.count()) / 1e3);
  const std::string base = base_of(checkpoint).value;
  const bool safe = checkpoint.safe_point == SafePoint::Hit;
  return std::string(text) + (safe ? ", at a safe point" : "") +
         (base.empty() ? std::string{} : "; built on " + base) +
         (because.empty() ? std::string{} : "; in full, " + because);
}

class CheckpointTake final : public Task {
 public:
  using State = CheckpointTakeState;
  using Event = CheckpointTakeEvent;
  using Task::Task;

  void enter(bool recovered) override {
    if (!load()) return again();
    switch (state()) {
      case State::Planned:
        safe_point_.reset();
        return begin();
      case State::Holding:
        // Nobody knows any more whether some went on before others stopped.
        if (recovered) return drop(make_error(Code::Unavailable, "mared was away in the middle"));
        return prepare();
      case State::Writing:
        watch_hosts();
        return poll();
      case State::Dropping:
        return drop_all();
      case State::Done:
      case State::Failed:
        return;
    }
  }

  void on_cancel() override {
    const auto cancelled = make_error(Code::Cancelled, "cancelled");
    if (state() == State::Planned) return give_up(cancelled);
    if (state() == State::Holding || state() == State::Writing) drop(cancelled);
  }

 private:
  State state() const {
    State parsed{};
    MARE_ASSERT(state_from(operation().state, parsed));
    return parsed;
  }
  bool step(Event event, const std::string& detail, const Also& also = {}) {
    const auto to = next(state(), event);
    MARE_ASSERT(to.has_value());
    return commit(to_string(event), to_string(*to), detail, also);
  }
  std::vector<CheckpointPart>& parts() { return checkpoint_.parts; }

  bool load() {
    const JobId id{operation().target};
    auto job = query<Job>(store(), [&](const store::Reader& r) { return r.job(id); });
    auto all = query<std::vector<Checkpoint>>(
        store(), [&](const store::Reader& r) { return r.checkpoints_of(id); });
    if (!job || !all) return false;
    job_ = *job;
    for (auto& one : *all) {
      if (one.operation == operation().id) checkpoint_ = std::move(one);
    }
    phases_.assign(parts().size(), CapturePhase::None);
    return true;
  }

  // --- Planned

  void give_up(const Error& error) {
    finish(to_string(Event::GiveUp), to_string(State::Failed),
           error.code == Code::Cancelled ? Outcome::Cancelled : Outcome::Failed, error.text(),
           std::string(to_string(error.code)));
  }

  void begin() {
    if (operation().cancel_requested) return give_up(make_error(Code::Cancelled, "cancelled"));
    if (!load()) return again();
    if (job_.state != JobState::Running) {
      return give_up(make_error(Code::FailedPrecondition,
                                job_.id.value + " is " + std::string(to_string(job_.state))));
    }
    auto busy =
        query<std::string>(store(), [&](const store::Reader& r) { return who_works_on(r, job_); });
    if (!busy) return again();
    if (!busy->empty()) return wait(*busy);
    Checkpoint fresh;
    std::vector<Vm> vms;
    for (const auto& id : job_.vms) {
      auto row = vm(id);
      if (!row) return give_up(row.error());
      vms.push_back(*row);
      if (row->state != VmState::Running) return give_up(wrong_state(*row, "running"));
      CheckpointPart part;
      part.vm = row->id;
      part.uuid = row->uuid;
      part.host = *row->host;
      fresh.parts.push_back(part);
    }
    if (job_.checkpoints.safe_points && !safe_point_) return look_for_safe_point(vms);
    if (safe_point_) fresh.safe_point = safe_point_->point;
    commit_hold(std::move(fresh));
  }

  /// Nothing is held up meanwhile, and everything is looked at again afterwards.
  void look_for_safe_point(const std::vector<Vm>& vms) {
    std::vector<GuestAddress> guests;
    for (const auto& one : vms) {
      auto guest = find_guest(store(), one);
      if (!guest) return again();
      guests.push_back(*guest);
    }
    using Found = SafePointSearch::Found;
    search_ = std::make_shared<SafePointSearch>(context_, job_.id, std::move(guests),
                                                job_.checkpoints.safe_point_wait,
                                                guarded<const Found&>([this](const Found& found) {
                                                  safe_point_ = found;
                                                  begin();
                                                }));
    search_->begin();
  }

  void wait(const std::string& busy) {
    if (clock().wall_now() >= operation().deadline) {
      return give_up(make_error(Code::Conflict, busy));
    }
    safe_point_.reset();
    const bool said = !operation().reason.empty();
    if (!said && !wait_because("Wait", "waits: " + busy, busy)) return;
    after(kTakeLookAgain, [this] { begin(); });
  }

  void commit_hold(Checkpoint fresh) {
    fresh.job = job_.id;
    fresh.operation = operation().id;
    const auto also = [&](store::Transaction& tx) -> Status {
      auto number = tx.next_number("checkpoint");
      if (!number) return number.error();
      fresh.id = CheckpointId{"ck-" + std::to_string(*number)};
      fresh.began = clock().wall_now();
      const std::string directory =
          settings().checkpoints_directory + "/" + job_.id.value + "/" + fresh.id.value + "/";
      for (auto& part : fresh.parts) part.path = directory + part.vm.value;
      // In the same transaction: from here on nobody drops what it is to be built on.
      if (auto based = choose_base(tx, fresh); !based) return based;
      return put_checkpoint(tx, clock(), fresh);
    };
    if (!step(Event::Hold, safe_point_ ? safe_point_->words : "", also)) return;
    checkpoint_ = std::move(fresh);
    phases_.assign(parts().size(), CapturePhase::None);
    prepare();
  }

  Status choose_base(const store::Transaction& tx, Checkpoint& fresh) {
    auto all = tx.checkpoints_of(job_.id);
    if (!all) return all.error();
    const auto base = policy::base_for_next(*all, job_.checkpoints);
    bases_.clear();
    for (auto& part : fresh.parts) {
      part.base = {};
      if (!base) continue;
      for (const auto& below : base->parts) {
        // What older versions wrote nothing is built on.
        if (below.vm != part.vm || below.written.count == 0) continue;
        part.base = base->id;
        bases_[part.vm] = CaptureBase{below.path, below.size, below.checksum};
      }
    }
    return ok_status();
  }

  CaptureTicket ticket_of(const CheckpointPart& part) const {
    CaptureTicket ticket{checkpoint_.id, {part.vm, part.uuid}, part.path, settings().hold_limit};
    const auto base = bases_.find(part.vm);
    if (base != bases_.end()) ticket.base = base->second;
    ticket.compress = settings().compress_checkpoints;
    if (checkpoint_.parts.size() <= kWaitingCalls) ticket.answer_within = settings().capture_answer;
    return ticket;
  }

  // --- Holding: first all hosts get ready, then VMs stand still

  template <typename R>
  GangCall<R> to_host(const CheckpointPart& part, std::function<R(Driver&)> work) {
    return {part.vm, part.host, std::move(work)};
  }

  using Call = Result<CaptureStatus> (Driver::*)(const CaptureTicket&);
  std::vector<GangCall<Result<CaptureStatus>>> to_all(Call what) {
    std::vector<GangCall<Result<CaptureStatus>>> calls;
    for (const auto& part : parts()) {
      calls.push_back(to_host<Result<CaptureStatus>>(
          part,
          [ticket = ticket_of(part), what](Driver& driver) { return (driver.*what)(ticket); }));
    }
    return calls;
  }

  /// A call to a host that was cut off ends long after everybody knows that it was; the recovery of
  /// the job waits for this operation.
  void watch_hosts() {
    after(kWatchCaptureEvery, [this] {
      const auto silent =
          std::find_if(parts().begin(), parts().end(),
                       [this](const CheckpointPart& part) { return is_down(part.host); });
      if (silent == parts().end()) return watch_hosts();
      drop(make_error(Code::Unavailable, "host '" + silent->host.value + "' is silent"));
    });
  }

  /// Hosts take their time for it, each another one, so the VMs run until the last is ready.
  void prepare() {
    watch_hosts();
    after(settings().capture_patience, [this] {
      if (!prepared_) drop(make_error(Code::Unavailable, "not every host got ready in time"));
    });
    call_gang<Result<CaptureStatus>>(
        to_all(&Driver::prepare_capture), [this](const Answers& answers) {
          prepared_ = true;
          for (std::size_t i = 0; i < answers.size(); ++i) {
            const std::string at = "host '" + parts()[i].host.value + "'";
            // An older agent gets ready when it begins.
            const bool older = !answers[i] && answers[i].error().code == Code::Unsupported;
            if (older) continue;
            if (!answers[i]) return drop(answers[i].error().during(at));
            if (answers[i]->phase == CapturePhase::Failed) {
              return drop(make_error(Code::Internal, answers[i]->error).during(at));
            }
          }
          hold();
        });
  }

  void hold() {
    after(settings().capture_patience, [this] {
      if (!begun_) drop(make_error(Code::Unavailable, "not every host stopped its VMs in time"));
    });
    call_gang<Result<CaptureStatus>>(to_all(&Driver::begin_capture),
                                     [this](const Answers& answers) {
                                       begun_ = true;
                                       if (take_in(open_parts(), answers)) look();
                                     });
  }

  /// Parts that are not in the file yet.
  std::vector<std::size_t> open_parts() const {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < phases_.size(); ++i) {
      if (phases_[i] != CapturePhase::Durable) open.push_back(i);
    }
    return open;
  }

  /// Keeps what hosts said of these parts; false when that was the end of it. While VMs stand still
  /// a host that does not answer is not waited for.
  bool take_in(const std::vector<std::size_t>& which, const Answers& answers) {
    for (std::size_t i = 0; i < which.size(); ++i) {
      CheckpointPart& part = parts()[which[i]];
      const std::string at = "host '" + part.host.value + "'";
      if (!answers[i]) {
        if (state() == State::Writing && passes(answers[i].error())) {
          auto& since = silent_[part.vm];
          if (!since) since = clock().now();
          if (clock().now() - *since < settings().unreachable_timeout) continue;
        }
        return drop(answers[i].error().during(at)), false;
      }
      const CaptureStatus& status = *answers[i];
      if (status.phase == CapturePhase::Failed) {
        return drop(make_error(Code::Internal, status.error).during(at)), false;
      }
      if (status.phase == CapturePhase::None || status.checkpoint != checkpoint_.id) {
        return drop(make_error(Code::Internal, at + " knows nothing of it any more")), false;
      }
      silent_[part.vm].reset();
      phases_[which[i]] = status.phase;
      part.stopped = status.stopped;
      part.resumed = status.resumed;
      part.size = status.size;
      part.checksum = status.checksum;
      part.written = status.written;
      if (status.phase != CapturePhase::Durable) continue;
      if (!status.incremental) part.base = {};
      if (!status.full_because.empty()) because_ = status.full_because;
    }
    return true;
  }

  void ask(std::function<void()> then) {
    const auto open = open_parts();
    std::vector<GangCall<Result<CaptureStatus>>> calls;
    for (const auto i : open) {
      const CheckpointPart& part = parts()[i];
      calls.push_back(to_host<Result<CaptureStatus>>(
          part, [key = VmKey{part.vm, part.uuid}](Driver& driver) { return driver.capture(key); }));
    }
    call_gang<Result<CaptureStatus>>(calls, [this, open, then](const Answers& answers) {
      if (take_in(open, answers)) then();
    });
  }

  void look() {
    const bool holding = std::any_of(phases_.begin(), phases_.end(), [](CapturePhase phase) {
      return phase == CapturePhase::Holding;
    });
    if (!holding) return release(1);
    after(settings().capture_poll, [this] { ask([this] { look(); }); });
  }

  /// Every state is taken: whatever a VM does from now on comes after the cut. Not committed
  /// before, because a commit takes longer than all of this, and a crash here drops the checkpoint
  /// anyway.
  void release(int attempt) {
    std::vector<GangCall<Result<CaptureStatus>>> calls;
    for (const auto& part : parts()) {
      calls.push_back(to_host<Result<CaptureStatus>>(
          part, [key = VmKey{part.vm, part.uuid}, id = checkpoint_.id](Driver& driver) {
            return driver.release_capture(key, id);
          }));
    }
    call_gang<Result<CaptureStatus>>(calls, [this, attempt](const Answers& answers) {
      const bool lost = std::any_of(answers.begin(), answers.end(), [](const auto& answer) {
        return !answer && passes(answer.error());
      });
      if (lost && attempt < kReleases) {
        return after(kReleaseAgain, [this, attempt] { release(attempt + 1); });
      }
      if (!take_in(open_parts(), answers)) return;
      if (!step(Event::Taken, "all VMs go on")) return;
      watch_hosts();
      poll();
    });
  }

  // --- Writing

  void poll() {
    const auto open = open_parts();
    if (!parts().empty()) {
      progress(1.0 - static_cast<double>(open.size()) / static_cast<double>(parts().size()));
    }
    if (open.empty()) return complete();
    if (clock().wall_now() >= operation().deadline) {
      return drop(make_error(Code::Unavailable, "it was not written in time"));
    }
    ask([this] { after(settings().poll, [this] { poll(); }); });
  }

  void complete() {
    Checkpoint done = checkpoint_;
    done.state = CheckpointState::Complete;
    done.completed = clock().wall_now();
    add_up(done);
    finish(to_string(Event::Complete), to_string(State::Done), Outcome::Succeeded,
           in_words(done, because_), {}, [&](store::Transaction& tx) -> Status {
             if (auto kept = put_checkpoint(tx, clock(), done); !kept) return kept;
             return retire(tx);
           });
  }

  /// Older ones go, in the transaction in which this one is there: a good one is left at any time.
  Status retire(store::Transaction& tx) { return retire_checkpoints(tx, clock(), job_); }

  // --- Dropping

  void drop(const Error& error) {
    checkpoint_.state = CheckpointState::Dropping;
    // The reason is kept in the history: the row's own reason is for the end.
    const bool committed = step(Event::Drop, error.text(), [this](store::Transaction& tx) {
      return put_checkpoint(tx, clock(), checkpoint_);
    });
    if (committed) drop_all();
  }

  void drop_all() {
    const std::size_t round = ++drop_round_;
    std::vector<GangCall<Status>> calls;
    std::size_t down = 0;
    for (const auto& part : parts()) {
      if (is_down(part.host)) {
        ++down;
        continue;
      }
      calls.push_back(to_host<Status>(part,
                                      [key = VmKey{part.vm, part.uuid}, id = checkpoint_.id,
                                       path = part.path](Driver& driver) -> Status {
                                        if (auto gone = driver.drop_capture(key, id, path); !gone)
                                          return gone;
                                        // An agent that was restarted knows not why it stands
                                        // still.
                                        auto on = driver.resume(key);
                                        return on || !passes(on.error()) ? ok_status() : on;
                                      }));
    }
    const auto then = [this, round, down](const std::vector<Status>& answers) {
      if (round == drop_round_) dropped(answers, down);
    };
    if (calls.empty()) return then({});
    call_gang<Status>(calls, then);
    drop_without_those_that_fall_silent(round, down);
  }

  /// While it is asked, a host may turn out to be cut off: the others are asked once more, which
  /// harms nothing, and it is not.
  void drop_without_those_that_fall_silent(std::size_t round, std::size_t known) {
    after(kWatchCaptureEvery, [this, round, known] {
      if (round != drop_round_) return;
      const auto down = static_cast<std::size_t>(
          std::count_if(parts().begin(), parts().end(),
                        [this](const CheckpointPart& part) { return is_down(part.host); }));
      if (down > known) return drop_all();
      drop_without_those_that_fall_silent(round, known);
    });
  }

  /// `down`: so many parts are on hosts that were not asked, since they are down.
  void dropped(const std::vector<Status>& answers, std::size_t down) {
    const bool asked_well =
        std::all_of(answers.begin(), answers.end(), [](const Status& one) { return one.ok(); });
    const bool all = asked_well && down == 0;
    if (!asked_well && in_state() < settings().unreachable_timeout) {
      return after(kDropAgain, [this] { drop_all(); });
    }
    // On a silent host a VM goes on by itself; the file is left to the keeper, as is its row.
    const bool cancelled = operation().cancel_requested;
    finish(to_string(Event::Dropped), to_string(State::Failed),
           cancelled ? Outcome::Cancelled : Outcome::Failed,
           why_in(operation().state, "dropped") + "; the job goes on",
           std::string(to_string(cancelled ? Code::Cancelled : Code::Internal)),
           [&](store::Transaction& tx) { return all ? tx.erase(checkpoint_.id) : ok_status(); });
  }

  Job job_;
  std::shared_ptr<SafePointSearch> search_;
  std::optional<SafePointSearch::Found> safe_point_;  // looked for just now
  Checkpoint checkpoint_;
  std::vector<CapturePhase> phases_;  // of the parts, as heard last
  std::map<VmId, CaptureBase> bases_;
  std::string because_;    // a host's reason for a full part
  bool prepared_ = false;  // every host answered that it is ready
  bool begun_ = false;     // every host answered that it stopped its VM
  std::map<VmId, std::optional<MonotonicTime>> silent_;
  std::size_t drop_round_ = 0;  // answers of an earlier one don't count
};

}  // namespace

std::shared_ptr<Task> make_checkpoint_take(Context& context, const Operation& operation) {
  return std::make_shared<CheckpointTake>(context, operation);
}

}  // namespace mare::engine
