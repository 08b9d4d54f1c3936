#include "orchestrator/engine/checkpoint_keeper.h"

#include <algorithm>

#include "orchestrator/engine/plan.h"
#include "orchestrator/policy/checkpoint_retention.h"

namespace mare::engine {
namespace {

constexpr auto kEvery = std::chrono::seconds{5};
constexpr auto kMergeAgain = std::chrono::minutes{5};

bool lies_there(const Checkpoint& one) {
  return one.state == CheckpointState::Complete || one.state == CheckpointState::Needed;
}

Result<std::set<JobId>> jobs_with_checkpoints(const store::Store& store) {
  return query<std::set<JobId>>(store, [](const store::Reader& r) -> Result<std::set<JobId>> {
    std::set<JobId> out;
    for (const auto state : {CheckpointState::Complete, CheckpointState::Needed}) {
      auto all = r.checkpoints_in(state);
      if (!all) return all.error();
      for (const auto& one : *all) out.insert(one.job);
    }
    return out;
  });
}

/// The host that wrote it, or any other that answers: all see the same files.
const Host* who_removes(const CheckpointPart& part, const std::vector<Host>& hosts) {
  const Host* any = nullptr;
  for (const auto& host : hosts) {
    if (host.health != HostHealth::Up) continue;
    if (host.id == part.host) return &host;
    if (any == nullptr) any = &host;
  }
  return any;
}

/// Nobody will ever want to restart that job.
Result<bool> is_useless(const store::Reader& reader, const JobId& id) {
  auto job = reader.job(id);
  if (!job) return job.error();
  if (job->state == JobState::Succeeded || job->state == JobState::Cancelled) return true;
  auto pool = reader.pool(job->pool);
  if (pool) return false;
  if (pool.error().code == Code::NotFound) return true;
  return pool.error();
}

/// Before a transaction is begun for it.
Result<bool> has_some_to_retire(const store::Reader& reader, const JobId& id, WallTime now) {
  auto held = reader.unfinished("checkpoint", id.value);
  if (!held) return held.error();
  if (*held) return false;
  auto useless = is_useless(reader, id);
  if (!useless || *useless) return useless;
  auto job = reader.job(id);
  if (!job) return job.error();
  auto all = reader.checkpoints_of(id);
  if (!all) return all.error();
  return !policy::retire(*all, job->checkpoints, now).empty();
}

}  // namespace

void CheckpointKeeper::beat() {
  struct Rows {
    std::vector<Checkpoint> going;
    std::vector<Host> hosts;
  };
  // A failure here (disk full) is tried again at the next beat.
  (void)retire();
  auto rows = query<Rows>(context_.ports.store, [](const store::Reader& r) -> Result<Rows> {
    auto going = r.checkpoints_in(CheckpointState::Dropping);
    if (!going) return going.error();
    Rows out;
    for (auto& one : *going) {
      // Its operation removes it itself, as long as it can.
      auto operation = r.operation(one.operation);
      if (operation && !operation->finished()) continue;
      out.going.push_back(std::move(one));
    }
    auto hosts = r.hosts();
    if (!hosts) return hosts.error();
    out.hosts = std::move(*hosts);
    return out;
  });
  if (rows) {
    for (const auto& checkpoint : rows->going) remove(checkpoint, rows->hosts);
    merge(rows->hosts);
    remove_move_files(rows->hosts);
  }
  context_.after(kEvery, [this] { beat(); });
}

Status CheckpointKeeper::retire() {
  auto jobs = jobs_with_checkpoints(context_.ports.store);
  if (!jobs) return jobs.error();
  for (const auto& id : *jobs) {
    // Who merges one would make its file anew after it was removed.
    if (merging_ && merging_of_ == id) continue;
    auto due = query<bool>(context_.ports.store, [&](const store::Reader& r) {
      return has_some_to_retire(r, id, context_.ports.clock.wall_now());
    });
    if (!due || !*due) continue;
    auto done = context_.ports.store.write(
        [&](store::Transaction& tx) -> Status { return retire_of(tx, id); });
    if (!done) return done;
  }
  return ok_status();
}

Status CheckpointKeeper::retire_of(store::Transaction& tx, const JobId& id) const {
  // A restart may have been asked for since.
  auto held = tx.unfinished("checkpoint", id.value);
  if (!held) return held.error();
  if (*held) return ok_status();
  auto useless = is_useless(tx, id);
  if (!useless) return useless.error();
  auto job = tx.job(id);
  if (!job) return job.error();
  if (!*useless) return retire_checkpoints(tx, context_.ports.clock, *job);
  auto all = tx.checkpoints_of(id);
  if (!all) return all.error();
  for (auto& one : *all) {
    if (!lies_there(one)) continue;
    one.state = CheckpointState::Dropping;
    if (auto done = put_checkpoint(tx, context_.ports.clock, one); !done) return done;
  }
  return ok_status();
}

// --- Merging. No row says that it is being done: at any time the file is a whole part with the
// same state, and asking twice is as good as once.

void CheckpointKeeper::merge(const std::vector<Host>& hosts) {
  if (merging_) return;
  auto jobs = jobs_with_checkpoints(context_.ports.store);
  if (!jobs) return;
  for (const auto& id : *jobs) {
    auto found = query<std::optional<Checkpoint>>(
        context_.ports.store, [&](const store::Reader& r) -> Result<std::optional<Checkpoint>> {
          auto job = r.job(id);
          if (!job) return job.error();
          auto held = r.unfinished("checkpoint", id.value);
          if (!held) return held.error();
          if (*held || is_final(job->state)) return std::optional<Checkpoint>{};
          auto all = r.checkpoints_of(id);
          if (!all) return all.error();
          return policy::worth_merging(*all, job->checkpoints);
        });
    if (!found || !*found) continue;
    const auto wait = merge_not_before_.find((*found)->id);
    if (wait != merge_not_before_.end() && context_.ports.clock.now() < wait->second) continue;
    return merge_parts(**found, hosts);
  }
}

void CheckpointKeeper::merge_parts(const Checkpoint& checkpoint, const std::vector<Host>& hosts) {
  std::vector<std::shared_ptr<Driver>> drivers;
  for (const auto& part : checkpoint.parts) {
    const Host* host = who_removes(part, hosts);
    if (host == nullptr) return;
    auto driver = context_.ports.drivers.driver(host->id, host->address);
    if (!driver) return;
    drivers.push_back(*driver);
  }
  merging_ = checkpoint.id;
  merging_of_ = checkpoint.job;
  struct Answers {
    std::vector<Result<Bytes>> all;
    std::size_t left = 0;
  };
  auto answers = std::make_shared<Answers>();
  answers->left = drivers.size();
  answers->all.assign(drivers.size(), make_error(Code::Internal, "it was not asked"));
  for (std::size_t i = 0; i < drivers.size(); ++i) {
    context_.ports.executor.run(
        "merge", [this, inbox = context_.inbox, driver = drivers[i], part = checkpoint.parts[i], i,
                  answers, id = checkpoint.id, compress = context_.settings.compress_checkpoints] {
          const auto written = driver->merge_capture(part, compress);
          inbox->post([this, answers, i, written, id] {
            answers->all[i] = written;
            if (--answers->left == 0) merged(id, answers->all);
          });
        });
  }
}

void CheckpointKeeper::merged(const CheckpointId& id, const std::vector<Result<Bytes>>& answers) {
  merging_.reset();
  for (const auto& answer : answers) {
    if (answer) continue;
    merge_not_before_[id] = context_.ports.clock.now() + kMergeAgain;
    context_.ports.log.warn("checkpoints", id.value + " could not be made full, the next one of " +
                                               merging_of_.value +
                                               " will be: " + answer.error().text());
    return;
  }
  merge_not_before_.erase(id);
  (void)context_.ports.store.write([&](store::Transaction& tx) -> Status {
    auto row = tx.checkpoint(id);
    if (!row) return row.error();
    for (std::size_t i = 0; i < answers.size() && i < row->parts.size(); ++i) {
      row->parts[i].base = {};
      row->parts[i].written = *answers[i];
    }
    return put_checkpoint(tx, context_.ports.clock, *row);
  });
  context_.changed();
}

void CheckpointKeeper::remove(const Checkpoint& checkpoint, const std::vector<Host>& hosts) {
  if (!busy_.insert(checkpoint.id).second) return;
  if (checkpoint.parts.empty()) return removed(checkpoint.id, true);
  struct Count {
    std::size_t left = 0;
    bool all = true;
  };
  auto count = std::make_shared<Count>();
  count->left = checkpoint.parts.size();
  const auto told = [this, count, id = checkpoint.id](bool gone) {
    count->all = count->all && gone;
    if (--count->left == 0) removed(id, count->all);
  };
  for (const auto& part : checkpoint.parts) {
    const Host* host = who_removes(part, hosts);
    auto driver = host != nullptr ? context_.ports.drivers.driver(host->id, host->address)
                                  : make_error(Code::Unavailable, "no host answers");
    if (!driver) {
      told(false);
      continue;
    }
    context_.ports.executor.run("host/" + host->id.value, [inbox = context_.inbox, driver = *driver,
                                                           part, id = checkpoint.id, told] {
      const Status gone = driver->drop_capture({part.vm, part.uuid}, id, part.path);
      inbox->post([told, ok = gone.ok()] { told(ok); });
    });
  }
}

void CheckpointKeeper::removed(const CheckpointId& id, bool all) {
  busy_.erase(id);
  if (!all) return;
  (void)context_.ports.store.write([&](store::Transaction& tx) { return tx.erase(id); });
  context_.changed();
}

}  // namespace mare::engine
