#include "orchestrator/engine/vm_migrate.h"

#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/plan.h"
#include "orchestrator/engine/spec.h"
#include "orchestrator/policy/replay.h"

namespace mare::engine {
namespace {
constexpr auto kLookForCheckpoint = std::chrono::milliseconds{300};
}

void VmMigrate::enter(bool recovered) {
  if (!load()) return load_again();
  switch (state()) {
    case State::Planned:
      return choose_moment();
    case State::Reserved:
      return prepare();
    case State::PreCopying:
    case State::Switching:
      // After a restart the sending may go on by itself, may be over, or never began.
      return recovered ? look() : send();
    case State::PostCopying:
      return look();
    case State::Saving:
      return recovered ? look_at_saving() : save();
    case State::Restarting:
      return end_source();
    case State::Returning:
      return load_back(true);
    case State::Aborting:
      return abort_step();
    case State::Committed:
      return complete();
    case State::Done:
    case State::Failed:
    case State::NeedsOperator:
      return;
  }
}

void VmMigrate::on_cancel() {
  // Neither its turn nor the forecast that is being made is waited for.
  if (state() == State::Planned) return refuse(make_error(Code::Cancelled, "cancelled"));
  if (state() == State::Reserved && search_) {
    search_.reset();
    return abort(make_error(Code::Cancelled, "cancelled"));
  }
  // Before the source is known to send, a cancel could overtake the beginning and be lost: the
  // first poll asks for it then.
  if (attempt_.sends && (state() == State::PreCopying || state() == State::Switching)) {
    cancel_sending("cancelled by the user");
  }
  if (state() == State::Saving) abort(make_error(Code::Cancelled, "cancelled by the user"));
}

VmMigrate::State VmMigrate::state() const {
  const auto parsed = migration_state_from(operation().state);
  MARE_ASSERT(parsed.has_value());
  return *parsed;
}

/// Reads the rows that everything below needs; they do not change while this operation holds the
/// VM.
bool VmMigrate::load() {
  auto row = vm(VmId{operation().target});
  auto record = query<Migration>(
      store(), [&](const store::Reader& r) { return r.migration(operation().id); });
  if (!row || !record) return false;
  vm_ = *row;
  migration_ = *record;
  policy_ = move_policy_from(operation().request);
  auto forecast =
      query<Forecast>(store(), [&](const store::Reader& r) { return r.forecast(operation().id); });
  if (!forecast && forecast.error().code != Code::NotFound) return false;
  forecast_.reset();
  if (forecast) forecast_ = std::move(*forecast);
  return true;
}

/// After a load() that failed. A VM whose record is gone, as one that died while this waited and
/// whose pool was deleted then, does not come back; and nothing was touched.
void VmMigrate::load_again() {
  const auto row = vm(VmId{operation().target});
  const bool deleted = !row && row.error().code == Code::NotFound;
  if (deleted && state() == State::Planned) return refuse(row.error());
  again();
}

bool VmMigrate::step(Event event, const std::string& detail, const Also& also) {
  const auto to = next(state(), event);
  MARE_ASSERT(to.has_value());
  return commit(to_string(event), to_string(*to), detail, also);
}

Result<MigrationTicket> VmMigrate::ticket() {
  auto spec = find_spec(store(), context_.ports.images, settings(), vm_);
  if (!spec) return spec.error();
  auto downtime = migration_.sending.downtime_limit;
  if (!downtime) downtime = migration_.downtime_limit;
  // A host that is told of it twice does it once: so what is begun anew has another name.
  OperationId name = operation().id;
  const std::size_t tries = migration_.earlier.size();
  if (tries > 0) name.value += "." + std::to_string(tries + 1);
  return MigrationTicket{name, *spec, migration_.bandwidth_limit, downtime, migration_.sending};
}

void VmMigrate::reserve() {
  if (operation().cancel_requested) return refuse(make_error(Code::Cancelled, "cancelled"));
  // A checkpoint of its job takes seconds; nothing of this move has begun.
  const Status free =
      store().read([&](const store::Reader& r) { return check_not_in_checkpoint(r, vm_); });
  if (!free) {
    return after(kLookForCheckpoint, [this] {
      if (!load()) return load_again();
      reserve();
    });
  }
  // The forecast took its time, and a host may have gone silent meanwhile.
  if (vm_.state != VmState::Running) return refuse(wrong_state(vm_, "running"));
  if (vm_.host != migration_.source) {
    return refuse(make_error(Code::FailedPrecondition,
                             "VM '" + vm_.id.value + "' is not on host '" +
                                 migration_.source.value + "' any more: its job was put back"));
  }
  auto spec = find_spec(store(), context_.ports.images, settings(), vm_);
  if (!spec) return refuse(spec.error());
  Error refusal;
  const auto also = [&](store::Transaction& tx) -> Status {
    auto rooms = rooms_now(tx, {migration_.destination}, {});
    if (!rooms) return rooms.error();
    auto place = policy::place(*rooms, vm_.memory);
    if (!place) {
      refusal = place.error();
      return refusal;
    }
    Vm moving = vm_;
    moving.state = VmState::Migrating;
    if (auto done = put_vm(tx, clock(), moving); !done) return done;
    // Since it was asked for, jobs may have come and gone.
    auto jobs = jobs_on(tx, vm_);
    if (!jobs) return jobs.error();
    migration_.jobs.clear();
    for (const auto& job : *jobs) migration_.jobs.push_back(job.id);
    if (auto done = keep_forecast(tx); !done) return done;
    return tx.reserve(
        {operation().id, migration_.destination, vm_.memory + rooms->front().vm_overhead});
  };
  const std::string how = forecast_              ? ": " + forecast_->reason
                          : no_forecast_.empty() ? ""
                                                 : ", without a forecast: " + no_forecast_;
  if (step(Event::Reserve, "on " + migration_.destination.value + how, also)) {
    vm_.state = VmState::Migrating;
    return prepare();
  }
  if (!refusal.message.empty()) refuse(refusal);
}

/// From Planned only: nothing was touched.
void VmMigrate::refuse(const Error& error) {
  finish(to_string(Event::Abort), to_string(State::Failed), outcome_of(error), error.text(),
         std::string(to_string(error.code)));
}

void VmMigrate::prepare() {
  if (operation().cancel_requested) return abort(make_error(Code::Cancelled, "cancelled"));
  if (by_file()) return prepare_file();
  auto made = ticket();
  if (!made) return abort(made.error());
  call_host<Result<IncomingEndpoint>>(
      migration_.destination,
      [ticket = *made](Driver& driver) { return driver.prepare_incoming(ticket); },
      [this](Result<IncomingEndpoint> endpoint) {
        if (!endpoint) {
          return abort(
              endpoint.error().during("host '" + migration_.destination.value + "' can't receive"));
        }
        endpoint_ = *endpoint;
        at_safe_point([this](const std::string& words) {
          if (step(Event::StartPreCopy, "to " + endpoint_.uri + words)) send();
        });
      });
}

std::shared_ptr<Task> make_vm_migrate(Context& context, const Operation& operation) {
  return std::make_shared<VmMigrate>(context, operation);
}

}  // namespace mare::engine
