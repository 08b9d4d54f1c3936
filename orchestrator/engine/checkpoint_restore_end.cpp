// A restore after its VMs are loaded: they run, all at once; or it is given up, and none does.
#include <algorithm>

#include "orchestrator/engine/checkpoint_restore.h"
#include "orchestrator/engine/spec.h"

namespace mare::engine {
namespace {

constexpr auto kResumeAgain = std::chrono::milliseconds{200};
constexpr auto kVerifyWithin = std::chrono::seconds{30};
constexpr auto kLookAtVmsEvery = std::chrono::milliseconds{500};

}  // namespace

void CheckpointRestore::resume_all() {
  call_gang<Status>(
      on_hosts([](Driver& driver, const VmSpec& spec, const CheckpointPart&) -> Status {
        if (auto runs = driver.resume(spec.key()); !runs) return runs;
        // Peers and switches remember the former host; a frame that is lost is sent again by TCP.
        (void)driver.announce(spec);
        return ok_status();
      }),
      [this](const std::vector<Status>& answers) { resumed(answers); });
}

/// What connects to a guest of before is of no use to the one that is put back.
void CheckpointRestore::hang_up() {
  for (const auto& vm : vms_) {
    if (const auto guest = find_guest(store(), vm)) context_.ports.guests.hang_up(*guest);
  }
}

void CheckpointRestore::resumed(const std::vector<Status>& answers) {
  bool all_well = false;
  if (auto error = trouble(answers, all_well)) return abort(*error);
  if (!all_well) return after(kResumeAgain, [this] { resume_all(); });
  hang_up();
  watch_vms();
  verify();
}

void CheckpointRestore::watch_vms() {
  std::vector<GangCall<Result<VmObservation>>> calls;
  for (const auto& vm : vms_) {
    calls.push_back({vm.id, *vm.host, [key = VmKey{vm.id, vm.uuid}](Driver& driver) {
                       return driver.observe(key);
                     }});
  }
  call_gang<Result<VmObservation>>(
      calls, [this](const std::vector<Result<VmObservation>>& answers) {
        for (std::size_t i = 0; i < answers.size(); ++i) {
          if (!answers[i] || answers[i]->copy != Copy::Absent) continue;
          return abort(make_error(Code::Unavailable, "VM '" + vms_[i].id.value + "' has ended"));
        }
        after(kLookAtVmsEvery, [this] { watch_vms(); });
      });
}

/// A job that was put back is good when its guests answer.
void CheckpointRestore::verify() {
  auto answers = std::make_shared<std::vector<Status>>(vms_.size());
  auto left = std::make_shared<std::size_t>(vms_.size());
  for (std::size_t i = 0; i < vms_.size(); ++i) {
    auto guest = find_guest(store(), vms_[i]);
    if (!guest) return abort(guest.error());
    call<Status>(
        "guest/" + vms_[i].id.value,
        [&guests = context_.ports.guests, &clock = clock(), guest = *guest]() -> Status {
          // It believes that it is still the time of the checkpoint.
          return guests.came_back(guest, clock.wall_now());
        },
        [this, i, answers, left](const Status& answer) {
          answers->at(i) = answer;
          if (--*left == 0) verified(*answers);
        });
  }
}

void CheckpointRestore::verified(const std::vector<Status>& answers) {
  for (const auto& answer : answers) {
    if (answer) continue;
    if (passes(answer.error()) && !a_host_is_down() && in_state() < kVerifyWithin) {
      return after(kResumeAgain, [this] { verify(); });
    }
    return abort(answer.error().during("a guest does not answer"));
  }
  done();
}

/// A host's list from before says nothing about these VMs.
void CheckpointRestore::settle() {
  for (const auto& vm : vms_) context_.settled[vm.id] = clock().now();
}

void CheckpointRestore::done() {
  const WallTime now = clock().wall_now();
  settle();
  finish(to_string(Event::Runs), to_string(State::Done), Outcome::Succeeded,
         job_.id.value + " goes on from " + checkpoint_.id.value + from_memory(), {},
         [&](store::Transaction& tx) -> Status {
           for (auto vm : vms_) {
             vm.state = VmState::Running;
             vm.started = now;
             if (auto kept = put_vm(tx, clock(), vm); !kept) return kept;
           }
           Job job = job_;
           job.state = JobState::Running;
           job.reason = "";
           ++job.restarts;
           // What was fetched may be of the life that is undone: all of it is fetched again.
           job.output_bytes = 0;
           return put_job(tx, clock(), job);
         });
}

// --- back

void CheckpointRestore::abort(const Error& error) {
  // The reason is kept in the history: the row's own reason is for the end.
  if (step(Event::Abort, error.text())) clean();
}

std::string CheckpointRestore::why_aborted() const {
  return why_in(to_string(State::Cleaning), "given up");
}

/// The rows name the hosts: the former ones if it was given up while clearing, else the new ones.
void CheckpointRestore::clean() {
  if (!load()) return again();
  std::vector<GangCall<Status>> calls;
  std::vector<std::optional<Status>> known;  // without a call; one for each VM that has a host
  for (const auto& vm : vms_) {
    if (!vm.host) continue;
    known.emplace_back();
    if (is_down(vm)) {
      // What was loaded there and never told to run can't run; if the host comes back it is ended.
      known.back() =
          only_loaded() ? ok_status() : Status(make_error(Code::Unavailable, "it is silent"));
      continue;
    }
    calls.push_back({vm.id, *vm.host, [key = VmKey{vm.id, vm.uuid}](Driver& driver) {
                       return driver.destroy(key);
                     }});
  }
  const auto all = [this, known](const std::vector<Status>& answers) {
    std::vector<Status> out;
    std::size_t asked = 0;
    for (const auto& one : known) out.push_back(one ? *one : answers.at(asked++));
    cleaned(out);
  };
  if (calls.empty()) return all({});
  call_gang<Status>(calls, all);
}

/// All of the former life was gone before, and nothing was told to run since.
bool CheckpointRestore::only_loaded() const {
  auto lines = query<std::vector<OperationEvent>>(
      store(), [&](const store::Reader& r) { return r.history(operation().id); });
  if (!lines) return false;
  const auto was_in = [&](State state) {
    return std::any_of(lines->begin(), lines->end(),
                       [state](const OperationEvent& line) { return line.to == to_string(state); });
  };
  return was_in(State::Loading) && !was_in(State::Resuming);
}

void CheckpointRestore::cleaned(const std::vector<Status>& answers) {
  const bool all =
      std::all_of(answers.begin(), answers.end(), [](const Status& one) { return one.ok(); });
  if (!all && !a_host_is_down() && in_state() < settings().unreachable_timeout) {
    return after(kResumeAgain, [this] { clean(); });
  }
  const std::string reason = why_aborted();
  settle();
  const auto also = [&](store::Transaction& tx) -> Status {
    std::size_t asked = 0;
    for (auto vm : vms_) {
      if (!vm.host) continue;
      const Status& gone = answers.at(asked++);
      vm.state = gone ? VmState::Failed : VmState::Lost;
      vm.reason = gone ? "its job could not be put back: " + reason
                       : "a copy may be on '" + vm.host->value + "': " + gone.error().text();
      if (gone) vm.host.reset();
      if (auto kept = put_vm(tx, clock(), vm); !kept) return kept;
    }
    Job job = job_;
    job.state = JobState::Running;  // whoever follows it finds its VMs gone, and says so
    job.reason = "";
    return put_job(tx, clock(), job);
  };
  const std::string words =
      reason + "; " + checkpoint_.id.value + " is kept, the job can be restarted from it";
  if (all) {
    finish(to_string(Event::Gone), to_string(State::Failed), Outcome::Failed, words,
           std::string(to_string(Code::Internal)), also);
    return;
  }
  finish(to_string(Event::GiveUp), to_string(State::NeedsOperator), Outcome::NeedsOperator,
         words + ", when the silent host is back", std::string(to_string(Code::OutcomeUnknown)),
         also);
}

}  // namespace mare::engine
