#include "tests/sim/invariants.h"

#include <algorithm>
#include <map>

namespace mare::test {
namespace {

std::string text(const Vm& vm) {
  return "VM " + vm.id.value + " (" + std::string(to_string(vm.state)) +
         (vm.host ? " on " + vm.host->value : "") + ")";
}

std::string argument(const Job& job, const std::string& key) {
  for (const auto& word : job.command) {
    if (word.starts_with(key)) return word.substr(key.size());
  }
  return {};
}

}  // namespace

void Invariants::fail(const std::string& what) {
  if (!said_.insert(what).second) return;
  broken_.push_back("at " +
                    std::to_string(std::chrono::duration<double>(world_.clock.now()).count()) +
                    " s: " + what);
}

// --- every moment

void Invariants::check_moment() {
  for (const auto& violation : world_.cluster.violations()) fail(violation.what);
  if (!world_.store_is_open()) return;
  const auto fresh = world_.cluster.endings(endings_seen_);
  endings_seen_ += fresh.size();
  for (const auto& ending : fresh) {
    endings_.push_back(ending);
    check_ending(ending);
  }
}

/// Only an operation that means to end a VM may end its last copy.
void Invariants::check_ending(const sim::Ending& ending) {
  const bool ours =
      ending.cause == sim::EndCause::Destroyed || ending.cause == sim::EndCause::PoweredOff;
  if (!ours) return;
  for (const auto& vm : world_.vms()) {
    if (vm.id != ending.key.id || vm.uuid != ending.key.uuid) continue;
    const bool wanted = vm.state == VmState::Stopping || vm.state == VmState::Starting ||
                        vm.state == VmState::Stopped || vm.state == VmState::Failed;
    // What an aborted restart had loaded elsewhere is not the VM.
    const bool runs_elsewhere = vm.host && *vm.host != ending.host &&
                                world_.cluster.copy_on(*vm.host, vm.id) == Copy::Running;
    if (!wanted && !runs_elsewhere) {
      fail(text(vm) + " was " + std::string(to_string(ending.cause)) + " on " + ending.host.value +
           ", and nobody asked for it: it is lost");
    }
  }
}

// --- rows

void Invariants::check_rows() {
  check_chains();
  const auto rows = world_.snapshot();
  std::map<HostId, Bytes> promised;
  for (const auto& reservation : rows.reservations) {
    promised[reservation.host] = promised[reservation.host] + reservation.memory;
    const bool owned =
        std::any_of(rows.unfinished.begin(), rows.unfinished.end(),
                    [&](const Operation& o) { return o.id == reservation.operation; });
    if (!owned) fail("a reservation of " + reservation.operation.value + " outlived it");
  }
  for (const auto& vm : rows.vms) {
    check_vm_row(vm, rows.unfinished);
    if (!vm.host) continue;
    for (const auto& host : rows.hosts) {
      if (host.id == *vm.host) promised[host.id] = promised[host.id] + vm.memory + host.vm_overhead;
    }
  }
  for (const auto& host : rows.hosts) {
    if (promised[host.id] > host.memory) {
      fail("host " + host.id.value + " is promised more memory than it has");
    }
  }
  std::map<VmId, JobId> taken;
  for (const auto& job : rows.unfinished_jobs) {
    std::set<VmId> own(job.vms.begin(), job.vms.end());
    if (own.size() != job.vms.size()) fail(job.id.value + " has two ranks on one VM");
    for (const auto& vm : own) {
      const auto [other, fresh] = taken.try_emplace(vm, job.id);
      if (!fresh) fail("VM " + vm.value + " has ranks of two jobs");
      const bool exists = std::any_of(rows.vms.begin(), rows.vms.end(),
                                      [&](const Vm& row) { return row.id == vm; });
      if (!exists) fail(job.id.value + " has a rank on VM " + vm.value + ", which has no row");
    }
  }
}

void Invariants::check_vm_row(const Vm& vm, const std::vector<Operation>& unfinished) {
  const bool placed = vm.state != VmState::Stopped && vm.state != VmState::Failed;
  if (placed != vm.host.has_value()) fail(text(vm) + ": state and host do not agree");
  const auto holder = [&](OperationKind kind) {
    return std::any_of(unfinished.begin(), unfinished.end(), [&](const Operation& o) {
      return o.kind == kind && o.target == vm.id.value;
    });
  };
  const auto restoring = std::any_of(unfinished.begin(), unfinished.end(), [&](const Operation& o) {
    if (o.kind != OperationKind::CheckpointRestore || o.state == "Planned") return false;
    const auto jobs = world_.jobs();
    return std::any_of(jobs.begin(), jobs.end(), [&](const Job& job) {
      return job.id.value == o.target &&
             std::find(job.vms.begin(), job.vms.end(), vm.id) != job.vms.end();
    });
  });
  if (vm.state == VmState::Starting && !holder(OperationKind::VmStart) && !restoring) {
    fail(text(vm) + " has no operation that starts it");
  }
  if (vm.state == VmState::Migrating && !holder(OperationKind::VmMigrate)) {
    fail(text(vm) + " has no operation that moves it");
  }
  if (vm.state == VmState::Stopping && !holder(OperationKind::VmStop)) {
    fail(text(vm) + " has no operation that stops it");
  }
}

// --- quiet

void Invariants::check_quiet() {
  for (const auto& violation : world_.cluster.check_invariants()) fail(violation.what);
  check_moment();
  check_rows();
  const auto operations = world_.operations();
  for (const auto& operation : operations) {
    const std::string name = operation.id.value + " " + std::string(to_string(operation.kind)) +
                             " " + operation.target + " in " + operation.state;
    if (!operation.finished()) {
      fail(name + " never ended");
      continue;
    }
    if (operation.outcome != Outcome::Succeeded && operation.reason.empty()) {
      fail(name + " ended " + std::string(to_string(operation.outcome)) + " without a reason");
    }
  }
  if (!world_.snapshot().reservations.empty()) fail("a reservation is left");
  check_checkpoints();
  check_sizes();
  for (const auto& job : world_.jobs()) check_job_end(job, operations);
  // A host that was removed while it was silent is asked no more: what stands still there stays.
  auto copies = world_.cluster.copies();
  const auto hosts = world_.hosts();
  std::erase_if(copies, [&](const sim::TrueCopy& copy) {
    return copy.copy != Copy::Running &&
           std::none_of(hosts.begin(), hosts.end(),
                        [&](const Host& host) { return host.id == copy.host; });
  });
  const auto vms = world_.vms();
  for (const auto& vm : vms) check_vm_against_cluster(vm, copies);
  for (const auto& copy : copies) {
    const bool known =
        std::any_of(vms.begin(), vms.end(), [&](const Vm& vm) { return vm.id == copy.key.id; });
    if (!known) {
      fail("host " + copy.host.value + " has a copy of VM " + copy.key.id.value +
           ", which has no row");
    }
  }
}

void Invariants::check_chains() {
  for (const auto& one : world_.checkpoints()) {
    if (one.state != CheckpointState::Complete && one.state != CheckpointState::Needed) continue;
    for (const auto& part : one.parts) {
      if (world_.cluster.capture_is_there(part.path)) continue;
      fail(part.path + " of " + one.id.value + ", or what it is built on, is gone");
    }
  }
}

void Invariants::check_checkpoints() {
  std::set<std::string> wanted;
  for (const auto& checkpoint : world_.checkpoints()) {
    const auto all = world_.checkpoints();
    const bool needed = checkpoint.state == CheckpointState::Needed &&
                        std::any_of(all.begin(), all.end(), [&](const Checkpoint& one) {
                          return base_of(one) == checkpoint.id;
                        });
    if (checkpoint.state != CheckpointState::Complete && !needed) {
      fail(checkpoint.id.value + " is still " + std::string(to_string(checkpoint.state)));
    }
    for (const auto& part : checkpoint.parts) wanted.insert(part.path);
  }
  const auto files = world_.cluster.capture_files();
  for (const auto& path : files) {
    if (wanted.erase(path) == 0) fail("file " + path + " belongs to no checkpoint");
  }
  for (const auto& path : wanted) fail("file " + path + " of a checkpoint is gone");
}

/// The size that a pool tells is the number of VMs that it has.
void Invariants::check_sizes() {
  std::map<PoolId, int> counts;
  for (const auto& vm : world_.vms()) ++counts[vm.pool];
  for (const auto& pool : world_.pools()) {
    if (counts[pool.id] == pool.size) continue;
    fail("pool " + pool.id.value + " says that its size is " + std::to_string(pool.size) +
         " and has " + std::to_string(counts[pool.id]) + " VMs");
  }
}

void Invariants::check_vm_against_cluster(const Vm& vm, const std::vector<sim::TrueCopy>& copies) {
  std::string found;
  int running_as_told = 0;
  int all = 0;
  for (const auto& copy : copies) {
    if (copy.key.id != vm.id) continue;
    ++all;
    found += " " + std::string(to_string(copy.copy)) + " on " + copy.host.value;
    if (copy.copy == Copy::Running && vm.host == copy.host && copy.key.uuid == vm.uuid) {
      ++running_as_told;
    }
  }
  if (found.empty()) found = " nothing";
  switch (vm.state) {
    case VmState::Running:
      if (all != 1 || running_as_told != 1) fail(text(vm) + ", but the cluster has" + found);
      break;
    case VmState::Stopped:
    case VmState::Failed:
      if (all != 0) fail(text(vm) + ", but the cluster has" + found);
      if (vm.state == VmState::Failed && vm.reason.empty()) fail(text(vm) + " without a reason");
      break;
    case VmState::Starting:
    case VmState::Migrating:
    case VmState::Stopping:
    case VmState::Lost:
      fail(text(vm) + " (" + vm.reason + ") when all is quiet, and the cluster has" + found);
      break;
  }
}

void Invariants::check_job_end(const Job& job, const std::vector<Operation>& operations) {
  const std::string name = job.id.value + " (" + std::string(to_string(job.state)) + ")";
  if (!is_final(job.state)) return fail(name + " never ended");
  if (job.state == JobState::Cancelled) return;
  const std::string wanted_exit = argument(job, "--sim-exit=");
  const bool by_itself =
      job.exit_code && std::to_string(*job.exit_code) == (wanted_exit.empty() ? "0" : wanted_exit);
  if (job.state == JobState::Succeeded || by_itself) {
    if (job.state == JobState::Succeeded && job.exit_code != 0) fail(name + " has no exit code 0");
    const double work_s = std::stod(argument(job, "--sim-work="));
    if (world_.output_of(job.id) != sim::complete_output(job.id, work_s)) {
      fail(name + " ended by itself, but its output is not what it wrote");
    }
    return;
  }
  if (job.reason.empty()) fail(name + " has no reason");
  // It may fail for a VM that ended or that nobody can tell of; never for a fault that passes.
  const bool vm_ended = std::any_of(endings_.begin(), endings_.end(), [&](const sim::Ending& e) {
    return std::find(job.vms.begin(), job.vms.end(), e.key.id) != job.vms.end();
  });
  const bool unclear = std::any_of(operations.begin(), operations.end(), [&](const Operation& o) {
    return o.outcome == Outcome::NeedsOperator &&
           (o.target == job.id.value ||
            std::find(job.vms.begin(), job.vms.end(), VmId{o.target}) != job.vms.end());
  });
  const bool never_began = job.vms.empty();
  if (!vm_ended && !unclear && !never_began) {
    fail(name + " failed though none of its VMs did: " + job.reason);
  }
}

}  // namespace mare::test
