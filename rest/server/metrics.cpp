#include "rest/server/metrics.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "orchestrator/model/entities.h"

namespace mare::rest {
namespace {

/// Rows of one query of everything, on one snapshot.
struct Snapshot {
  std::vector<Host> hosts;
  std::vector<Pool> pools;
  std::vector<Autoscaler> autoscalers;
  std::vector<Quota> quotas;
  std::vector<Vm> vms;
  std::vector<Job> jobs;
  std::vector<Operation> operations;
  std::vector<Migration> migrations;
  Rebalancing rebalancing;
  std::vector<Checkpoint> checkpoints;
};

constexpr std::array kCheckpointStates{CheckpointState::Writing, CheckpointState::Complete,
                                       CheckpointState::Needed, CheckpointState::Dropping};
constexpr std::size_t kAll = 1'000'000'000;

template <typename T>
Status keep(std::vector<T>& to, Result<std::vector<T>> from) {
  if (!from) return from.error();
  to = std::move(*from);
  return ok_status();
}

Result<Snapshot> snapshot(const store::Store& store) {
  Snapshot out;
  auto done = store.read([&](const store::Reader& reader) -> Status {
    if (auto kept = keep(out.hosts, reader.hosts()); !kept) return kept;
    if (auto kept = keep(out.pools, reader.pools()); !kept) return kept;
    if (auto kept = keep(out.autoscalers, reader.autoscalers()); !kept) return kept;
    if (auto kept = keep(out.quotas, reader.quotas()); !kept) return kept;
    if (auto kept = keep(out.vms, reader.vms()); !kept) return kept;
    if (auto kept = keep(out.jobs, reader.jobs(kAll)); !kept) return kept;
    auto rebalancing = reader.rebalancing();
    if (!rebalancing) return rebalancing.error();
    out.rebalancing = std::move(*rebalancing);
    store::OperationFilter filter;
    filter.limit = kAll;
    if (auto kept = keep(out.operations, reader.operations(filter)); !kept) return kept;
    for (const auto state : kCheckpointStates) {
      auto some = reader.checkpoints_in(state);
      if (!some) return some.error();
      out.checkpoints.insert(out.checkpoints.end(), some->begin(), some->end());
    }
    return keep(out.migrations, reader.migrations(kAll));
  });
  if (!done) return done.error();
  return out;
}

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

void head(std::string& out, const std::string& name, const std::string& type,
          const std::string& help) {
  out += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

void sample(std::string& out, const std::string& name, const std::string& labels, double value) {
  out += name + (labels.empty() ? "" : "{" + labels + "}") + " " + number(value) + "\n";
}

/// One gauge per value of a state, zeros included, so that graphs have no holes.
template <typename State, typename Row, typename StateOf>
void by_state(std::string& out, const std::string& name, const std::string& help,
              const std::string& label, State last, const std::vector<Row>& rows, StateOf of) {
  head(out, name, "gauge", help);
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    const auto state = static_cast<State>(i);
    int count = 0;
    for (const auto& row : rows) count += of(row) == state ? 1 : 0;
    sample(out, name, label + "=\"" + std::string(to_string(state)) + "\"", count);
  }
}

template <typename Of>
void histogram(std::string& out, const std::string& name, const std::string& help,
               const std::string& labels, const std::vector<double>& bounds,
               const std::vector<Migration>& rows, Of of, bool with_head = true) {
  if (with_head) head(out, name, "histogram", help);
  std::vector<int> counts(bounds.size(), 0);
  int all = 0;
  double sum = 0;
  for (const auto& row : rows) {
    const std::optional<Microseconds> time = of(row);
    if (!time) continue;
    const double seconds = Seconds{*time}.count();
    for (std::size_t i = 0; i < bounds.size(); ++i) counts[i] += seconds <= bounds[i] ? 1 : 0;
    ++all;
    sum += seconds;
  }
  const std::string before = labels.empty() ? "" : labels + ",";
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    sample(out, name + "_bucket", before + "le=\"" + number(bounds[i]) + "\"", counts[i]);
  }
  sample(out, name + "_bucket", before + "le=\"+Inf\"", all);
  sample(out, name + "_sum", labels, sum);
  sample(out, name + "_count", labels, all);
}

/// The same for each strategy, zeros included.
template <typename Of>
void by_strategy(std::string& out, const std::string& name, const std::string& help,
                 const std::string& labels, const std::vector<double>& bounds,
                 const std::vector<Migration>& rows, Of of, bool with_head = true) {
  for (int i = 0; i < kStrategies; ++i) {
    const auto strategy = static_cast<Strategy>(i);
    const std::string label = "strategy=\"" + std::string(to_string(strategy)) + "\"";
    const auto its = [&](const Migration& row) {
      return row.sending.strategy == strategy ? of(row) : std::nullopt;
    };
    histogram(out, name, help, labels.empty() ? label : labels + "," + label, bounds, rows, its,
              with_head && i == 0);
  }
}

void operations(std::string& out, const std::vector<Operation>& rows) {
  const std::string name = "mare_operations";
  head(out, name, "gauge", "Operations that the store keeps, by kind and outcome.");
  std::map<std::pair<OperationKind, Outcome>, int> counts;
  for (const auto& row : rows) ++counts[{row.kind, row.outcome}];
  for (const auto& [key, count] : counts) {
    sample(out, name,
           "kind=\"" + std::string(to_string(key.first)) + "\",outcome=\"" +
               std::string(to_string(key.second)) + "\"",
           count);
  }
}

/// While a pool is scaled it has more VMs than its size, or the other way round.
void pools(std::string& out, const Snapshot& from) {
  head(out, "mare_pools", "gauge", "Pools.");
  sample(out, "mare_pools", "", static_cast<double>(from.pools.size()));
  const auto each = [&](const std::string& name, const std::string& help, const auto& value) {
    head(out, name, "gauge", help);
    for (const auto& pool : from.pools) {
      sample(out, name, "pool=\"" + pool.id.value + "\"", value(pool));
    }
  };
  each("mare_pool_size", "VMs that a pool has when nothing changes it.",
       [](const Pool& pool) { return static_cast<double>(pool.size); });
  each("mare_pool_vms_running", "VMs of a pool that run, moving ones included.",
       [&](const Pool& pool) {
         return static_cast<double>(
             std::count_if(from.vms.begin(), from.vms.end(), [&](const Vm& vm) {
               const bool runs = vm.state == VmState::Running || vm.state == VmState::Migrating;
               return runs && vm.pool == pool.id;
             }));
       });
  head(out, "mare_pool_desired", "gauge",
       "VMs that a pool's rule wished for when it was looked at.");
  for (const auto& row : from.autoscalers) {
    if (row.looked.count() == 0) continue;
    sample(out, "mare_pool_desired", "pool=\"" + row.pool.value + "\"", row.desired);
  }
  head(out, "mare_pool_metric", "gauge", "The figure that it used, of each VM.");
  for (const auto& row : from.autoscalers) {
    if (row.metric) {
      sample(out, "mare_pool_metric", "pool=\"" + row.pool.value + "\"", *row.metric);
    }
  }
}

void placement(std::string& out, const Rebalancing& row) {
  const auto one = [&](const std::string& name, const char* type, const char* help, double value) {
    head(out, name, type, help);
    sample(out, name, "", value);
  };
  if (row.looked.count() > 0) {
    one("mare_rebalance_score", "gauge", "How badly running VMs are placed; 0 is best.", row.score);
    one("mare_rebalance_broken_rules", "gauge", "Hard rules that the placement breaks.",
        row.broken);
  }
  one("mare_rebalance_rounds_total", "counter", "Rounds of rebalancing that have ended.",
      static_cast<double>(row.rounds));
  one("mare_rebalance_moves_total", "counter", "VMs that they moved.",
      static_cast<double>(row.moves));
  one("mare_rebalance_refusals_total", "counter", "Moves that were not worth their cost.",
      static_cast<double>(row.refusals));
}

void projects(std::string& out, const Snapshot& from) {
  std::map<ProjectId, int> vms;
  std::map<PoolId, ProjectId> owners;
  for (const auto& pool : from.pools) {
    owners[pool.id] = pool.project;
    vms[pool.project] += 0;
  }
  for (const auto& vm : from.vms) ++vms[owners[vm.pool]];
  head(out, "mare_project_vms", "gauge", "VMs of a project's pools, whether they run or not.");
  for (const auto& [project, count] : vms) {
    sample(out, "mare_project_vms", "project=\"" + project.value + "\"", count);
  }
  head(out, "mare_project_vms_quota", "gauge", "How many these may be.");
  for (const auto& quota : from.quotas) {
    if (!quota.vms) continue;
    sample(out, "mare_project_vms_quota", "project=\"" + quota.project.value + "\"", *quota.vms);
  }
}

void memory(std::string& out, const Snapshot& from) {
  double all = 0;
  double taken = 0;
  for (const auto& host : from.hosts) {
    all += static_cast<double>(host.memory.count);
    for (const auto& vm : from.vms) {
      if (vm.host == host.id) {
        taken += static_cast<double>(vm.memory.count + host.vm_overhead.count);
      }
    }
  }
  head(out, "mare_hosts_memory_bytes", "gauge", "Memory that VMs may use, of all hosts.");
  sample(out, "mare_hosts_memory_bytes", "", all);
  head(out, "mare_hosts_memory_allocated_bytes", "gauge", "Of it, what VMs with a host take.");
  sample(out, "mare_hosts_memory_allocated_bytes", "", taken);
}

void cpu_speeds(std::string& out, const std::vector<Host>& rows) {
  const std::string name = "mare_host_cpu_speed";
  head(out, name, "gauge", "What one of its CPUs does in a second, as its agent tells it.");
  for (const auto& host : rows) {
    if (host.cpu_speed > 0) sample(out, name, "host=\"" + host.id.value + "\"", host.cpu_speed);
  }
}

/// A migration that was accepted and does not go on says why in its reason.
void unfinished_migrations(std::string& out, const std::vector<Operation>& rows) {
  int waiting = 0;
  int moving = 0;
  for (const auto& row : rows) {
    if (row.kind != OperationKind::VmMigrate || row.finished()) continue;
    ++(row.reason.empty() ? moving : waiting);
  }
  head(out, "mare_migrations_moving", "gauge", "Migrations under way.");
  sample(out, "mare_migrations_moving", "", moving);
  head(out, "mare_migrations_waiting", "gauge", "Migrations that wait for their turn.");
  sample(out, "mare_migrations_waiting", "", waiting);
}

void migrations(std::string& out, const std::vector<Migration>& rows) {
  const std::vector<double> durations{0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600};
  const std::vector<double> downtimes{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10};
  by_strategy(out, "mare_migration_duration_seconds", "Total time of finished migrations.", "",
              durations, rows, [](const Migration& m) { return m.total_time; });
  const std::string name = "mare_migration_downtime_seconds";
  const std::string help = "Downtime as the hypervisor, the guest and its peers saw it.";
  by_strategy(out, name, help, "seen_by=\"hypervisor\"", downtimes, rows,
              [](const Migration& m) { return m.downtime_hypervisor; });
  by_strategy(
      out, name, help, "seen_by=\"guest\"", downtimes, rows,
      [](const Migration& m) { return m.downtime_guest; }, false);
  by_strategy(
      out, name, help, "seen_by=\"peers\"", downtimes, rows,
      [](const Migration& m) { return m.downtime_peers; }, false);
  const std::string phase = "mare_migration_restart_phase_seconds";
  const std::string phases = "Check, Trans and Restart of moves by checkpoint-restart.";
  histogram(out, phase, phases, "phase=\"check\"", durations, rows,
            [](const Migration& m) { return m.file.check; });
  histogram(
      out, phase, phases, "phase=\"trans\"", durations, rows,
      [](const Migration& m) { return m.file.trans; }, false);
  histogram(
      out, phase, phases, "phase=\"restart\"", durations, rows,
      [](const Migration& m) { return m.file.restart; }, false);
  by_strategy(out, "mare_migration_held_seconds",
              "For how long migrations that could switch waited for other VMs of their job.", "",
              durations, rows, [](const Migration& m) { return m.held; });
  double bytes = 0;
  std::size_t given_up = 0;
  for (const auto& row : rows) {
    bytes += static_cast<double>(row.transferred.count);
    given_up += row.earlier.size();
    for (const auto& one : row.earlier) bytes += static_cast<double>(one.sent.count);
  }
  head(out, "mare_migrations_begun_anew_total", "counter",
       "Times that migrations were given up, far beyond their forecasts, and begun anew.");
  sample(out, "mare_migrations_begun_anew_total", "", static_cast<double>(given_up));
  head(out, "mare_migration_transferred_bytes_total", "counter", "Bytes that migrations sent.");
  sample(out, "mare_migration_transferred_bytes_total", "", bytes);
}

/// The quotient of the two sums is what incremental and packed parts save.
void checkpoints(std::string& out, const std::vector<Checkpoint>& rows) {
  by_state(out, "mare_checkpoints", "Checkpoints by state.", "state", CheckpointState::Dropping,
           rows, [](const Checkpoint& one) { return one.state; });
  const auto sum = [&](const std::string& name, const std::string& help, const auto& value) {
    double all = 0;
    for (const auto& one : rows) {
      const bool there =
          one.state == CheckpointState::Complete || one.state == CheckpointState::Needed;
      if (there) all += static_cast<double>(value(one).count);
    }
    head(out, name, "gauge", help);
    sample(out, name, "", all);
  };
  sum("mare_checkpoints_state_bytes", "VMs' states in the checkpoints that are there.",
      [](const Checkpoint& one) { return one.size; });
  sum("mare_checkpoints_file_bytes", "The files that hold them.",
      [](const Checkpoint& one) { return written_by(one); });
  std::size_t in_memory = 0;
  for (const auto& one : rows) {
    if (one.state == CheckpointState::Complete) in_memory += parts_in_memory(one);
  }
  const std::string name = "mare_checkpoint_parts_in_memory";
  head(out, name, "gauge", "Parts of complete checkpoints that a partner host has in its memory.");
  sample(out, name, "", static_cast<double>(in_memory));
}

}  // namespace

void metric_head(std::string& out, const std::string& name, const std::string& type,
                 const std::string& help) {
  head(out, name, type, help);
}

void metric_sample(std::string& out, const std::string& name, const std::string& labels,
                   double value) {
  sample(out, name, labels, value);
}

void HttpMetrics::count(const std::string& route, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{route.empty() ? "none" : route, status}];
}

std::string HttpMetrics::text() const {
  std::string out;
  head(out, "mare_http_requests_total", "counter", "Requests answered, by route and status.");
  const std::lock_guard lock(mutex_);
  for (const auto& [key, count] : requests_) {
    sample(out, "mare_http_requests_total",
           "route=\"" + key.first + "\",status=\"" + std::to_string(key.second) + "\"",
           static_cast<double>(count));
  }
  return out;
}

Result<std::string> store_metrics(const store::Store& store) {
  auto found = snapshot(store);
  if (!found) return found.error();
  std::string out;
  head(out, "mare_build_info", "gauge", "1, with the version as a label.");
  sample(out, "mare_build_info", std::string("version=\"") + MARE_VERSION + "\"", 1);
  by_state(out, "mare_hosts", "Hosts by health.", "health", HostHealth::Down, found->hosts,
           [](const Host& host) { return host.health; });
  by_state(out, "mare_hosts_admin", "Hosts by what the administrator wants of them.", "admin",
           HostAdmin::Drained, found->hosts, [](const Host& host) { return host.admin; });
  memory(out, *found);
  cpu_speeds(out, found->hosts);
  pools(out, *found);
  projects(out, *found);
  placement(out, found->rebalancing);
  by_state(out, "mare_vms", "VMs by state.", "state", VmState::Lost, found->vms,
           [](const Vm& vm) { return vm.state; });
  by_state(out, "mare_jobs", "Jobs by state.", "state", JobState::Cancelled, found->jobs,
           [](const Job& job) { return job.state; });
  operations(out, found->operations);
  unfinished_migrations(out, found->operations);
  migrations(out, found->migrations);
  checkpoints(out, found->checkpoints);
  return out;
}

std::string silence_metrics(const engine::Silences::Counts& counts) {
  std::string out;
  const std::string name = "mare_host_silence_seconds";
  head(out, name, "histogram", "From one answer of a host to its next, since mared's start.");
  for (std::size_t i = 0; i < counts.at_most.size(); ++i) {
    sample(out, name + "_bucket", "le=\"" + number(engine::Silences::kBoundsS[i]) + "\"",
           static_cast<double>(counts.at_most[i]));
  }
  sample(out, name + "_bucket", "le=\"+Inf\"", static_cast<double>(counts.all));
  sample(out, name + "_sum", "", counts.sum.count());
  sample(out, name + "_count", "", static_cast<double>(counts.all));
  head(out, "mare_host_longest_silence_seconds", "gauge", "The longest of these.");
  sample(out, "mare_host_longest_silence_seconds", "", counts.longest.count());
  return out;
}

std::string stream_metrics(const Followers::Counts& counts) {
  std::string out;
  head(out, "mare_http_streams", "gauge", "Open event streams and followed outputs.");
  sample(out, "mare_http_streams", "", static_cast<double>(counts.streams));
  head(out, "mare_http_waiters", "gauge", "Requests that wait for an operation.");
  sample(out, "mare_http_waiters", "", static_cast<double>(counts.waiters));
  return out;
}

}  // namespace mare::rest
