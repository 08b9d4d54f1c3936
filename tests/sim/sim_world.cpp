#include "tests/sim/sim_world.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace mare::test {
namespace {

constexpr std::size_t kLogLines = 400;

/// Reads, and ends the process when the store can't: no test can go on then.
template <typename T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "sim: %s\n", result.error().text().c_str());
    std::abort();
  }
  return std::move(result).value();
}
void must(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "sim: %s\n", status.error().text().c_str());
  std::abort();
}

template <typename T>
T read(store::Store& store, const std::function<Result<T>(const store::Reader&)>& ask) {
  std::optional<T> out;
  must(store.read([&](const store::Reader& reader) -> Status {
    out = must(ask(reader));
    return ok_status();
  }));
  return std::move(*out);
}

}  // namespace

// --- executor

void SimExecutor::run(const std::string& lane, std::function<void()> work) {
  if (alive_ && !alive_()) return;
  // Mostly some milliseconds; one call in twenty is slow.
  const auto longest = std::chrono::duration_cast<std::chrono::microseconds>(longest_).count();
  const auto bound = rng_.chance(0.05) ? longest : std::min<std::int64_t>(20'000, longest);
  std::chrono::nanoseconds delay =
      std::chrono::microseconds{rng_.below(static_cast<std::uint64_t>(bound) + 1)};
  if (const auto slow = slow_.extract(lane)) delay = slow.mapped();
  calls_.emplace(clock_.now() + delay, Call{lane, std::move(work)});
}

std::optional<MonotonicTime> SimExecutor::next_due() const {
  if (calls_.empty()) return std::nullopt;
  return calls_.begin()->first;
}

void SimExecutor::run_due(const std::function<void()>& after_each) {
  while (!calls_.empty() && calls_.begin()->first <= clock_.now()) {
    const auto call = calls_.extract(calls_.begin());
    call.mapped().work();
    after_each();
  }
}

void SimExecutor::crash(const std::function<void()>& after_each) {
  for (auto& [due, call] : std::exchange(calls_, {})) {
    if (rng_.chance(0.5)) continue;
    call.work();
    after_each();
  }
}

// --- scratch

ScratchDirectory::ScratchDirectory(const std::string& name) {
  // The store syncs every commit; on a disk that alone would take minutes.
  std::error_code failed;
  std::filesystem::path base = "/dev/shm";
  if (access(base.c_str(), W_OK) != 0) base = std::filesystem::temp_directory_path(failed);
  path_ = (base / ("mare-" + name + "-XXXXXX")).string();
  if (mkdtemp(path_.data()) == nullptr) {
    std::fprintf(stderr, "sim: cannot make a directory %s\n", path_.c_str());
    std::abort();
  }
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

// --- the ports that are not the cluster's

class SimWorld::Drivers final : public engine::DriverDirectory {
 public:
  explicit Drivers(sim::SimCluster& cluster) : cluster_(cluster) {}
  Result<std::shared_ptr<Driver>> driver(const HostId& host, const std::string& address) override {
    if (address != "sim:///" + host.value) {
      return field_error("address", "'" + address + "' is not an address of this simulation");
    }
    auto& known = drivers_[host];
    if (!known) known = make_sim_driver(cluster_, host);
    return known;
  }
  void forget(const HostId& host) override { drivers_.erase(host); }

 private:
  sim::SimCluster& cluster_;
  std::map<HostId, std::shared_ptr<Driver>> drivers_;
};

class SimWorld::Images final : public engine::ImageCatalog {
 public:
  Result<engine::ImageFacts> find(const std::string& name, const std::string&) override {
    if (name != "base") return make_error(Code::NotFound, "no image '" + name + "'", "build it");
    engine::ImageFacts facts;
    facts.name = "base";
    facts.version = "1";
    facts.kernel = "/images/base/1/vmlinuz";
    facts.initrd = "/images/base/1/initrd.img";
    facts.root = "/images/base/1/root";
    facts.min_memory = mebibytes(64);
    return facts;
  }
  Result<std::vector<engine::ImageFacts>> list() override {
    auto base = find("base", "");
    return std::vector<engine::ImageFacts>{*base};
  }
};

// --- the world

SimWorld::SimWorld(std::uint64_t seed)
    // The seeds of neighbours are neighbours; the generators are not, SplitMix64 mixes well.
    : scenario(seed),
      scratch_("sim-" + std::to_string(seed)),
      cluster_rng_(seed ^ 0xc1u),
      engine_rng_(seed ^ 0xe9u),
      executor_rng_(seed ^ 0xe4u),
      cluster(clock, cluster_rng_),
      guests(cluster),
      executor(clock, executor_rng_),
      drivers_(std::make_unique<Drivers>(cluster)),
      images_(std::make_unique<Images>()),
      log_(clock, LogLevel::Debug, [this](std::string_view line) {
        log_lines_.emplace_back(line);
        if (log_lines_.size() > kLogLines) log_lines_.pop_front();
      }) {}

SimWorld::~SimWorld() {
  engine_.reset();
}

void SimWorld::start_mared(engine::Engine::AfterCommit after_commit) {
  MARE_ASSERT(!engine_);
  store_ = must(store::Store::open(database()));
  engine::Settings settings;
  settings.vm_subnet = must(Ipv4Subnet::parse("10.77.1.0/24"));
  settings.nfs_server = "10.77.0.1";
  settings.jobs_directory = scratch_.path() + "/jobs";
  settings.heartbeat = Milliseconds{3000};
  settings.lease = Milliseconds{10'000};
  settings.auto_spread = auto_spread;
  settings.move_caps = move_caps;
  settings.rebalance_period = rebalance_period;
  settings.clones = true;
  settings.poll = Milliseconds{150};
  settings.job_poll = Milliseconds{500};
  engine::Ports ports{*store_,     *drivers_, guests,   *images_,   executor,     clock,
                      engine_rng_, log_,      forecast, prometheus, fence_command};
  engine_ = std::make_unique<engine::Engine>(ports, settings, std::move(after_commit));
  if (started_before_) must(engine_->recover());
  started_before_ = true;
  log_.info("world", "mared started");
}

void SimWorld::kill_mared() {
  MARE_ASSERT(engine_);
  log_.info("world", "mared is killed");
  engine_.reset();
  engine_due_.reset();
  executor.die_unless({});
  executor.crash([this] {
    if (on_step_) on_step_();
  });
  store_.reset();
}

MonotonicTime SimWorld::next_due() {
  // Nobody asks a cluster without mared; it is visited often enough to see what it does.
  MonotonicTime due = clock.now() + std::chrono::seconds{1};
  if (const auto call = executor.next_due()) due = std::min(due, *call);
  if (engine_due_) due = std::min(due, *engine_due_);
  return due;
}

void SimWorld::play_until(MonotonicTime until) {
  const auto told = [this] {
    if (on_step_) on_step_();
  };
  while (true) {
    executor.run_due(told);
    if (engine_) {
      engine_due_ = engine_->step();
      told();
    }
    if (clock.now() >= until) return;
    const MonotonicTime due = std::clamp(next_due(), clock.now(), until);
    // An engine that is due at once again and again would stop the time.
    clock.advance(std::max<MonotonicTime>(due - clock.now(), std::chrono::microseconds{1}));
  }
}

bool SimWorld::play_while_not(const std::function<bool()>& done, std::chrono::nanoseconds limit) {
  const MonotonicTime end = clock.now() + limit;
  while (!done()) {
    if (clock.now() >= end) return false;
    play(std::chrono::milliseconds{100});
  }
  return true;
}

Status SimWorld::add_host(const std::string& name, const sim::HostModel& model) {
  if (auto added = cluster.add_host(HostId{name}, model); !added) return added;
  auto accepted = engine_->submit(engine::HostAddRequest{HostId{name}, "sim:///" + name});
  if (!accepted) return accepted.error();
  const auto ended = wait(accepted->id);
  if (ended.outcome == Outcome::Succeeded) return ok_status();
  return make_error(Code::Internal, ended.reason);
}

Operation SimWorld::wait(const OperationId& id, std::chrono::nanoseconds limit) {
  play_while_not([&] { return operation(id).finished(); }, limit);
  return operation(id);
}

bool SimWorld::all_ended() {
  return operations(true).empty();
}

Operation SimWorld::operation(const OperationId& id) {
  return read<Operation>(*store_, [&](const store::Reader& r) { return r.operation(id); });
}

std::vector<Operation> SimWorld::operations(bool unfinished_only) {
  return read<std::vector<Operation>>(*store_, [&](const store::Reader& r) {
    store::OperationFilter filter;
    filter.unfinished_only = unfinished_only;
    filter.limit = 100'000;
    return r.operations(filter);
  });
}

std::vector<Vm> SimWorld::vms() {
  return read<std::vector<Vm>>(*store_, [](const store::Reader& r) { return r.vms(); });
}
std::vector<Job> SimWorld::jobs() {
  return read<std::vector<Job>>(*store_, [](const store::Reader& r) { return r.jobs(); });
}
std::vector<Checkpoint> SimWorld::checkpoints() {
  return read<std::vector<Checkpoint>>(*store_, [](const store::Reader& r) {
    std::vector<Checkpoint> all;
    for (const auto state : {CheckpointState::Writing, CheckpointState::Complete,
                             CheckpointState::Needed, CheckpointState::Dropping}) {
      for (auto& one : must(r.checkpoints_in(state))) all.push_back(std::move(one));
    }
    // ck-9 is older than ck-10.
    std::sort(all.begin(), all.end(), [](const Checkpoint& a, const Checkpoint& b) {
      const auto size = [](const Checkpoint& one) { return one.id.value.size(); };
      return std::pair(size(a), a.id.value) < std::pair(size(b), b.id.value);
    });
    return Result<std::vector<Checkpoint>>(std::move(all));
  });
}
std::vector<Host> SimWorld::hosts() {
  return read<std::vector<Host>>(*store_, [](const store::Reader& r) { return r.hosts(); });
}
std::vector<Pool> SimWorld::pools() {
  return read<std::vector<Pool>>(*store_, [](const store::Reader& r) { return r.pools(); });
}

Snapshot SimWorld::snapshot() {
  return read<Snapshot>(*store_, [](const store::Reader& r) -> Result<Snapshot> {
    Snapshot all;
    all.hosts = must(r.hosts());
    all.vms = must(r.vms());
    all.reservations = must(r.reservations());
    store::OperationFilter filter;
    filter.unfinished_only = true;
    filter.limit = 100'000;
    all.unfinished = must(r.operations(filter));
    for (const auto& operation : all.unfinished) {
      if (operation.kind != OperationKind::JobRun) continue;
      all.unfinished_jobs.push_back(must(r.job(JobId{operation.target})));
    }
    return all;
  });
}

std::string SimWorld::output_of(const JobId& job) {
  std::ifstream file(engine_->output_file(job), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string SimWorld::log_tail(std::size_t lines) const {
  std::string text;
  const std::size_t first = log_lines_.size() > lines ? log_lines_.size() - lines : 0;
  for (std::size_t i = first; i < log_lines_.size(); ++i) text += "  " + log_lines_[i] + "\n";
  return text;
}

}  // namespace mare::test
