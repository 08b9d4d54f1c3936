// Trans and Restart, of a move through a file, and the ways back. The source's copy ends before
// anything is made from the file; what is made stands still until Committed, or Aborting if it is
// at the source, is in the store. So no file is read whose VM has gone on since, and nothing runs
// twice.
#include <algorithm>

#include "orchestrator/engine/spec.h"
#include "orchestrator/engine/vm_migrate.h"

namespace mare::engine {
namespace {

constexpr auto kLoadAgain = std::chrono::milliseconds{500};
constexpr auto kHomeAgain = std::chrono::seconds{2};
constexpr auto kRunAgain = std::chrono::milliseconds{200};
// The file is all there is of the VM, or its only copy stands still: nothing is given up soon.
constexpr auto kTryFor = std::chrono::minutes{10};
constexpr int kGoneLooks = 3;
constexpr int kRemoveTries = 3;
constexpr auto kRemoveAgain = std::chrono::seconds{1};

struct RunsThere {
  WallTime at{0};
  ArrivalReport report;
};

Result<CaptureLoad> make_from_file(Driver& driver, const VmSpec& spec, const CheckpointId& name,
                                   const CheckpointPart& part, bool afresh) {
  // What an earlier process began may be half there; none of it has run.
  if (afresh) {
    if (auto gone = driver.destroy(spec.key()); !gone) return gone.error();
  }
  return driver.load_capture(spec, name, part);
}

}  // namespace

void VmMigrate::end_source() {
  call_host<Result<CaptureStatus>>(
      file_lane(), migration_.source,
      [key = key(), name = file_name()](Driver& driver) {
        return driver.release_capture(key, name);
      },
      [this](const Result<CaptureStatus>& ended) {
        if (!ended) return source_not_ended(ended.error());
        attempt_.looks = 0;
        attempt_.looking_since.reset();
        go_on_from_file();
      });
}

/// Only a look tells whether it has ended. What may have been asked for and not answered is asked
/// for again, and never undone.
void VmMigrate::source_not_ended(const Error& error) {
  end_refused_ = !passes(error);
  attempt_.note =
      error.during("host '" + migration_.source.value + "' did not end its copy").text();
  attempt_.note_code = error.code;
  look();
}

void VmMigrate::go_on_from_file() {
  attempt_.silent_since.reset();
  if (state() == State::Returning) return load_back(true);
  load_there(true);
}

void VmMigrate::load_there(bool afresh) {
  auto spec = find_spec(store(), context_.ports.images, settings(), vm_);
  if (!spec) return return_home(spec.error());
  call_host<Result<CaptureLoad>>(
      file_lane(), migration_.destination,
      [spec = *spec, name = file_name(), part = part(), afresh](Driver& driver) {
        return make_from_file(driver, spec, name, part, afresh);
      },
      [this](const Result<CaptureLoad>& loaded) { loaded_there(loaded); });
}

void VmMigrate::loaded_there(const Result<CaptureLoad>& loaded) {
  if (loaded) {
    load_ = *loaded;
    loaded_at_ = clock().wall_now();
    attempt_.note.clear();
    attempt_.note_code.reset();
    return commit_destination(Event::Loaded, "at " + migration_.destination.value);
  }
  if (!passes(loaded.error())) return return_home(loaded.error());
  if (!attempt_.silent_since) attempt_.silent_since = clock().now();
  const auto row = host(migration_.destination);
  const bool down = row && row->health == HostHealth::Down;
  if (down || clock().now() - *attempt_.silent_since > settings().unreachable_timeout) {
    return return_home(loaded.error());
  }
  after(kLoadAgain, [this] { load_there(false); });
}

// --- the source again

void VmMigrate::return_home(const Error& error) {
  attempt_.note =
      error.during("host '" + migration_.destination.value + "' can't make it from its file")
          .text();
  attempt_.note_code = error.code;
  attempt_.silent_since.reset();
  if (step(Event::Return, attempt_.note)) load_back(true);
}

void VmMigrate::load_back(bool afresh) {
  auto spec = find_spec(store(), context_.ports.images, settings(), vm_);
  if (!spec) return loaded_back(spec.error());
  const auto go_on = [this, spec = *spec, afresh](const Status&) {
    call_host<Result<CaptureLoad>>(
        file_lane(), migration_.source,
        [spec, name = file_name(), part = part(), afresh](Driver& driver) {
          return make_from_file(driver, spec, name, part, afresh);
        },
        [this](const Result<CaptureLoad>& loaded) { loaded_back(loaded); });
  };
  if (!afresh) return go_on(ok_status());
  // What stands still there is in nobody's way but takes memory; a silent host is told later.
  call_host<Status>(
      file_lane(), migration_.destination,
      [key = key()](Driver& driver) { return driver.destroy(key); }, go_on);
}

void VmMigrate::loaded_back(const Result<CaptureLoad>& loaded) {
  if (loaded) {
    if (attempt_.note.empty()) attempt_.note = why_in(to_string(State::Returning), "given up");
    attempt_.looks = 0;
    attempt_.looking_since.reset();
    if (step(Event::Loaded, attempt_.note)) abort_step();
    return;
  }
  const Error error = loaded.error().during("host '" + migration_.source.value + "'");
  if (loaded.error().code == Code::NotFound && ++refused_ >= kGoneLooks) {
    attempt_.note = error.text();
    return lost({Copy::Absent, Copy::Absent});
  }
  if (in_state() > kTryFor) return ask_operator("neither host can make it: " + error.text());
  after(kHomeAgain, [this] { load_back(false); });
}

/// The source's copy was not ended, or was made from the file again: it goes on.
void VmMigrate::abort_file_move() {
  if (migration_.file.path.empty()) {
    dropped_ = true;
    return look();
  }
  call_host<Status>(
      file_lane(), migration_.source,
      [key = key(), name = file_name(), path = migration_.file.path](Driver& driver) -> Status {
        if (auto gone = driver.drop_capture(key, name, path); !gone) return gone;
        // An agent that was restarted knows not why it stands still.
        auto on = driver.resume(key);
        return on || !passes(on.error()) ? ok_status() : on;
      },
      [this](const Status& dropped) {
        dropped_ = dropped.ok();
        if (!dropped) file_left_ = "; its file " + migration_.file.path + " is left";
        if (dropped) file_left_.clear();
        look();
      });
}

// --- committed

void VmMigrate::resume_there() {
  auto spec = find_spec(store(), context_.ports.images, settings(), vm_);
  if (!spec || !allow_to_run()) return again();
  call_host<Result<RunsThere>>(
      file_lane(), migration_.destination,
      [spec = *spec, &clock = clock()](Driver& driver) -> Result<RunsThere> {
        if (auto runs = driver.resume(spec.key()); !runs) return runs.error();
        RunsThere out{clock.wall_now(), {}};
        // Peers and switches remember the former host; a frame that is lost is sent again by TCP.
        if (driver.announce(spec)) {
          if (auto report = driver.arrival(spec.key())) out.report = *report;
        }
        return out;
      },
      [this](const Result<RunsThere>& resumed) {
        if (resumed) {
          if (resumed->report.announced_at >= resumed->at) {
            migration_.announce_delay = resumed->report.announced_at - resumed->at;
          }
          migration_.announcements = resumed->report.announcements;
          console_ = resumed->report.seen.console_first_fault;
          keep_file_times(resumed->at);
          return remove_file(1);
        }
        not_resumed(resumed.error());
      });
}

/// Who starts anew from the rows must not take what ran for what never did.
bool VmMigrate::allow_to_run() {
  if (migration_.file.may_have_run) return true;
  migration_.file.may_have_run = true;
  never_ran_ = true;
  return store().write([&](store::Transaction& tx) { return tx.put(migration_); }).ok();
}

void VmMigrate::not_resumed(const Error& error) {
  // What may have been done, was.
  if (error.code == Code::OutcomeUnknown) never_ran_ = false;
  if (error.code == Code::NotFound) return never_ran_ ? load_once_more() : lost_there(error);
  if (in_state() < kTryFor) return after(kRunAgain, [this] { resume_there(); });
  done("it does not go on there: " + error.text());
}

/// Its host died before it was told to go on: the file is as good as it was.
void VmMigrate::load_once_more() {
  auto spec = find_spec(store(), context_.ports.images, settings(), vm_);
  if (!spec) return again();
  call_host<Result<CaptureLoad>>(
      file_lane(), migration_.destination,
      [spec = *spec, name = file_name(), part = part()](Driver& driver) {
        return make_from_file(driver, spec, name, part, false);
      },
      [this](const Result<CaptureLoad>& loaded) {
        if (loaded) return resume_there();
        if (in_state() > kTryFor) return lost_there(loaded.error());
        after(kHomeAgain, [this] { resume_there(); });
      });
}

/// It may have run, and is gone: an older state of it is of no use to those that it spoke with.
void VmMigrate::lost_there(const Error& error) {
  Vm row = vm_;
  row.state = VmState::Failed;
  row.host.reset();
  row.reason = "its copy on '" + migration_.destination.value + "' ended when it was to go on";
  stop_probe();
  finish(to_string(Event::Announced), to_string(State::Done), Outcome::Failed,
         "the VM is lost: " + row.reason + ": " + error.text(),
         std::string(to_string(Code::Internal)), [&](store::Transaction& tx) -> Status {
           if (auto done = tx.put(migration_); !done) return done;
           return put_vm(tx, clock(), row);
         });
}

/// A process that found it committed does not know how long it stood still.
void VmMigrate::keep_file_times(WallTime resumed) {
  FileMove& file = migration_.file;
  migration_.switched = resumed;
  if (!load_ || loaded_at_.count() == 0) return;
  const Microseconds down = resumed - file.stopped;
  migration_.downtime_hypervisor = down;
  migration_.total_time = resumed - file.began;
  if (!file.check) return;
  file.restart = load_->restoring + (resumed - loaded_at_);
  file.trans = std::max(Microseconds{0}, down - *file.check - *file.restart);
  // As it was forecast: written in one, read in the other.
  Round read;
  read.index = 1;
  read.started = file.stopped - file.began + *file.check;
  read.duration = down - *file.check;
  read.sent = file.written;
  migration_.rounds.resize(1);
  migration_.rounds.push_back(read);
}

void VmMigrate::remove_file(int attempt) {
  // Any host can, and one may be silent.
  const HostId& who = attempt % 2 == 1 ? migration_.destination : migration_.source;
  call_host<Status>(
      file_lane(), who,
      [key = key(), name = file_name(), path = migration_.file.path](Driver& driver) {
        return driver.drop_capture(key, name, path);
      },
      [this, attempt](const Status& gone) {
        if (gone) {
          migration_.file.path.clear();
          return verify("");
        }
        if (attempt < 2 * kRemoveTries) {
          return after(kRemoveAgain, [this, attempt] { remove_file(attempt + 1); });
        }
        file_left_ = "; its file " + migration_.file.path + " is left: " + gone.error().text();
        log().warn("engine", operation().id.value + file_left_);
        verify("");
      });
}

}  // namespace mare::engine
