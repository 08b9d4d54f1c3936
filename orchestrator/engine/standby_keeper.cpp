#include "orchestrator/engine/standby_keeper.h"

#include <algorithm>

#include "orchestrator/engine/plan.h"
#include "orchestrator/policy/partners.h"

namespace mare::engine {
namespace {

constexpr auto kStandbyEvery = std::chrono::seconds{1};
// What a host keeps may have given way to VMs since.
constexpr auto kAskAgain = std::chrono::seconds{60};
constexpr auto kAskStandbyAgain = std::chrono::seconds{5};

std::string in_words(const std::vector<std::pair<CheckpointId, CheckpointPart>>& wanted) {
  std::string out;
  for (const auto& [checkpoint, part] : wanted) {
    out += checkpoint.value + "/" + part.vm.value + "/" + part.uuid + " ";
  }
  return out;
}

/// Where a restart is at it everything stays as the rows say.
Result<bool> is_being_restored(const store::Reader& reader, const JobId& job) {
  auto held = reader.unfinished("checkpoint", job.value);
  if (!held) return held.error();
  return *held && (*held)->kind == OperationKind::CheckpointRestore;
}

Result<std::optional<Checkpoint>> newest_of(const store::Reader& reader, const JobId& job) {
  auto all = reader.checkpoints_of(job);
  if (!all) return all.error();
  for (auto& one : *all) {
    if (one.state == CheckpointState::Complete) return std::optional(std::move(one));
  }
  return std::optional<Checkpoint>{};
}

}  // namespace

void StandbyKeeper::beat() {
  // A failure to read (disk full) is tried again at the next beat.
  auto rows = query<Rows>(context_.ports.store, [this](const store::Reader& r) { return look(r); });
  if (rows) {
    forget_outdated(rows->outdated);
    for (const auto& host : rows->hosts) tell(host, rows->wishes[host.id]);
  }
  context_.after(kStandbyEvery, [this] { beat(); });
}

Result<StandbyKeeper::Rows> StandbyKeeper::look(const store::Reader& reader) const {
  Rows out;
  // Then no host can have anything, and none is asked.
  auto any = reader.had_job_with_partners();
  if (!any || !*any) return any ? Result<Rows>(out) : any.error();
  auto hosts = reader.hosts();
  if (!hosts) return hosts.error();
  out.hosts = std::move(*hosts);
  auto jobs = reader.jobs_with_partners();
  if (!jobs) return jobs.error();
  std::set<CheckpointId> wanted;
  for (const auto& job : *jobs) {
    auto newest = newest_of(reader, job.id);
    if (!newest) return newest.error();
    auto restored = is_being_restored(reader, job.id);
    if (!restored) return restored.error();
    if (!*newest || *restored) continue;
    wanted.insert((*newest)->id);
    if (auto done = wish(reader, job, **newest, out); !done) return done.error();
  }
  auto named = reader.checkpoints_with_partners();
  if (!named) return named.error();
  for (auto& one : *named) {
    if (wanted.contains(one.id)) continue;
    auto restored = is_being_restored(reader, one.job);
    if (!restored) return restored.error();
    if (*restored) {
      keep_as_it_is(one, out.wishes);
    } else {
      out.outdated.push_back(std::move(one));
    }
  }
  return out;
}

Status StandbyKeeper::wish(const store::Reader& reader, const Job& job, const Checkpoint& newest,
                           Rows& out) const {
  std::vector<policy::PartnerSought> sought;
  std::vector<const CheckpointPart*> parts;
  for (const auto& part : newest.parts) {
    auto vm = reader.vm(part.vm);
    if (!vm && vm.error().code != Code::NotFound) return vm.error();
    // Another incarnation has nothing of this checkpoint's.
    if (!vm || vm->uuid != part.uuid) continue;
    sought.push_back({vm->host, part.partner, vm->memory});
    parts.push_back(&part);
  }
  auto pool = reader.pool(job.pool);
  if (!pool) return pool.error();
  auto rooms = rooms_now(reader, pool->hosts, {});
  if (!rooms) return rooms.error();
  std::erase_if(*rooms, [this](const policy::Room& room) { return unable_.contains(room.host); });
  const auto hosts = policy::choose_partners(*rooms, sought);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!hosts[i].value.empty()) out.wishes[hosts[i]].emplace_back(newest.id, *parts[i]);
  }
  return ok_status();
}

void StandbyKeeper::keep_as_it_is(const Checkpoint& checkpoint, Wishes& to) {
  for (const auto& part : checkpoint.parts) {
    if (!part.partner.value.empty()) to[part.partner].emplace_back(checkpoint.id, part);
  }
}

/// First the rows, then the hosts: a row never names a host that was told to forget.
void StandbyKeeper::forget_outdated(const std::vector<Checkpoint>& outdated) {
  for (const auto& one : outdated) {
    (void)context_.ports.store.write([&](store::Transaction& tx) -> Status {
      auto row = tx.checkpoint(one.id);
      if (!row) return row.error();
      for (auto& part : row->parts) part.partner = {};
      return put_checkpoint(tx, context_.ports.clock, *row);
    });
  }
}

void StandbyKeeper::tell(const Host& host, const std::vector<Wanted>& wanted) {
  if (host.health != HostHealth::Up) {
    // It may have been started anew when it is up again: it is told everything then.
    told_.erase(host.id);
    unable_.erase(host.id);
    return;
  }
  const MonotonicTime now = context_.ports.clock.now();
  const std::string words = in_words(wanted);
  const auto known = told_.find(host.id);
  if (known != told_.end()) {
    const auto& [what, when, good] = known->second;
    const bool quiet = good && wanted.empty();
    if (what == words && (quiet || now - when < (good ? kAskAgain : kAskStandbyAgain))) return;
  }
  if (wanted.empty() && unable_.contains(host.id)) return;
  auto driver = context_.ports.drivers.driver(host.id, host.address);
  if (!driver || !busy_.insert(host.id).second) return;
  std::vector<CheckpointPart> parts;
  for (const auto& [checkpoint, part] : wanted) {
    parts.push_back(part);
    parts.back().partner = host.id;
  }
  context_.ports.executor.run(
      "standby/" + host.id.value,
      [this, inbox = context_.inbox, driver = *driver, host = host.id, wanted, parts] {
        auto answer = driver->keep_standby(parts);
        inbox->post([this, host, wanted, answer] { answered(host, wanted, answer); });
      });
}

void StandbyKeeper::answered(const HostId& host, const std::vector<Wanted>& wanted,
                             const Result<std::vector<StandbyAnswer>>& answer) {
  busy_.erase(host);
  const bool counts = answer && answer->size() == wanted.size();
  told_[host] = {in_words(wanted), context_.ports.clock.now(), counts};
  if (!answer && answer.error().code == Code::Unsupported) unable_.insert(host);
  if (!counts) return;
  for (std::size_t i = 0; i < wanted.size(); ++i) note(host, wanted[i], answer->at(i));
}

void StandbyKeeper::note(const HostId& host, const Wanted& wanted, const StandbyAnswer& answer) {
  const auto& [id, part] = wanted;
  if (!answer.kept) {
    context_.ports.log.warn("checkpoints", "host '" + host.value + "' does not keep " + id.value +
                                               " of VM '" + part.vm.value +
                                               "' in its memory: " + answer.why_not);
  }
  bool changed = false;
  (void)context_.ports.store.write([&, &id = id, &part = part](store::Transaction& tx) -> Status {
    auto row = tx.checkpoint(id);
    if (!row) return row.error();
    for (auto& mine : row->parts) {
      if (mine.vm != part.vm || row->state != CheckpointState::Complete) continue;
      const bool is_named = mine.partner == host;
      if (is_named == answer.kept) continue;
      mine.partner = answer.kept ? host : HostId{};
      changed = true;
    }
    return changed ? put_checkpoint(tx, context_.ports.clock, *row) : ok_status();
  });
  if (changed) context_.changed();
}

}  // namespace mare::engine
