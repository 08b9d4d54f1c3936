#include "orchestrator/engine/checkpoint_keeper.h"

#include <algorithm>

namespace mare::engine {
namespace {

constexpr auto kEvery = std::chrono::seconds{5};

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

}  // namespace

void CheckpointKeeper::beat() {
  struct Rows {
    std::vector<Checkpoint> going;
    std::vector<Host> hosts;
  };
  // A failure here (disk full) is tried again at the next beat.
  (void)retire_useless();
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
  }
  context_.after(kEvery, [this] { beat(); });
}

Status CheckpointKeeper::retire_useless() {
  auto useless = query<std::vector<Checkpoint>>(
      context_.ports.store, [](const store::Reader& r) -> Result<std::vector<Checkpoint>> {
        auto all = r.checkpoints_in(CheckpointState::Complete);
        if (!all) return all.error();
        std::vector<Checkpoint> out;
        for (auto& one : *all) {
          auto verdict = is_useless(r, one.job);
          auto held = r.unfinished("checkpoint", one.job.value);
          if (!held) return held.error();
          if (verdict && *verdict && !*held) out.push_back(std::move(one));
        }
        return out;
      });
  if (!useless) return useless.error();
  if (useless->empty()) return ok_status();
  return context_.ports.store.write([&](store::Transaction& tx) -> Status {
    for (auto& one : *useless) {
      // A restart may have been asked for since.
      auto held = tx.unfinished("checkpoint", one.job.value);
      if (!held) return held.error();
      if (*held) continue;
      one.state = CheckpointState::Dropping;
      if (auto done = put_checkpoint(tx, context_.ports.clock, one); !done) return done;
    }
    return ok_status();
  });
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
