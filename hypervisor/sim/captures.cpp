// Checkpoints: a guest's state goes into a file, with what its jobs had done until then. From the
// files of all ranks of a job the job is put together again, if they are of one cut.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "hypervisor/sim/world.h"
#include "orchestrator/core/checksum.h"

namespace mare::sim {

Capture* World::find_capture(const HostId& host, const VmId& vm) {
  SimHost* where = find_host(host);
  if (where == nullptr) return nullptr;
  const auto found = where->captures.find(vm);
  return found != where->captures.end() && found->second.active() ? &found->second : nullptr;
}

Capture* World::capture_of(const HostId& host, const VmId& vm, std::uint64_t serial) {
  Capture* capture = find_capture(host, vm);
  return capture != nullptr && capture->serial == serial ? capture : nullptr;
}

void World::later_to(const HostId& host, const Capture& capture, double after_s,
                     std::function<void(Capture&)> what) {
  at(now + nanoseconds_up(after_s),
     [this, host, vm = capture.ticket.vm.id, serial = capture.serial, what = std::move(what)] {
       if (Capture* mine = capture_of(host, vm, serial)) what(*mine);
     });
}

Capture& World::prepare_capture(const HostId& host, const CaptureTicket& ticket) {
  const VmId vm = ticket.vm.id;
  Capture& capture = hosts.at(host).captures[vm];
  capture = Capture{};
  capture.serial = ++last_serial_;
  capture.ticket = ticket;
  capture.ready = now + capturing.prepare;
  capture.status.checkpoint = ticket.checkpoint;
  capture.status.phase = CapturePhase::Ready;
  PartFile file;
  file.checkpoint = ticket.checkpoint;
  file.size = file.written = find_copy(host, vm)->guest->spec.memory;
  file.leaves = ticket.leaves;
  if (ticket.base) capture.status.full_because = why_not_on(*ticket.base);
  if (ticket.base && capture.status.full_because.empty()) {
    file.base = ticket.base->path;
    file.base_checksum = ticket.base->checksum;
  }
  parts[ticket.path] = std::move(file);
  later_to(host, capture, std::chrono::duration<double>(ticket.hold_limit).count(),
           [this, host](Capture& mine) {
             if (!mine.held) fail_capture(host, mine, "nobody began it in time");
           });
  return capture;
}

void World::begin_capture(const HostId& host, Capture& capture) {
  const CaptureTicket& ticket = capture.ticket;
  // Another host was told to remove it meanwhile: this begin comes late.
  if (!parts.contains(ticket.path)) return fail_capture(host, capture, "its file is gone");
  capture.held = true;
  capture.status.phase = CapturePhase::Holding;
  capture.status.stopped = wall(now);
  change_copy(host, ticket.vm.id, Copy::Paused);
  PartFile& file = parts.at(ticket.path);
  file.begun = now;
  if (const auto base = parts.find(file.base); base != parts.end()) {
    const Guest& guest = *find_copy(host, ticket.vm)->guest;
    const double since_s = seconds(now - base->second.begun);
    const double dirtied = std::min({guest.model.dirty_bytes_per_s * since_s,
                                     static_cast<double>(guest.model.wws.count),
                                     static_cast<double>(file.size.count)});
    file.written = Bytes{static_cast<std::uint64_t>(dirtied)};
  }
  const double writing_s = static_cast<double>(file.written.count) / capturing.bandwidth.value;
  const double ready_s = std::max(0.0, seconds(capture.ready - now));
  const double taking_s =
      ready_s +
      (capturing.copy_on_write ? std::chrono::duration<double>(capturing.take).count() : writing_s);
  later_to(host, capture, taking_s, [this, host](Capture& mine) { take_state(host, mine); });
  later_to(host, capture, std::max(taking_s, writing_s),
           [this, host](Capture& mine) { state_is_written(host, mine); });
  later_to(host, capture, std::chrono::duration<double>(ticket.hold_limit).count(),
           [this, host](Capture& mine) {
             const bool alone = mine.waits_to_leave() && !find_copy(host, mine.ticket.vm);
             if (mine.released || alone) return;
             fail_capture(host, mine, "nobody released it in time");
           });
  if (faults.capture_fails > 0 && rng.chance(faults.capture_fails)) {
    later_to(host, capture, writing_s * rng.unit(),
             [this, host](Capture& mine) { fail_capture(host, mine, "simulated failure"); });
  }
  if (capturing.disk_is_full) {
    later_to(host, capture, writing_s / 2, [this, host](Capture& mine) {
      fail_capture(host, mine, "no space left on the store");
    });
  }
}

bool World::is_whole(const std::string& path, bool checked) const {
  auto file = parts.find(path);
  for (std::size_t step = 0; step <= parts.size(); ++step) {
    if (file == parts.end() || !file->second.whole) return false;
    const auto& [base, checksum] = std::tie(file->second.base, file->second.base_checksum);
    if (base.empty()) return true;
    file = parts.find(base);
    if (checked && file != parts.end() && file->second.checksum != checksum) return false;
  }
  return false;
}

std::string World::why_not_on(const CaptureBase& base) const {
  if (!is_whole(base.path)) return base.path + " is gone or not whole";
  const PartFile& file = parts.at(base.path);
  const bool same = file.size == base.size && file.checksum == base.checksum;
  return same ? std::string{} : base.path + " is not what was kept of it";
}

void World::take_state(const HostId& host, Capture& capture) {
  const LocalCopy* copy = find_copy(host, capture.ticket.vm);
  const auto file = parts.find(capture.ticket.path);
  if (copy == nullptr || file == parts.end()) return;
  file->second.snapshot = *copy->guest;
  capture.status.phase = CapturePhase::Taken;
  if (capture.ticket.leaves) {
    file->second.guest = copy->guest;
    return;
  }
  for (auto& [directory, run] : runs) {
    settle(run);
    if (std::find(run.ranks.begin(), run.ranks.end(), copy->guest) == run.ranks.end()) continue;
    Run stopped = run;
    // Its rate of this moment is not what it will have.
    stopped.progress.value = std::min(run.progress.at(now), run.work_s);
    stopped.progress.rate = 0;
    file->second.runs[directory] = std::move(stopped);
  }
}

void World::state_is_written(const HostId& host, Capture& capture) {
  const auto file = parts.find(capture.ticket.path);
  if (file == parts.end()) return fail_capture(host, capture, "its file is gone");
  Checksum sum;
  sum.add(file->second.snapshot.spec.uuid + capture.ticket.checkpoint.value);
  file->second.checksum = sum.value();
  capture.written = true;
  if (capture.released || capture.ticket.leaves) make_durable(capture);
}

void World::make_durable(Capture& capture) {
  PartFile& file = parts.at(capture.ticket.path);
  file.whole = true;
  capture.status.size = file.size;
  capture.status.checksum = file.checksum;
  capture.status.written = file.written;
  capture.status.incremental = !file.base.empty();
  capture.status.durable = wall(now);
  capture.status.phase = CapturePhase::Durable;
}

void World::release_capture(const HostId& host, Capture& capture) {
  if (capture.waits_to_leave()) {
    capture.released = true;
    capture.status.resumed = wall(now);
    const VmKey vm = capture.ticket.vm;
    copy_goes(host, vm.id);
    if (find_copy(host, vm) != nullptr) remove_copy(host, vm.id, EndCause::Destroyed, true);
    return;
  }
  if (!capture.released) {
    capture.released = true;
    capture.status.resumed = wall(now);
    change_copy(host, capture.ticket.vm.id, Copy::Running);
  }
  if (capture.status.phase == CapturePhase::Taken && capture.written) make_durable(capture);
}

void World::fail_capture(const HostId& host, Capture& capture, const std::string& why) {
  capture.status.phase = CapturePhase::Failed;
  capture.status.error = "VM " + capture.ticket.vm.id.value + " was not captured: " + why;
  remove_part(capture.ticket.path);
  const LocalCopy* copy = find_copy(host, capture.ticket.vm);
  if (!capture.held || capture.released || copy == nullptr || copy->copy != Copy::Paused) return;
  capture.status.resumed = wall(now);
  change_copy(host, capture.ticket.vm.id, Copy::Running);
}

void World::remove_part(const std::string& path) {
  const auto file = parts.find(path);
  if (file == parts.end()) return;
  const std::shared_ptr<Guest> guest = file->second.guest;
  parts.erase(file);
  if (guest == nullptr || !guest->saved) return;
  lose(guest, guest->left, guest->left_by);
  refresh_runs();
}

bool World::is_in_a_part(const Guest& guest) const {
  return std::any_of(parts.begin(), parts.end(), [&](const auto& entry) {
    return entry.second.guest.get() == &guest && entry.second.whole;
  });
}

void World::outlive_parts(const Guest& guest) {
  for (auto& [path, part] : parts) {
    if (part.guest.get() == &guest) part.guest.reset();
  }
}

// --- in memory as well

bool World::is_what_it_says(const CheckpointPart& part) const {
  const auto file = parts.find(part.path);
  return file != parts.end() && is_whole(part.path) && file->second.size == part.size &&
         file->second.checksum == part.checksum;
}

Bytes World::standby_memory(const SimHost& host) {
  Bytes sum;
  for (const auto& [vm, standby] : host.standbys) sum = sum + standby.size;
  return sum;
}

std::vector<StandbyAnswer> World::keep_standby(SimHost& host,
                                               const std::vector<CheckpointPart>& wanted) {
  std::erase_if(host.standbys, [&](const auto& entry) {
    return std::none_of(wanted.begin(), wanted.end(), [&](const CheckpointPart& part) {
      return part.vm == entry.first && entry.second.is_of(part) && is_what_it_says(part);
    });
  });
  std::vector<StandbyAnswer> answers;
  for (const auto& part : wanted) answers.push_back(keep(host, part));
  return answers;
}

StandbyAnswer World::keep(SimHost& host, const CheckpointPart& part) {
  StandbyAnswer answer;
  answer.vm = part.vm;
  const auto known = host.standbys.find(part.vm);
  const bool is_there = known != host.standbys.end() && known->second.is_of(part);
  const Bytes room = free_memory(host) - standby_memory(host);
  if (!is_what_it_says(part)) {
    answer.why_not = part.path + " is gone or damaged, or one that it is built on is";
  } else if (!is_there && known != host.standbys.end()) {
    answer.why_not = "another part of VM " + part.vm.value + " is kept: " + known->second.path;
  } else if (!is_there && room < part.size) {
    answer.why_not = "no room: of the host's memory " + mib_text(room) + " are free, " + part.path +
                     " takes " + mib_text(part.size);
  } else {
    host.standbys[part.vm] = {part.path, part.checksum, part.size};
    answer.kept = true;
    answer.memory = part.size;
  }
  return answer;
}

void World::give_way(SimHost& host, const VmId& to) {
  while (!host.standbys.empty() && free_memory(host) < standby_memory(host)) {
    auto going = host.standbys.begin();
    if (going->first == to && host.standbys.size() > 1) ++going;
    host.standbys.erase(going);
  }
}

// --- back again

void World::load_part(const HostId& host, const PartFile& file) {
  if (file.leaves) {
    const std::string& name = file.snapshot.spec.id.value;
    if (file.guest == nullptr) {
      violate("VM " + name + " is loaded from where it stood before it went on");
      return;
    }
    if (!file.guest->saved) violate("VM " + name + " is loaded beside its former copy");
    check_no_other(host, file.snapshot.spec.id);
    file.guest->saved = false;
    put_copy(host, file.guest, Copy::Paused);
    hosts.at(host).copies.at(file.snapshot.spec.id).loaded = file.checkpoint;
    return;
  }
  auto guest = std::make_shared<Guest>(file.snapshot);
  guest->whole = 0;
  guest->saved = guest->gone = guest->powering_off = false;
  guest->pace = 1;
  guest->uptime.since = guest->work.since = now;
  guest->uptime.rate = guest->work.rate = 0;
  guest->stopped = now;
  check_no_other(host, guest->spec.id);
  put_copy(host, guest, Copy::Paused);
  hosts.at(host).copies.at(guest->spec.id).loaded = file.checkpoint;
  loaded[file.checkpoint][guest->spec.id] = guest;
  reunite(file.checkpoint, file);
}

/// Jobs whose ranks are all there again go on from the cut.
void World::reunite(const CheckpointId& checkpoint, const PartFile& file) {
  const auto& there = loaded.at(checkpoint);
  for (const auto& [directory, stopped] : file.runs) {
    Run again = stopped;
    const bool all = std::all_of(again.ranks.begin(), again.ranks.end(), [&](auto& rank) {
      const auto found = there.find(rank->spec.id);
      if (found == there.end()) return false;
      rank = found->second;
      return true;
    });
    if (!all) continue;
    const auto launcher = there.find(again.launcher->spec.id);
    if (launcher == there.end()) continue;
    again.launcher = launcher->second;
    for (const auto& [path, part] : parts) {
      const auto same = part.runs.find(directory);
      if (part.checkpoint != checkpoint || same == part.runs.end()) continue;
      if (same->second.progress.value != again.progress.value) {
        violate(checkpoint.value + " is not one cut through the job in " + directory);
      }
    }
    again.progress.since = now;
    runs[directory] = std::move(again);
  }
  refresh_runs();
}

bool World::holds_all(const CheckpointId& checkpoint, const Run& stopped) const {
  return std::all_of(stopped.ranks.begin(), stopped.ranks.end(), [&](const auto& rank) {
    return std::any_of(parts.begin(), parts.end(), [&](const auto& entry) {
      return entry.second.checkpoint == checkpoint &&
             entry.second.snapshot.spec.id == rank->spec.id;
    });
  });
}

void World::leave_loaded(const LocalCopy& copy) {
  const auto waiting = loaded.find(copy.loaded);
  if (waiting == loaded.end() || waiting->second.erase(copy.guest->spec.id) == 0) return;
  for (const auto& [path, part] : parts) {
    if (part.checkpoint != copy.loaded) continue;
    for (const auto& [directory, stopped] : part.runs) {
      // What a job that had ended left behind: a rank of it was dead by then, nothing goes on.
      if (!holds_all(copy.loaded, stopped)) continue;
      const Run& run = runs.at(directory);
      const bool was_rank =
          std::any_of(stopped.ranks.begin(), stopped.ranks.end(),
                      [&](const auto& rank) { return rank->spec.id == copy.guest->spec.id; });
      const bool is_rank =
          std::find(run.ranks.begin(), run.ranks.end(), copy.guest) != run.ranks.end();
      if (was_rank && !is_rank) {
        violate("VM " + copy.guest->spec.id.value + " goes on from " + copy.loaded.value +
                " before the other ranks of its job are there");
      }
    }
  }
}

}  // namespace mare::sim
