#include "orchestrator/engine/host_facts.h"

#include "orchestrator/engine/move_policy.h"

namespace mare::engine {

void take_facts(Host& host, const HostFacts& facts, const std::string& checkpoints) {
  host.memory = facts.memory;
  host.cpus = facts.cpus;
  host.cpu_speed = facts.cpu_speed;
  host.vm_overhead = facts.vm_overhead;
  host.hypervisor = facts.hypervisor;
  host.live_migration = facts.live_migration;
  host.strategies = strategies_with(facts, checkpoints);
  host.dirty_log = facts.dirty_log;
  host.dirty_log_why = facts.dirty_log_why;
  host.migration_tls = facts.migration_tls;
  host.migration_address = facts.migration_address;
}

}  // namespace mare::engine
