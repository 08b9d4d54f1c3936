#include "orchestrator/engine/evacuation_rows.h"

#include <algorithm>
#include <limits>
#include <map>

#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/past_moves.h"
#include "orchestrator/engine/plan.h"
#include "orchestrator/model/migration_state.h"
#include "orchestrator/policy/plan_words.h"

namespace mare::engine {
namespace {

/// A move begins with a forecast of its own, for which docs/api.md gives it 5 s.
constexpr double kLead_s = 5;
/// What an overdue move may still take, as a share of what it was to take at most.
constexpr double kOverdue = 0.2;
constexpr int kTriesOfAVm = 2;
constexpr int kTriesOfAJob = 2;
/// Forecasts of the minute before a warning are as good as new ones.
constexpr auto kForecastAge = std::chrono::seconds{60};
/// While the host lasts, the checkpoint that covers a job is not to become older than this.
constexpr auto kCoverAge = std::chrono::seconds{60};
/// Past checkpoints vary; what was never measured is 100 Mbit/s.
constexpr double kCheckpointMargin = 1.5;
constexpr double kCheckpointStart_s = 1;
constexpr double kUnknownLink = 12.5e6;
constexpr std::size_t kForecastsLookedAt = 8;

double seconds_between(WallTime from, WallTime to) {
  return Seconds{to - from}.count();
}

class ThreatReader {
 public:
  ThreatReader(const store::Reader& reader, const Settings& settings, const Warning& warning)
      : reader_(reader), settings_(settings), warning_(warning) {}

  Result<policy::Threat> read() {
    auto host = reader_.host(warning_.host);
    if (!host) return host.error();
    out_.host = host->id;
    out_.left_s = std::max(0.0, seconds_between(warning_.now, warning_.deadline));
    out_.lead_s = kLead_s;
    out_.caps = settings_.move_caps;
    auto vms = reader_.vms_on(warning_.host);
    if (!vms) return vms.error();
    for (const auto& vm : *vms) {
      if (auto done = add(vm); !done) return done.error();
    }
    if (auto done = add_under_way(); !done) return done.error();
    for (const auto& [id, job] : jobs_) {
      auto row = threatened(job);
      if (!row) return row.error();
      out_.jobs.push_back(*row);
    }
    return std::move(out_);
  }

 private:
  std::pair<int, std::string> failures(OperationKind kind, const std::string& target) const {
    std::pair<int, std::string> out;
    for (const auto& child : warning_.children) {
      if (child.kind != kind || child.target != target || !child.finished()) continue;
      if (child.outcome == Outcome::Succeeded) continue;
      if (out.first++ == 0) out.second = child.reason;
    }
    return out;
  }

  Status add(const Vm& vm) {
    auto jobs = jobs_on(reader_, vm);
    if (!jobs) return jobs.error();
    policy::LeavingVm row;
    row.vm = vm.id;
    if (!jobs->empty()) {
      row.job = jobs->front().id;
      jobs_[jobs->front().id.value] = jobs->front();
    }
    auto holder = reader_.unfinished("vm", vm.id.value);
    if (!holder) return holder.error();
    if (*holder && (*holder)->kind == OperationKind::VmMigrate) return ok_status();
    auto forecast = newest_forecast(vm.id);
    if (!forecast) return forecast.error();
    if (*forecast) {
      row.destination = (*forecast)->destination;
      link_ = std::min(link_, (*forecast)->link.goodput.value);
    }
    const auto [tries, last] = failures(OperationKind::VmMigrate, vm.id.value);
    if (*holder) {
      row.why_not = "it is held by " + (*holder)->id.value + " (" +
                    std::string(to_string((*holder)->kind)) + ")";
    } else if (vm.state != VmState::Running) {
      row.why_not = "it is " + std::string(to_string(vm.state));
    } else if (tries >= kTriesOfAVm) {
      row.why_not = last;
    } else if (!*forecast) {
      row.why_not = "there is no forecast of its move";
    } else {
      row.ways = ways_of(**forecast);
      if (row.ways.empty()) row.why_not = (*forecast)->reason;
    }
    out_.vms.push_back(std::move(row));
    return ok_status();
  }

  Result<std::optional<Forecast>> newest_forecast(const VmId& vm) const {
    auto all = reader_.forecasts(vm, kForecastsLookedAt);
    if (!all) return all.error();
    for (auto& one : *all) {
      if (one.source != warning_.host || one.made < warning_.since - kForecastAge) continue;
      return std::optional<Forecast>{std::move(one)};
    }
    return std::optional<Forecast>{};
  }

  /// What its pool's policy chooses, then what is quickest, unless the policy leaves no choice.
  static std::vector<policy::WayOut> ways_of(const Forecast& forecast) {
    std::vector<policy::WayOut> out;
    const auto add = [&out](const StrategyForecast& one) {
      out.push_back({one.strategy, std::max(0.001, one.total_time_s.high)});
    };
    const auto* said = forecast.choice ? forecast_of(forecast, *forecast.choice) : nullptr;
    if (said != nullptr) add(*said);
    if (forecast.policy.strategy) return out;
    const StrategyForecast* quickest = nullptr;
    for (const auto& one : forecast.strategies) {
      const bool can = one.offered && one.converges && one.why_not.empty() &&
                       one.strategy != Strategy::CheckpointRestart;
      if (!can) continue;
      if (quickest == nullptr || one.total_time_s.high < quickest->total_time_s.high) {
        quickest = &one;
      }
    }
    if (quickest != nullptr && quickest != said) add(*quickest);
    return out;
  }

  double longest_checkpoint(const std::vector<Checkpoint>& past, Bytes memory) const {
    double longest = 0;
    for (const auto& one : past) {
      if (one.state != CheckpointState::Complete) continue;
      longest = std::max(longest, seconds_between(one.began, one.completed));
    }
    if (longest == 0) {
      const double link = std::min(link_, std::numeric_limits<double>::max());
      longest = static_cast<double>(memory.count) /
                (link == std::numeric_limits<double>::max() ? kUnknownLink : link);
    }
    return kCheckpointStart_s + kCheckpointMargin * longest;
  }

  Result<policy::ThreatenedJob> threatened(const Job& job) {
    policy::ThreatenedJob out;
    out.job = job.id;
    auto past = reader_.checkpoints_of(job.id);
    if (!past) return past.error();
    const auto fresh = std::max(warning_.since, warning_.now - WallTime{kCoverAge});
    for (const auto& one : *past) {
      if (one.state != CheckpointState::Complete) continue;
      out.has_checkpoint = true;
      out.covered |= one.began >= fresh;
    }
    auto memory = memory_of(job, out.why_not);
    if (!memory) return memory.error();
    const double longest = longest_checkpoint(*past, *memory);
    wait_for_moves(job, out);
    auto holder = reader_.unfinished("checkpoint", job.id.value);
    if (!holder) return holder.error();
    if (*holder && (*holder)->kind == OperationKind::CheckpointTake) {
      out.saving = true;
      const double since = seconds_between((*holder)->created, warning_.now);
      out.checkpoint_s = std::max(kCheckpointStart_s, longest - since);
      return out;
    }
    const auto [tries, last] = failures(OperationKind::CheckpointTake, job.id.value);
    if (*holder) {
      out.why_not = "it is being put back to a checkpoint";
    } else if (job.state != JobState::Running) {
      out.why_not = "it is " + std::string(to_string(job.state));
    } else if (tries >= kTriesOfAJob) {
      out.why_not = last;
    } else if (out.why_not.empty()) {
      out.checkpoint_s = longest;
    }
    return out;
  }

  /// Of all its VMs; `why_not` says which of them can't be captured now.
  Result<Bytes> memory_of(const Job& job, std::string& why_not) const {
    Bytes out;
    for (const auto& id : job.vms) {
      auto vm = reader_.vm(id);
      if (!vm) return vm.error();
      out = out + vm->memory;
      const bool runs = vm->state == VmState::Running || vm->state == VmState::Migrating;
      if (!runs && why_not.empty()) {
        why_not = "VM '" + id.value + "' is " + std::string(to_string(vm->state));
      }
      if (!vm->host) continue;
      auto host = reader_.host(*vm->host);
      if (!host) return host.error();
      if (host->health != HostHealth::Up && why_not.empty()) {
        why_not = "host '" + host->id.value + "' is " + std::string(to_string(host->health));
      }
    }
    return out;
  }

  Status add_under_way() {
    store::OperationFilter filter;
    filter.kind = OperationKind::VmMigrate;
    filter.unfinished_only = true;
    filter.limit = 100000;
    auto all = reader_.operations(filter);
    if (!all) return all.error();
    for (const auto& operation : *all) {
      auto migration = reader_.migration(operation.id);
      if (!migration) return migration.error();
      const bool own = std::any_of(warning_.children.begin(), warning_.children.end(),
                                   [&](const Operation& one) { return one.id == operation.id; });
      // It has no place yet, and may wait for a moment of its own.
      if (!own && operation.state == to_string(MigrationState::Planned)) continue;
      auto longest = longest_of(*migration);
      if (!longest) return longest.error();
      double left = *longest + kLead_s - seconds_between(operation.created, warning_.now);
      const bool overdue = left <= 0;
      left = std::max(left, std::max(1.0, kOverdue * *longest));
      out_.under_way.push_back({migration->source, migration->destination, left});
      moving_[migration->vm.value] = {left, overdue};
    }
    return ok_status();
  }

  /// A checkpoint begins when no VM of the job is on its way.
  void wait_for_moves(const Job& job, policy::ThreatenedJob& out) const {
    for (const auto& id : job.vms) {
      const auto found = moving_.find(id.value);
      if (found == moving_.end()) continue;
      out.waits_s = std::max(out.waits_s, found->second.left_s);
      out.overdue |= found->second.overdue;
    }
  }

  /// By its own forecast, else by the last one of its VM; infinity if nobody knows.
  Result<double> longest_of(const Migration& migration) const {
    auto all = reader_.forecasts(migration.vm, kForecastsLookedAt);
    if (!all) return all.error();
    for (const auto& one : *all) {
      if (one.source != migration.source) continue;
      const auto* said = forecast_of(one, migration.sending.strategy);
      if (said != nullptr) return said->total_time_s.high;
    }
    return std::numeric_limits<double>::infinity();
  }

  const store::Reader& reader_;
  const Settings& settings_;
  const Warning& warning_;
  policy::Threat out_;
  std::map<std::string, Job> jobs_;
  struct OnItsWay {
    double left_s = 0;  // at most
    bool overdue = false;
  };
  std::map<std::string, OnItsWay> moving_;            // by VM
  double link_ = std::numeric_limits<double>::max();  // the slowest that was measured, bytes/s
};

struct OwnMoves {
  bool any = false;
  bool moved = false;
  std::string trouble;  // of the last that failed
};
OwnMoves moves_of(const Warning& warning, const VmId& vm) {
  OwnMoves out;
  for (const auto& child : warning.children) {
    if (child.kind != OperationKind::VmMigrate || child.target != vm.value) continue;
    out.any = true;
    out.moved |= child.outcome == Outcome::Succeeded;
    // One that was cancelled was so because of the time.
    const bool failed = child.outcome == Outcome::Failed;
    if (failed && out.trouble.empty()) out.trouble = child.reason;  // newest first
  }
  return out;
}

/// Has the job gone back to a checkpoint since, or is it on its way?
Result<bool> was_put_back(const store::Reader& reader, const std::vector<Job>& jobs,
                          WallTime since) {
  if (jobs.empty()) return false;
  store::OperationFilter filter;
  filter.target = jobs.front().id.value;
  filter.kind = OperationKind::CheckpointRestore;
  filter.limit = 1;
  auto last = reader.operations(filter);
  if (!last) return last.error();
  return !last->empty() && last->front().created >= since;
}

Result<Fate> fate_of(const store::Reader& reader, const Warning& warning, const VmId& id,
                     const std::map<std::string, std::string>& why) {
  auto vm = reader.vm(id);
  if (!vm && vm.error().code == Code::NotFound) return Fate{id, FateKind::Gone, "deleted"};
  if (!vm) return vm.error();
  auto jobs = jobs_on(reader, *vm);
  if (!jobs) return jobs.error();
  auto back_again = was_put_back(reader, *jobs, warning.since);
  if (!back_again) return back_again.error();
  const auto own = moves_of(warning, id);
  if (!vm->host) {
    if (*back_again) return Fate{id, FateKind::BroughtBack, "on its way"};
    return Fate{id, FateKind::Gone, std::string(to_string(vm->state))};
  }
  if (*vm->host != warning.host) {
    const bool moved = own.moved || !*back_again;
    return Fate{id, moved ? FateKind::Moved : FateKind::BroughtBack, "to " + vm->host->value};
  }
  const auto known = why.find(id.value);
  std::string reason = "its move did not end in time";
  if (!own.trouble.empty()) {
    reason = own.trouble;
  } else if (known != why.end() && !own.any) {
    reason = known->second;
  }
  if (jobs->empty()) return Fate{id, FateKind::Left, reason};
  const Job& job = jobs->front();
  auto newest = covering(reader, job.id, WallTime{0});
  if (!newest) return newest.error();
  auto back = comes_back(reader, job);
  if (!back) return back.error();
  if (!*newest) return Fate{id, FateKind::Left, reason};
  const double age = std::max(0.0, seconds_between((*newest)->began, warning.now));
  const std::string what =
      (*newest)->id.value + " of " + job.id.value + ", " + policy::figure(age, 0) + " s old";
  if (*back) return Fate{id, FateKind::Covered, "by " + what};
  return Fate{id, FateKind::Left,
              reason + "; 'mare job restart " + job.id.value + "' goes back to " + what};
}

}  // namespace

Result<policy::Threat> read_threat(const store::Reader& reader, const Settings& settings,
                                   const Warning& warning) {
  return ThreatReader(reader, settings, warning).read();
}

Result<std::optional<Checkpoint>> covering(const store::Reader& reader, const JobId& job,
                                           WallTime since) {
  auto all = reader.checkpoints_of(job);
  if (!all) return all.error();
  for (auto& one : *all) {
    if (one.state != CheckpointState::Complete || one.began < since) continue;
    return std::optional<Checkpoint>{std::move(one)};
  }
  return std::optional<Checkpoint>{};
}

Result<std::vector<Fate>> read_fates(const store::Reader& reader, const Warning& warning,
                                     const std::vector<VmId>& vms,
                                     const policy::EvacuationPlan& plan,
                                     const policy::Threat& threat) {
  std::map<std::string, std::string> why;
  for (const auto& one : plan.left) why[threat.vms[one.index].vm.value] = one.why;
  std::vector<Fate> out;
  for (const auto& id : vms) {
    auto fate = fate_of(reader, warning, id, why);
    if (!fate) return fate.error();
    out.push_back(std::move(*fate));
  }
  return out;
}

std::string in_words(const std::vector<Fate>& fates) {
  if (fates.empty()) return "there was no VM";
  std::string out;
  for (const auto kind : {FateKind::Moved, FateKind::BroughtBack, FateKind::Covered, FateKind::Left,
                          FateKind::Gone}) {
    std::string names;
    std::size_t count = 0;
    for (const auto& one : fates) {
      if (one.kind != kind) continue;
      ++count;
      names += (names.empty() ? "" : ", ") + one.vm.value + " (" + one.words + ")";
    }
    if (count == 0) continue;
    const std::string all = policy::counted(fates.size(), "VM");
    out += (out.empty() ? std::to_string(count) + " of " + all + " "
                        : "; " + std::to_string(count) + " ") +
           std::string(kind == FateKind::Covered ? "covered by a checkpoint" : to_string(kind)) +
           ": " + names;
  }
  return out;
}

std::string_view to_string(FateKind kind) {
  switch (kind) {
    case FateKind::Moved:
      return "moved";
    case FateKind::BroughtBack:
      return "brought back";
    case FateKind::Covered:
      return "covered";
    case FateKind::Left:
      return "left";
    case FateKind::Gone:
      return "gone";
  }
  return "?";
}

}  // namespace mare::engine
