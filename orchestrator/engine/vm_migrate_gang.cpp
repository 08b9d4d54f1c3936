// Its switch, together with those of its job's other VMs that move at the same time.
#include <algorithm>
#include <array>
#include <cstdio>

#include "orchestrator/engine/switch_gangs.h"
#include "orchestrator/engine/vm_migrate.h"

namespace mare::engine {
namespace {
// One that lags behind is not waited for any longer: who holds sends again and again what its guest
// writes, and slows it.
constexpr auto kHoldsFor = std::chrono::seconds{10};
// Nor beyond this share of its own time limit, which would end it.
constexpr double kOfItsTime = 0.7;

bool comes_soon(const Operation& migration) {
  const auto state = migration_state_from(migration.state);
  if (migration.finished() || migration.kind != OperationKind::VmMigrate || !state) return false;
  // One that waits for its moment or its turn says so.
  if (*state == MigrationState::Planned) return migration.reason.empty();
  return *state == MigrationState::Reserved || *state == MigrationState::PreCopying;
}
}  // namespace

/// Does another VM of its job move now, or in a moment? Then it joins them. Not from a host that is
/// to be empty in a minute: there no link shall wait.
bool VmMigrate::joins_gang() {
  if (migration_.jobs.empty() || !holds_its_switch(migration_.sending.strategy)) return false;
  const JobId& id = migration_.jobs.front();
  auto others = query<bool>(store(), [&](const store::Reader& r) -> Result<bool> {
    if (operation().parent) {
      auto parent = r.operation(*operation().parent);
      if (!parent) return parent.error();
      if (parent->kind == OperationKind::HostEvacuate) return false;
    }
    auto job = r.job(id);
    if (!job) return job.error();
    for (const auto& name : job->vms) {
      if (name == vm_.id) continue;
      auto busy = r.unfinished("vm", name.value);
      if (!busy) return busy.error();
      if (*busy && comes_soon(**busy)) return true;
    }
    return false;
  });
  if (!others || !*others) return false;
  context_.gangs->join(operation().id, id);
  return true;
}

/// The first word that it holds makes it ready; what would wait too long, or for nobody, is let go.
void VmMigrate::watch_hold(const OutgoingStatus& status) {
  // An agent that was restarted since knows nothing of it, and would hold it for ever.
  const bool forgotten = attempt_.holds && status.operation.value.empty();
  if (!status.holds && !forgotten) return;
  const bool late = policy_.time_limit && status.elapsed >= kOfItsTime * *policy_.time_limit;
  if (forgotten || late) context_.gangs->leave(operation().id);
  if (late && attempt_.held_since && !migration_.held) return release_switch();
  if (!attempt_.held_since) {
    attempt_.held_since = clock().now();
    migration_.switched_with = std::max(0, context_.gangs->size(operation().id) - 1);
    return context_.gangs->ready(operation().id, later([this] { release_switch(); }));
  }
  if (clock().now() - *attempt_.held_since < kHoldsFor) return;
  context_.gangs->let_go(operation().id);
  release_switch();  // should the word before have been lost
}

/// For its history; "" if it switched by itself.
std::string VmMigrate::how_switched() const {
  if (!migration_.held || migration_.switched_with == 0) return "";
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "together with %d more of its job, held for %.2f s",
                migration_.switched_with, Seconds{*migration_.held}.count());
  return text.data();
}

void VmMigrate::release_switch() {
  const auto held = clock().now() - attempt_.held_since.value_or(clock().now());
  migration_.held = std::chrono::duration_cast<Microseconds>(held);
  call_host<Status>(
      migration_.source, [key = key()](Driver& driver) { return driver.release_outgoing(key); },
      [this](const Status& told) {
        if (told) return;
        log().warn("engine", operation().id.value + ": " + told.error().text());
        attempt_.held_since.reset();  // it is told again when it says once more that it holds
      });
}

}  // namespace mare::engine
