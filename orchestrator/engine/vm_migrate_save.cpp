// Check, of a move through a file: the source stops the VM and writes its state. Until the file is
// whole, and its end at the source was decided, the copy there is the VM: an abort drops the file
// and lets it go on. A VM of which nobody hears anything more goes on by itself, at the hold limit.
#include <algorithm>

#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/vm_migrate.h"

namespace mare::engine {
namespace {

bool has_it(const HostFacts& facts, const std::string& checkpoints) {
  const auto all = strategies_with(facts, checkpoints);
  return std::find(all.begin(), all.end(), Strategy::CheckpointRestart) != all.end();
}

}  // namespace

CheckpointPart VmMigrate::part() const {
  CheckpointPart out;
  out.vm = vm_.id;
  out.uuid = vm_.uuid;
  out.host = migration_.source;
  out.path = migration_.file.path;
  out.size = migration_.file.size;
  out.checksum = migration_.file.checksum;
  out.written = migration_.file.written;
  return out;
}

CaptureTicket VmMigrate::capture_ticket() const {
  CaptureTicket out{file_name(), key(), migration_.file.path};
  // As long as it may take, and then as long as any VM is held when mared is silent.
  const WallTime left = std::max(WallTime{0}, operation().deadline - clock().wall_now());
  out.hold_limit = settings().hold_limit + std::chrono::duration_cast<Milliseconds>(left);
  out.compress = settings().compress_checkpoints;
  out.leaves = true;
  return out;
}

/// Nothing is touched before both hosts are known to be able to.
void VmMigrate::prepare_file() {
  call_host<Result<HostFacts>>(
      file_lane(), migration_.source, [](Driver& driver) { return driver.facts(); },
      [this](const Result<HostFacts>& source) {
        if (source) return check_both(*source);
        abort(source.error().during("host '" + migration_.source.value + "' was asked"));
      });
}

void VmMigrate::check_both(const HostFacts& source) {
  call_host<Result<HostFacts>>(
      file_lane(), migration_.destination,
      [key = key()](Driver& driver) -> Result<HostFacts> {
        auto seen = driver.observe(key);
        if (!seen) return seen.error();
        if (seen->copy == Copy::Absent) return driver.facts();
        return make_error(Code::AlreadyExists, "a copy of VM '" + key.id.value + "' is there");
      },
      [this, source](const Result<HostFacts>& destination) {
        const std::string there = "host '" + migration_.destination.value + "'";
        if (!destination) return abort(destination.error().during(there + " can't take it"));
        const std::string& checkpoints = settings().checkpoints_directory;
        const bool here = has_it(source, checkpoints);
        if (!here || !has_it(*destination, checkpoints)) {
          const std::string who = here ? there : "host '" + migration_.source.value + "'";
          return abort(make_error(Code::Unsupported, who + " does not offer checkpoint-restart"));
        }
        if (source.accelerated != destination->accelerated) {
          return abort(make_error(
              Code::Unsupported, "a VM can't move between a host with KVM and one that emulates",
              "choose a host of the same kind, or end the VM and start it there"));
        }
        at_safe_point([this](const std::string& words) {
          migration_.file = FileMove{};
          migration_.file.path = settings().checkpoints_directory + "/moves/" +
                                 operation().id.value + "/" + migration_.vm.value;
          migration_.file.began = clock().wall_now();
          const auto also = [&](store::Transaction& tx) { return tx.put(migration_); };
          if (step(Event::Save, "to " + migration_.file.path + words, also)) save();
        });
      });
}

void VmMigrate::save() {
  start_probe();
  if (probe_) probe_->watch_closely(true);
  call_host<Result<CaptureStatus>>(
      file_lane(), migration_.source,
      [ticket = capture_ticket()](Driver& driver) { return driver.prepare_capture(ticket); },
      [this](const Result<CaptureStatus>& ready) {
        // Where there is nothing to prepare, all is done when it begins.
        if (!ready && ready.error().code == Code::Unsupported) return begin_saving();
        saving(ready);
      });
}

void VmMigrate::begin_saving() {
  stopped_by_ = clock().wall_now();
  call_host<Result<CaptureStatus>>(
      file_lane(), migration_.source,
      [ticket = capture_ticket()](Driver& driver) { return driver.begin_capture(ticket); },
      [this](const Result<CaptureStatus>& begun) { saving(begun); });
}

void VmMigrate::look_at_saving() {
  call_host<Result<CaptureStatus>>(
      file_lane(), migration_.source, [key = key()](Driver& driver) { return driver.capture(key); },
      [this](const Result<CaptureStatus>& status) { saving(status); });
}

void VmMigrate::saving(const Result<CaptureStatus>& status) {
  const std::string at = "host '" + migration_.source.value + "'";
  if (!status && passes(status.error())) return source_of_file_is_silent(status.error());
  if (!status) return abort(status.error().during(at));
  attempt_.silent_since.reset();
  if (status->phase == CapturePhase::None || status->checkpoint != file_name()) {
    return abort(make_error(Code::Internal, at + " knows nothing of the file any more"));
  }
  if (status->phase == CapturePhase::Failed) {
    return abort(make_error(Code::Internal, status->error).during(at));
  }
  std::string why;
  Code code = Code::Cancelled;
  if (is_to_end(why, code)) return abort(make_error(code, why));
  if (status->phase == CapturePhase::Durable) return file_is_whole(*status);
  if (status->phase == CapturePhase::Ready) return begin_saving();
  progress(0.2);
  after(settings().poll / 4, [this] { look_at_saving(); });
}

void VmMigrate::source_of_file_is_silent(const Error& error) {
  if (!attempt_.silent_since) attempt_.silent_since = clock().now();
  if (clock().now() - *attempt_.silent_since > settings().unreachable_timeout) {
    return abort(error.during("host '" + migration_.source.value + "' does not answer"));
  }
  after(settings().poll * 5, [this] { look_at_saving(); });
}

bool VmMigrate::is_to_end(std::string& why, Code& code) const {
  const WallTime now = clock().wall_now();
  code = Code::Cancelled;
  if (operation().cancel_requested) {
    why = "cancelled by the user";
  } else if (now > operation().deadline) {
    why = "it did not end within its time limit";
  } else if (policy_.time_limit && policy_.at_limit == LimitAction::Cancel &&
             Seconds{now - migration_.file.began} > *policy_.time_limit) {
    why = "it did not end within the policy's time limit";
  }
  return !why.empty();
}

/// From here on it is not cancelled: the next thing that happens is the end of the source's copy.
void VmMigrate::file_is_whole(const CaptureStatus& status) {
  FileMove& file = migration_.file;
  file.size = status.size;
  file.checksum = status.checksum;
  file.written = status.written;
  // By one clock, the source's.
  if (status.stopped.count() != 0 && status.durable >= status.stopped) {
    file.check = status.durable - status.stopped;
  }
  file.stopped = stopped_by_;
  if (stopped_by_.count() == 0) {
    file.stopped = clock().wall_now() - file.check.value_or(Microseconds{0});
  }
  migration_.transferred = file.written;
  migration_.remaining = Bytes{0};
  Round round;
  round.started = file.stopped - file.began;
  round.duration = file.check.value_or(Microseconds{0});
  round.sent = round.remaining = file.written;
  migration_.rounds = {round};
  progress(0.5);
  const auto also = [&](store::Transaction& tx) { return tx.put(migration_); };
  if (step(Event::EndSource, "the file is whole", also)) end_source();
}

}  // namespace mare::engine
