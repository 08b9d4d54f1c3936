#include "orchestrator/engine/forecast_maker.h"

#include <algorithm>

#include "orchestrator/engine/link_meter.h"
#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/past_moves.h"
#include "orchestrator/policy/dirty_curve.h"
#include "orchestrator/policy/overrun.h"

namespace mare::engine {
namespace {

/// As many as an agent keeps.
constexpr std::size_t kCyclesUsed = 16;

/// What a source tells at first, and after how long the rest.
struct Told {
  HostFacts facts;
  Milliseconds wait{0};
};

Error no_log(const HostId& host, const std::string& why) {
  return make_error(Code::Unsupported,
                    "host '" + host.value + "' has no dirty-page log, so nothing can be forecast" +
                        (why.empty() ? "" : ": " + why),
                    "'mare host show " + host.value + "' tells what it can do");
}

Result<Told> ask_to_look(Driver& driver, const HostId& host, const VmKey& vm) {
  auto facts = driver.facts();
  if (!facts) return facts.error();
  if (facts->dirty_log.empty()) return no_log(host, facts->dirty_log_why);
  auto wait = driver.look_anew(vm);
  if (!wait) return wait.error();
  return Told{std::move(*facts), *wait};
}

Result<MemoryProfile> ask_for_memory(Driver& driver, const HostId& host, const VmKey& vm) {
  auto profile = driver.memory_profile(vm);
  if (!profile && profile.error().code == Code::Unsupported) {
    return no_log(host, profile.error().message);
  }
  return profile;
}

/// What the VM's last forecast had seen of it, on the host that it was on then, before what its
/// host has seen. Its host's log began when it came.
void recall(const Forecast& last, const Vm& vm, MemoryProfile& profile) {
  if (last.made < vm.started) return;
  std::vector<DirtyCycle> all;
  for (const auto& cycle : last.profile.cycles) {
    if (profile.cycles.empty() || cycle.began < profile.cycles.front().began) all.push_back(cycle);
  }
  all.insert(all.end(), profile.cycles.begin(), profile.cycles.end());
  if (all.size() > kCyclesUsed) {
    all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(kCyclesUsed));
  }
  profile.cycles = std::move(all);
}

bool has(const std::vector<Strategy>& strategies, Strategy strategy) {
  return std::find(strategies.begin(), strategies.end(), strategy) != strategies.end();
}

/// So long after its beginning a trough is not over, as a cycle of the log lasts 64 s.
constexpr WallTime kTroughIsFresh = std::chrono::seconds{30};

/// What a rank that runs on the VM is to the forecast.
struct Rank {
  policy::JobCoupling coupling;
  WallTime since{0};
};

Result<std::optional<Rank>> rank_on(const store::Reader& reader, const Vm& vm) {
  auto jobs = reader.unfinished_jobs_of(vm.pool);
  if (!jobs) return jobs.error();
  for (const auto& job : *jobs) {
    const bool here = std::find(job.vms.begin(), job.vms.end(), vm.id) != job.vms.end();
    if (!here || job.state != JobState::Running || job.command.empty()) continue;
    const auto& program = job.command.front();
    return std::optional<Rank>{
        {{program.substr(program.rfind('/') + 1), job.ranks, job.tightness, job.id}, job.started}};
  }
  return std::optional<Rank>{};
}

}  // namespace

void ForecastMaker::make(Context& context, ForecastQuestion question, Then then) {
  // Whoever names a strategy leaves nothing to choose.
  if (question.policy.strategy) question.policy.priority = Priority::Manual;
  const std::shared_ptr<ForecastMaker> maker(
      new ForecastMaker(context, std::move(question), std::move(then)));
  maker->begin();
}

void ForecastMaker::begin() {
  const auto limit =
      std::chrono::duration_cast<std::chrono::nanoseconds>(context_.settings.forecast_timeout);
  context_.after(limit, [self = shared_from_this()] {
    if (!self->then_) return;
    self->give_up(make_error(Code::Unavailable, "the forecast was not ready in time: " +
                                                    self->missing() + " did not come"));
  });
  ask_source();
  ask_destination();
  ask_link();
}

void ForecastMaker::ask_source() {
  const HostId host = *question_.vm.host;
  auto driver = context_.driver_of(host);
  if (!driver) return give_up(driver.error());
  const VmKey key{question_.vm.id, question_.vm.uuid};
  context_.ports.executor.run(
      "host/" + host.value,
      [inbox = context_.inbox, self = shared_from_this(), driver = *driver, host, key] {
        inbox->post([self, driver, host, told = ask_to_look(*driver, host, key)] {
          if (!told) return self->give_up(told.error());
          self->source_ = told->facts;
          self->context_.after(told->wait, [self, driver] { self->ask_memory(driver); });
        });
      });
}

/// On a lane of its own: it takes a while, and polls of migrations should not wait for it.
void ForecastMaker::ask_memory(const std::shared_ptr<Driver>& driver) {
  if (!then_) return;
  const HostId host = *question_.vm.host;
  const VmKey key{question_.vm.id, question_.vm.uuid};
  context_.ports.executor.run(
      "memory/" + host.value,
      [inbox = context_.inbox, self = shared_from_this(), driver, host, key] {
        inbox->post([self, profile = ask_for_memory(*driver, host, key)] {
          if (!profile) return self->give_up(profile.error());
          self->profile_ = *profile;
          self->gathered();
        });
      });
}

void ForecastMaker::ask_destination() {
  auto driver = context_.driver_of(question_.destination);
  if (!driver) return give_up(driver.error());
  context_.ports.executor.run(
      "host/" + question_.destination.value,
      [inbox = context_.inbox, self = shared_from_this(), driver = *driver] {
        inbox->post([self, facts = driver->facts()] {
          if (!facts) return self->give_up(facts.error());
          self->destination_ = *facts;
          self->gathered();
        });
      });
}

void ForecastMaker::ask_link() {
  const HostId from = *question_.vm.host;
  const HostId to = question_.destination;
  context_.links->measure(
      from, to, question_.link_age, [self = shared_from_this(), from, to](const auto& link) {
        if (!link) {
          return self->give_up(link.error().during("the link from '" + from.value + "' to '" +
                                                   to.value + "' can't be measured"));
        }
        self->link_ = *link;
        self->gathered();
      });
}

std::string ForecastMaker::missing() const {
  std::string out;
  const auto lacks = [&out](const std::string& what) { out += (out.empty() ? "" : ", ") + what; };
  if (!source_ || !profile_) lacks("the memory's profile from '" + question_.vm.host->value + "'");
  if (!destination_) lacks("the facts of '" + question_.destination.value + "'");
  if (!link_) lacks("the measurement of the link between them");
  return out.empty() ? "the computation" : out;
}

void ForecastMaker::gathered() {
  if (!then_ || !source_ || !profile_ || !destination_ || !link_) return;
  auto all = input();
  if (!all) return give_up(all.error());
  profile_ = all->profile;  // what is recorded: all that was seen of it
  take_trough(all->profile);
  compute(std::move(*all));
}

void ForecastMaker::take_trough(MemoryProfile& profile) {
  if (!question_.trough_within) return;
  // By the clock of the host that stamped the cycles.
  const WallTime now = profile.taken;
  const auto deadline = now + std::chrono::duration_cast<WallTime>(*question_.trough_within);
  const auto trough = policy::next_trough(profile.cycles, now - kTroughIsFresh, deadline);
  if (!trough) {
    moment_ = "; no trough of its writing is known";
    return;
  }
  profile.cycles = policy::cycles_of(profile.cycles, *trough);
  const auto until = std::chrono::duration_cast<std::chrono::seconds>(trough->at - now).count();
  moment_ = until <= 0
                ? "; it is in a trough of its writing"
                : "; the next trough of its writing begins in " + std::to_string(until) + " s";
}

std::vector<policy::Offer> ForecastMaker::offers() const {
  std::vector<policy::Offer> out;
  const std::string& checkpoints = context_.settings.checkpoints_directory;
  const auto sends = strategies_with(*source_, checkpoints);
  const auto takes = strategies_with(*destination_, checkpoints);
  for (int i = 0; i < kStrategies; ++i) {
    policy::Offer offer{static_cast<Strategy>(i), false, ""};
    const bool at_source = has(sends, offer.strategy);
    const bool at_destination = has(takes, offer.strategy);
    if (!at_source || !at_destination) {
      const HostId& lacking = at_source ? question_.destination : *question_.vm.host;
      offer.why_not = !at_source && !at_destination
                          ? "neither host offers it"
                          : "host '" + lacking.value + "' does not offer it";
    } else if (offer.strategy == Strategy::Compressed && question_.policy.time_limit &&
               question_.policy.at_limit == LimitAction::PostCopy) {
      offer.why_not = "it can't be switched to post-copy at the time limit";
    } else if (auto why = policy::why_not_again(question_.tried, offer.strategy); !why.empty()) {
      offer.why_not = std::move(why);
    } else if (offer.strategy == Strategy::CheckpointRestart) {
      MovePolicy named = question_.policy;
      named.strategy = offer.strategy;
      named.knobs = {};  // another strategy's
      if (auto good = check(named); !good) offer.why_not = good.error().message;
    }
    offer.offered = offer.why_not.empty();
    out.push_back(std::move(offer));
  }
  return out;
}

Result<policy::ForecastInput> ForecastMaker::input() const {
  return query<policy::ForecastInput>(
      context_.ports.store, [&](const store::Reader& reader) -> Result<policy::ForecastInput> {
        auto past = reader.past_moves(kPastMovesUsed);
        if (!past) return past.error();
        auto rank = rank_on(reader, question_.vm);
        if (!rank) return rank.error();
        policy::ForecastInput out;
        out.source = *question_.vm.host;
        out.destination = question_.destination;
        out.policy = question_.policy;
        out.profile = *profile_;
        auto last = reader.forecasts(question_.vm.id, 1);
        if (!last) return last.error();
        if (!last->empty()) recall(last->front(), question_.vm, out.profile);
        // By mared's clock, and the cycles by the hosts': some seconds off do little harm.
        auto& cycles = out.profile.cycles;
        if (!question_.tried.empty()) {
          cycles = policy::cycles_since(std::move(cycles), question_.tried.back().ended);
        }
        out.link = *link_;
        out.link.one_machine =
            !source_->machine.empty() && source_->machine == destination_->machine;
        out.vcpus = question_.vm.vcpus;
        out.destination_speed = policy::relative_speed(source_->cpu_speed, destination_->cpu_speed);
        out.offers = offers();
        if (*rank) {
          out.job = (*rank)->coupling;
          cycles = policy::cycles_of_program(std::move(cycles), (*rank)->since);
        }
        out.past = past_moves(*past);
        return out;
      });
}

void ForecastMaker::compute(policy::ForecastInput input) {
  // Replaying every strategy takes some milliseconds of arithmetic: too long for this thread.
  context_.ports.executor.run(
      "forecast", [inbox = context_.inbox, self = shared_from_this(),
                   forecast = context_.ports.forecast, input = std::move(input)] {
        Forecast out;
        const policy::Verdict verdict = forecast(input);
        out.id = self->question_.id;
        out.vm = self->question_.vm.id;
        out.source = input.source;
        out.destination = input.destination;
        out.policy = input.policy;
        out.profile = *self->profile_;
        out.link = input.link;
        out.destination_speed = input.destination_speed;
        out.has_job = input.job.has_value();
        if (input.job) {
          out.program = input.job->program;
          out.job = input.job->id;
          out.tightness = input.job->tightness;
        }
        out.strategies = verdict.strategies;
        out.choice = verdict.choice;
        out.sending = verdict.sending;
        out.sending.allow_post_copy =
            input.policy.time_limit && input.policy.at_limit == LimitAction::PostCopy;
        out.reason = verdict.reason + self->moment_;
        inbox->post([self, out] {
          if (!self->then_) return;
          Forecast made = out;
          made.made = self->context_.ports.clock.wall_now();
          self->answer(std::move(made));
        });
      });
}

void ForecastMaker::answer(Result<Forecast> answer) {
  if (!then_) return;  // another call failed first, or time was over
  const Then then = std::exchange(then_, {});
  // Never from inside make(): whoever asked is still on its way.
  context_.inbox->post([then, answer = std::move(answer)] { then(answer); });
}

}  // namespace mare::engine
