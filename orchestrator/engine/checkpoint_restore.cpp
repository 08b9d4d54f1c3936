#include "orchestrator/engine/checkpoint_restore.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "orchestrator/engine/plan.h"
#include "orchestrator/engine/spec.h"
#include "orchestrator/policy/partners.h"

namespace mare::engine {
namespace {

constexpr auto kRestoreLookAgain = std::chrono::milliseconds{300};
constexpr auto kTellHostsAgain = std::chrono::milliseconds{500};
constexpr auto kWatchEvery = std::chrono::milliseconds{200};
constexpr auto kLeasesAgain = std::chrono::milliseconds{50};

}  // namespace

void CheckpointRestore::enter(bool recovered) {
  if (!load()) return again();
  switch (state()) {
    case State::Planned:
      return begin();
    case State::Clearing:
      watch_hosts();
      return clear();
    case State::Loading:
      watch_hosts();
      return load_all(recovered);
    case State::Resuming:
      watch_hosts();
      return resume_all();
    case State::Cleaning:
      return clean();
    case State::Done:
    case State::Failed:
    case State::NeedsOperator:
      return;
  }
}

void CheckpointRestore::on_cancel() {
  if (state() == State::Planned) refuse(make_error(Code::Cancelled, "cancelled"));
}

CheckpointRestore::State CheckpointRestore::state() const {
  State parsed{};
  MARE_ASSERT(state_from(operation().state, parsed));
  return parsed;
}

bool CheckpointRestore::step(Event event, const std::string& detail, const Also& also) {
  const auto to = next(state(), event);
  MARE_ASSERT(to.has_value());
  return commit(to_string(event), to_string(*to), detail, also);
}

/// The rows that everything here needs. Those of VMs that were erased meanwhile are left out: only
/// Planned can find that, the others hold them.
bool CheckpointRestore::load() {
  const auto request = nlohmann::json::parse(operation().request, nullptr, false);
  const CheckpointId id{request.value("checkpoint", "")};
  allowed_.clear();
  for (const auto& host : request.value("hosts", std::vector<std::string>{})) {
    allowed_.emplace_back(host);
  }
  eager_ = request.value("eager", false);
  vms_.clear();
  specs_.clear();
  const Status read = store().read([&](const store::Reader& reader) -> Status {
    auto job = reader.job(JobId{operation().target});
    if (!job) return job.error();
    job_ = *job;
    auto checkpoint = reader.checkpoint(id);
    if (!checkpoint && checkpoint.error().code != Code::NotFound) return checkpoint.error();
    checkpoint_ = checkpoint ? *checkpoint : Checkpoint{};
    for (const auto& part : checkpoint_.parts) {
      auto vm = reader.vm(part.vm);
      if (vm) vms_.push_back(*vm);
      if (!vm && vm.error().code != Code::NotFound) return vm.error();
    }
    return ok_status();
  });
  if (!read) return false;
  if (eager_) {
    for (auto& part : checkpoint_.parts) part.partner = {};
  }
  for (std::size_t i = 0; i < vms_.size(); ++i) {
    auto spec = find_spec(store(), context_.ports.images, settings(), vms_[i]);
    if (!spec) return state() == State::Planned;
    // The incarnation that the file holds, also when another has run since.
    spec->uuid = checkpoint_.parts[i].uuid;
    specs_.push_back(*spec);
  }
  return true;
}

// --- Planned

void CheckpointRestore::refuse(const Error& error) {
  finish(to_string(Event::Abort), to_string(State::Failed),
         error.code == Code::Cancelled ? Outcome::Cancelled : Outcome::Failed, error.text(),
         std::string(to_string(error.code)));
}

void CheckpointRestore::begin() {
  if (operation().cancel_requested) return refuse(make_error(Code::Cancelled, "cancelled"));
  if (!load()) return again();
  if (checkpoint_.state != CheckpointState::Complete) {
    return refuse(make_error(Code::FailedPrecondition, "the checkpoint is gone",
                             "see 'mare job checkpoints " + job_.id.value + "'"));
  }
  if (vms_.size() != checkpoint_.parts.size() || specs_.size() != vms_.size()) {
    return refuse(make_error(Code::FailedPrecondition,
                             "the VMs of " + job_.id.value + " or their image are gone"));
  }
  auto busy =
      query<std::string>(store(), [&](const store::Reader& r) { return who_works_on(r, job_); });
  if (!busy) return again();
  if (!busy->empty()) return wait(*busy);
  auto obstacle = why_not();
  if (!obstacle) return again();
  if (!obstacle->empty()) return refuse(make_error(Code::FailedPrecondition, *obstacle));
  const Status room = store().read([&](const store::Reader& r) { return check_places(r); });
  if (!room) return refuse(room.error());
  std::optional<Operation> revived;
  const auto also = [&](store::Transaction& tx) -> Status {
    if (auto done = take_over(tx); !done) return done;
    auto follower = tx.unfinished("job", job_.id.value);
    if (!follower) return follower.error();
    if (*follower) return ok_status();
    // The job had ended: somebody must follow it again.
    Operation draft;
    draft.kind = OperationKind::JobRun;
    draft.target = job_.id.value;
    draft.state = to_string(JobRunState::Running);
    auto accepted = insert_operation(tx, clock(), draft);
    if (!accepted) return accepted.error();
    revived = *accepted;
    return ok_status();
  };
  if (!step(Event::Begin, "from " + checkpoint_.id.value, also)) return;
  if (revived) {
    context_.inbox->post(
        [&context = context_, operation = *revived] { context.adopt(operation, false); });
  }
  watch_hosts();
  clear();
}

void CheckpointRestore::wait(const std::string& busy) {
  if (clock().wall_now() >= operation().deadline) return refuse(make_error(Code::Conflict, busy));
  const bool said = !operation().reason.empty();
  if (!said && !wait_because("Wait", "waits: " + busy, busy)) return;
  after(kRestoreLookAgain, [this] { begin(); });
}

/// "" if nothing stands against it.
Result<std::string> CheckpointRestore::why_not() const {
  return query<std::string>(store(), [&](const store::Reader& r) -> Result<std::string> {
    auto follower = r.unfinished("job", job_.id.value);
    if (!follower) return follower.error();
    if (*follower && (*follower)->state != to_string(JobRunState::Running)) {
      return job_.id.value + " is " + (*follower)->state + ", only one that runs or has ended can";
    }
    auto pool = r.unfinished("pool", job_.pool.value);
    if (!pool) return pool.error();
    // A pool that is scaled leaves the VMs of a job that runs alone.
    const bool scaled = *pool && (*pool)->kind == OperationKind::PoolScale && follower->has_value();
    if (*pool && !scaled) {
      return "pool '" + job_.pool.value + "' is held by " + (*pool)->id.value + " (" +
             std::string(to_string((*pool)->kind)) + ")";
    }
    auto others = r.unfinished_jobs_of(job_.pool);
    if (!others) return others.error();
    for (const auto& other : *others) {
      if (other.id == job_.id) continue;
      for (const auto& vm : other.vms) {
        if (std::find(job_.vms.begin(), job_.vms.end(), vm) == job_.vms.end()) continue;
        return "VM '" + vm.value + "' runs a rank of " + other.id.value + " by now";
      }
    }
    for (const auto& vm : vms_) {
      if (!vm.host) continue;
      auto host = r.host(*vm.host);
      if (!host) return host.error();
      if (host->health == HostHealth::Up) continue;
      return "VM '" + vm.id.value + "' may run on host '" + host->id.value + "', which is " +
             std::string(to_string(host->health)) + ": it would run twice";
    }
    return std::string{};
  });
}

/// Hosts for all, as if none of the job's VMs were there.
Result<std::vector<HostId>> CheckpointRestore::places(const store::Reader& reader) const {
  auto hosts = reader.hosts();
  if (!hosts) return hosts.error();
  auto vms = reader.vms();
  if (!vms) return vms.error();
  auto reservations = reader.reservations();
  if (!reservations) return reservations.error();
  auto pool = reader.pool(job_.pool);
  if (!pool) return pool.error();
  std::erase_if(*vms, [&](const Vm& vm) {
    return std::any_of(vms_.begin(), vms_.end(), [&](const Vm& own) { return own.id == vm.id; });
  });
  std::vector<policy::Claim> claims;
  for (const auto& one : *reservations) claims.push_back({one.host, one.memory});
  std::vector<Bytes> sizes;
  for (const auto& vm : vms_) sizes.push_back(vm.memory);
  std::vector<HostId> partners;
  for (const auto& part : checkpoint_.parts) partners.push_back(part.partner);
  const auto& allowed = allowed_.empty() ? pool->hosts : allowed_;
  return policy::place_preferred(policy::rooms(*hosts, *vms, claims, allowed, {}), sizes, partners);
}

Status CheckpointRestore::check_places(const store::Reader& reader) const {
  auto found = places(reader);
  return found ? ok_status() : Status(found.error());
}

/// From here on the job's VMs are this operation's.
Status CheckpointRestore::take_over(store::Transaction& tx) {
  for (auto vm : vms_) {
    if (!vm.host) continue;
    vm.state = VmState::Starting;
    vm.reason = "";
    if (auto done = put_vm(tx, clock(), vm); !done) return done;
  }
  job_.state = JobState::Starting;
  job_.reason = "goes back to " + checkpoint_.id.value;
  job_.exit_code.reset();
  job_.ended = WallTime{0};
  return put_job(tx, clock(), job_);
}

// --- Clearing

std::vector<Task::GangCall<Status>> CheckpointRestore::on_hosts(
    const std::function<Status(Driver&, const VmSpec&, const CheckpointPart&)>& work) {
  std::vector<GangCall<Status>> calls;
  for (std::size_t i = 0; i < vms_.size(); ++i) {
    if (!vms_[i].host) continue;
    calls.push_back({vms_[i].id, *vms_[i].host,
                     [work, spec = specs_[i], part = checkpoint_.parts[i]](Driver& driver) {
                       return work(driver, spec, part);
                     }});
  }
  return calls;
}

std::optional<Error> CheckpointRestore::trouble(const std::vector<Status>& answers,
                                                bool& all_well) const {
  std::optional<Error> passing;
  for (const auto& answer : answers) {
    if (answer) continue;
    if (!passes(answer.error())) return answer.error();
    if (!passing) passing = answer.error();
  }
  all_well = !passing;
  if (passing && !a_host_is_down() && in_state() < settings().unreachable_timeout) passing.reset();
  return passing;
}

/// Then waiting for it is not worth the time of those that remain. A recovery goes on by fencing
/// it; a restart that a person asked for can only wait.
bool CheckpointRestore::a_host_is_down() const {
  if (!operation().parent) return false;
  return std::any_of(vms_.begin(), vms_.end(), [this](const Vm& vm) { return is_down(vm); });
}

bool CheckpointRestore::is_down(const Vm& vm) const {
  return vm.host && operation().parent && Task::is_down(*vm.host);
}

void CheckpointRestore::watch_hosts() {
  if (!operation().parent) return;
  after(kWatchEvery, [this] {
    const auto silent =
        std::find_if(vms_.begin(), vms_.end(), [this](const Vm& vm) { return is_down(vm); });
    if (silent == vms_.end()) return watch_hosts();
    abort(make_error(Code::Unavailable, "host '" + silent->host->value + "' is silent"));
  });
}

void CheckpointRestore::clear() {
  if (!load()) return again();
  // By the rows' own uuid: another incarnation than the file's may have run since.
  std::vector<GangCall<Status>> calls;
  for (const auto& vm : vms_) {
    if (!vm.host) continue;
    calls.push_back({vm.id, *vm.host, [key = VmKey{vm.id, vm.uuid}](Driver& driver) {
                       return driver.destroy(key);
                     }});
  }
  if (calls.empty()) return place();
  call_gang<Status>(calls, [this](const std::vector<Status>& answers) { cleared(answers); });
}

void CheckpointRestore::cleared(const std::vector<Status>& answers) {
  bool all_well = false;
  if (auto error = trouble(answers, all_well)) return abort(*error);
  if (!all_well) return after(kTellHostsAgain, [this] { clear(); });
  place();
}

void CheckpointRestore::place() {
  Error refusal;
  std::vector<Vm> rows = vms_;
  const auto also = [&](store::Transaction& tx) -> Status {
    auto found = places(tx);
    if (!found) {
      refusal = found.error();
      return refusal;
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].host = found->at(i);
      rows[i].uuid = checkpoint_.parts[i].uuid;
      rows[i].state = VmState::Starting;
      rows[i].reason = "";
      if (auto done = put_vm(tx, clock(), rows[i]); !done) return done;
    }
    return ok_status();
  };
  if (step(Event::Cleared, "", also)) {
    vms_ = rows;
    watch_hosts();
    return load_all(false);
  }
  if (!refusal.message.empty()) abort(refusal);
}

// --- Loading

/// How many of the VMs are started from the memory of their hosts; "" for none, and where another
/// process of mared loaded them.
std::string CheckpointRestore::from_memory() const {
  const int mapped = mapped_ ? mapped_->load() : 0;
  if (mapped == 0) return "";
  return ", " + std::to_string(mapped) + " of " + std::to_string(vms_.size()) +
         " from their hosts' memory";
}

/// `afresh`: what an earlier process began may be half there; none of it has run.
void CheckpointRestore::load_all(bool afresh) {
  mapped_ = std::make_shared<std::atomic<int>>(0);
  const auto work = [afresh, id = checkpoint_.id, mapped = mapped_](
                        Driver& driver, const VmSpec& spec, const CheckpointPart& part) -> Status {
    if (afresh) {
      if (auto gone = driver.destroy(spec.key()); !gone) return gone;
    }
    auto loaded = driver.load_capture(spec, id, part);
    if (loaded && loaded->mapped) mapped->fetch_add(1);
    return loaded ? ok_status() : Status(loaded.error());
  };
  call_gang<Status>(on_hosts(work),
                    [this](const std::vector<Status>& answers) { loaded(answers); });
}

void CheckpointRestore::loaded(const std::vector<Status>& answers) {
  bool all_well = false;
  if (auto error = trouble(answers, all_well)) return abort(*error);
  if (!all_well) return after(kTellHostsAgain, [this] { load_all(false); });
  progress(0.8);
  if (leases_are_due()) return after(kLeasesAgain, [this, answers] { loaded(answers); });
  if (step(Event::Loaded, "all VMs are there" + from_memory())) {
    watch_hosts();
    resume_all();
  }
}

/// A VM that runs on a host without a lease can't be fenced: should that host fall silent, the job
/// would wait for it for ever. A host is asked with the next heartbeat; one that says nothing is
/// called down before this patience ends, and one that holds no leases is not waited for longer.
bool CheckpointRestore::leases_are_due() const {
  if (!operation().parent) return false;
  if (in_state() > settings().heartbeat * (settings().heartbeat_misses + 1)) return false;
  return std::any_of(vms_.begin(), vms_.end(), [this](const Vm& vm) {
    const auto row = vm.host ? host(*vm.host) : Result<Host>(make_error(Code::NotFound, ""));
    return row && row->lease.count() == 0;
  });
}

std::shared_ptr<Task> make_checkpoint_restore(Context& context, const Operation& operation) {
  return std::make_shared<CheckpointRestore>(context, operation);
}

}  // namespace mare::engine
