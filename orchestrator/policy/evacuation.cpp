#include "orchestrator/policy/evacuation.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "orchestrator/policy/plan_words.h"

namespace mare::policy {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kInstant = 1e-9;

/// A move that the plan wants, by one of its ways.
struct Going {
  std::size_t index = 0;
  std::size_t way = 0;
};

/// What is under way at a moment: first its lead, which uses no link, then its work.
struct Flow {
  double lead = 0;
  double work = 0;
  HostId source;
  std::optional<HostId> destination;  // none: a checkpoint, which no cap counts
  double* ends = nullptr;
};

/// Plays moves and checkpoints against each other.
class Timeline {
 public:
  explicit Timeline(const Threat& threat) : threat_(threat) {
    for (const auto& one : threat.under_way) {
      flows_.push_back({0, one.left_s, one.source, one.destination, nullptr});
    }
    for (const auto& job : threat.jobs) {
      if (job.saving) save(job, nullptr);
    }
  }
  void save(const ThreatenedJob& job, double* ends) {
    flows_.push_back(
        {job.waits_s, job.checkpoint_s.value_or(kNever), threat_.host, std::nullopt, ends});
  }
  /// Begins when the caps let it, in the order of these calls where that matters.
  void move(const Going& going, double* begins, double* ends) {
    *ends = *begins = kNever;
    waiting_.push_back({&going, begins, ends});
  }
  /// Until nothing is left or the time is over; what has not ended by then ends never.
  void play() {
    double now = 0;
    start(now);
    while (!flows_.empty() && now <= threat_.left_s) {
      const double step = next_end();
      if (step == kNever) return;
      now += step;
      pass(step, now);
      start(now);
    }
  }

 private:
  struct Waiting {
    const Going* going;
    double* begins;
    double* ends;
  };

  void start(double now) {
    MoveLoad load;
    int here = 0;
    for (const auto& flow : flows_) {
      if (!flow.destination) continue;
      load.add(flow.source, *flow.destination);
      if (flow.source == threat_.host || *flow.destination == threat_.host) ++here;
    }
    const int most = std::max(1, threat_.caps.per_host);
    for (auto at = waiting_.begin(); at != waiting_.end() && here < most;) {
      const LeavingVm& vm = threat_.vms[at->going->index];
      if (!load.over(threat_.host, vm.destination, threat_.caps).empty()) {
        ++at;
        continue;
      }
      load.add(threat_.host, vm.destination);
      ++here;
      *at->begins = now;
      flows_.push_back({threat_.lead_s, vm.ways[at->going->way].longest_s, threat_.host,
                        vm.destination, at->ends});
      at = waiting_.erase(at);
    }
  }

  /// Those that send at this moment, by host: links are full-duplex.
  std::pair<std::map<HostId, int>, std::map<HostId, int>> users() const {
    std::pair<std::map<HostId, int>, std::map<HostId, int>> out;
    for (const auto& flow : flows_) {
      if (flow.lead > 0) continue;
      ++out.first[flow.source];
      if (flow.destination) ++out.second[*flow.destination];
    }
    return out;
  }
  template <typename Users>
  static double share(const Flow& flow, const Users& users) {
    int most = users.first.at(flow.source);
    if (flow.destination) most = std::max(most, users.second.at(*flow.destination));
    return most;
  }
  double next_end() const {
    const auto sending = users();
    double out = kNever;
    for (const auto& flow : flows_) {
      out = std::min(out, flow.lead > 0 ? flow.lead : flow.work * share(flow, sending));
    }
    return out;
  }
  void pass(double step, double now) {
    const auto sending = users();
    for (auto& flow : flows_) {
      if (flow.lead > 0) {
        flow.lead -= step;
        if (flow.lead < kInstant) flow.lead = 0;
      } else {
        flow.work -= step / share(flow, sending);
      }
    }
    std::erase_if(flows_, [now](const Flow& flow) {
      const bool over = flow.lead <= 0 && flow.work < kInstant;
      if (over && flow.ends != nullptr) *flow.ends = now;
      return over;
    });
  }

  const Threat& threat_;
  std::vector<Flow> flows_;
  std::vector<Waiting> waiting_;
};

/// VMs that leave together or not at all.
struct Gang {
  std::vector<std::size_t> members;
  const ThreatenedJob* job = nullptr;
  double total_s = 0;
  bool whole = true;  // every member has a way
  std::string name;

  int rank() const { return job == nullptr ? 2 : job->has_checkpoint ? 1 : 0; }
};

class Planner {
 public:
  explicit Planner(const Threat& threat) : threat_(threat) {}

  EvacuationPlan plan() {
    make_gangs();
    choose_saves();
    for (const auto& gang : gangs_) {
      if (gang.job != nullptr && gang.job->saving) continue;
      if (gang.whole && (add(gang.members, false) || add(gang.members, true))) drop_save(gang);
    }
    choose_saves();  // those that moves make superfluous have left their time to others
    for (const auto& gang : gangs_) {
      if (gang.job == nullptr || gone(gang.members.front()) || safe(*gang.job)) continue;
      for (const std::size_t i : by_length(gang.members)) {
        if (!threat_.vms[i].ways.empty() && !gone(i) && !add({i}, false)) add({i}, true);
      }
    }
    return told();
  }

 private:
  using Moves = std::vector<Going>;
  using Saves = std::vector<const ThreatenedJob*>;
  struct Times {
    std::vector<double> begins;
    std::vector<double> ends;
    std::vector<double> saved;
    bool in_time = false;
  };

  const ThreatenedJob* job_of(const LeavingVm& vm) const {
    if (!vm.job) return nullptr;
    for (const auto& job : threat_.jobs) {
      if (job.job == *vm.job) return &job;
    }
    return nullptr;
  }
  static std::size_t quickest(const LeavingVm& vm) {
    const auto found = std::min_element(
        vm.ways.begin(), vm.ways.end(),
        [](const WayOut& a, const WayOut& b) { return a.longest_s < b.longest_s; });
    return static_cast<std::size_t>(found - vm.ways.begin());
  }

  void make_gangs() {
    std::map<std::string, Gang> jobs;
    for (std::size_t i = 0; i < threat_.vms.size(); ++i) {
      const LeavingVm& vm = threat_.vms[i];
      const ThreatenedJob* job = job_of(vm);
      Gang alone;
      Gang& gang = job == nullptr ? alone : jobs[job->job.value];
      gang.members.push_back(i);
      gang.job = job;
      gang.name = job == nullptr ? vm.vm.value : job->job.value;
      gang.whole = gang.whole && !vm.ways.empty();
      if (!vm.ways.empty()) gang.total_s += vm.ways.front().longest_s;
      if (job == nullptr) gangs_.push_back(alone);
    }
    for (const auto& [name, gang] : jobs) gangs_.push_back(gang);
    std::sort(gangs_.begin(), gangs_.end(), [](const Gang& a, const Gang& b) {
      return std::tuple{a.rank(), a.total_s, a.name} < std::tuple{b.rank(), b.total_s, b.name};
    });
  }
  std::vector<std::size_t> by_length(std::vector<std::size_t> members) const {
    std::erase_if(members, [this](std::size_t i) { return threat_.vms[i].ways.empty(); });
    std::sort(members.begin(), members.end(), [this](std::size_t a, std::size_t b) {
      return std::pair{threat_.vms[a].ways.front().longest_s, a} <
             std::pair{threat_.vms[b].ways.front().longest_s, b};
    });
    return members;
  }

  Times times(const Moves& moves, const Saves& saves) const {
    Times out;
    out.begins.resize(moves.size());
    out.ends.resize(moves.size());
    out.saved.assign(saves.size(), kNever);
    Timeline line(threat_);
    for (std::size_t i = 0; i < saves.size(); ++i) {
      line.save(*saves[i], &out.saved[i]);
    }
    for (std::size_t i = 0; i < moves.size(); ++i) {
      line.move(moves[i], &out.begins[i], &out.ends[i]);
    }
    line.play();
    const auto late = [this](double end) { return end > threat_.left_s; };
    out.in_time = std::none_of(out.ends.begin(), out.ends.end(), late) &&
                  std::none_of(out.saved.begin(), out.saved.end(), late);
    return out;
  }

  bool gone(std::size_t index) const {
    return std::any_of(moves_.begin(), moves_.end(),
                       [index](const Going& one) { return one.index == index; });
  }
  bool saved(const ThreatenedJob& job) const {
    return std::find(saves_.begin(), saves_.end(), &job) != saves_.end();
  }
  bool safe(const ThreatenedJob& job) const { return job.covered || job.saving || saved(job); }

  /// As many jobs as can be saved beside what is planned, those without a checkpoint first.
  void choose_saves() {
    Saves wanted;
    for (const auto& gang : gangs_) {
      if (gang.job == nullptr || !gang.job->checkpoint_s || safe(*gang.job)) continue;
      if (!gone(gang.members.front())) wanted.push_back(gang.job);
    }
    std::stable_sort(wanted.begin(), wanted.end(), [](const auto* a, const auto* b) {
      return std::pair{a->has_checkpoint, *a->checkpoint_s} <
             std::pair{b->has_checkpoint, *b->checkpoint_s};
    });
    for (const auto* job : wanted) {
      saves_.push_back(job);
      if (!times(moves_, saves_).in_time) saves_.pop_back();
    }
  }

  /// All of them or none; what is planned already has to fit all the same.
  bool add(const std::vector<std::size_t>& members, bool quickly) {
    Moves moves = moves_;
    Saves saves = saves_;
    for (const std::size_t i : members) {
      const LeavingVm& vm = threat_.vms[i];
      moves.push_back({i, quickly ? quickest(vm) : 0});
      if (const auto* job = job_of(vm)) std::erase(saves, job);
    }
    if (!times(moves, saves).in_time) return false;
    moves_ = std::move(moves);
    return true;
  }
  void drop_save(const Gang& gang) { std::erase(saves_, gang.job); }

  std::string why_left(std::size_t index) const {
    const LeavingVm& vm = threat_.vms[index];
    const ThreatenedJob* job = job_of(vm);
    std::string out = vm.ways.empty()
                          ? vm.why_not
                          : "its move may take " + figure(vm.ways[quickest(vm)].longest_s, 1) +
                                " s, too long beside the others";
    if (job == nullptr) return out;
    if (!vm.ways.empty() && !whole(*job)) out = "not all VMs of its job can leave";
    const std::string name = job->job.value;
    return out + (job->checkpoint_s ? "; a checkpoint of " + name + " may take " +
                                          figure(*job->checkpoint_s, 1) + " s"
                                    : "; " + name + " can't be saved: " + job->why_not);
  }
  bool whole(const ThreatenedJob& job) const {
    return std::any_of(gangs_.begin(), gangs_.end(),
                       [&](const Gang& gang) { return gang.job == &job && gang.whole; });
  }

  EvacuationPlan told() const {
    EvacuationPlan out;
    const Times when = times(moves_, saves_);
    for (std::size_t i = 0; i < moves_.size(); ++i) {
      const LeavingVm& vm = threat_.vms[moves_[i].index];
      out.moves.push_back(
          {moves_[i].index, vm.ways[moves_[i].way].strategy, when.begins[i], when.ends[i]});
    }
    std::stable_sort(out.moves.begin(), out.moves.end(),
                     [](const auto& a, const auto& b) { return a.begins_s < b.begins_s; });
    for (std::size_t i = 0; i < saves_.size(); ++i) {
      out.saves.push_back({saves_[i]->job, when.saved[i]});
    }
    for (std::size_t i = 0; i < threat_.vms.size(); ++i) {
      if (gone(i)) continue;
      const ThreatenedJob* job = job_of(threat_.vms[i]);
      if (job != nullptr && safe(*job)) {
        out.covered.push_back(i);
      } else {
        out.left.push_back({i, why_left(i)});
      }
    }
    return out;
  }

  const Threat& threat_;
  std::vector<Gang> gangs_;
  Moves moves_;
  Saves saves_;
};

template <typename List, typename Name>
std::string listed(const List& list, Name name) {
  std::set<std::string> names;
  for (const auto& one : list) names.insert(name(one));
  std::string out;
  for (const auto& one : names) out += (out.empty() ? "" : ", ") + one;
  return out;
}

}  // namespace

EvacuationPlan plan_evacuation(const Threat& threat) {
  return Planner(threat).plan();
}

std::string in_words(const EvacuationPlan& plan, const Threat& threat) {
  const auto vm = [&threat](std::size_t index) { return threat.vms[index].vm.value; };
  std::string out =
      plan.moves.empty()
          ? "no VM fits into the time that is left"
          : counted(plan.moves.size(), "VM") + " can leave in time: " +
                listed(plan.moves, [&](const PlannedLeave& one) { return vm(one.index); });
  if (threat.vms.empty()) out = "there is no VM to move";
  if (!plan.saves.empty()) {
    out += "; a checkpoint of " + listed(plan.saves, [](const auto& one) { return one.job.value; });
  }
  if (!plan.covered.empty()) out += "; stay, saved with their job: " + listed(plan.covered, vm);
  if (!plan.left.empty()) {
    const LeftBehind& first = plan.left.front();
    out += "; nothing is promised for " +
           listed(plan.left, [&](const LeftBehind& one) { return vm(one.index); }) + " (" +
           vm(first.index) + ": " + first.why + ")";
  }
  return out;
}

}  // namespace mare::policy
