#include "orchestrator/engine/migration_probe.h"

namespace mare::engine {

std::shared_ptr<MigrationProbe> MigrationProbe::start(Context& context, const GuestAddress& guest) {
  auto self = std::make_shared<MigrationProbe>();
  context.ports.executor.run(
      "guest/" + guest.vm.value,
      [self, guest, &guests = context.ports.guests, period = context.settings.probe_period] {
        auto probe = guests.start_probe(guest, period);
        const std::lock_guard lock(self->mutex_);
        if (!probe || self->stopped_) return;
        self->probe_ = std::move(*probe);
        self->probe_->watch_closely(self->closely_);
      });
  return self;
}

void MigrationProbe::watch_closely(bool closely) {
  const std::lock_guard lock(mutex_);
  closely_ = closely;
  if (probe_) probe_->watch_closely(closely);
}

std::optional<ProbeReport> MigrationProbe::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  if (!probe_) return std::nullopt;
  auto report = probe_->report(true);
  probe_.reset();
  return report;
}

}  // namespace mare::engine
