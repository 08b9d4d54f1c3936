// Files of moves that ended when no host could remove them.
#include <algorithm>

#include "orchestrator/engine/checkpoint_keeper.h"

namespace mare::engine {
namespace {

struct LeftFile {
  Migration move;
  VmKey key;
};

/// Is that file all there may be of a VM that a person has to decide about? Then it stays, until
/// the VM runs again, or is another one or none.
bool may_be_wanted(const Operation& operation, const Result<Vm>& vm) {
  if (operation.outcome != Outcome::NeedsOperator || !vm) return false;
  return vm->started < operation.ended && vm->state != VmState::Running;
}

Result<std::vector<LeftFile>> left_files(const store::Reader& reader) {
  auto moves = reader.migrations_with_files();
  if (!moves) return moves.error();
  std::vector<LeftFile> out;
  for (auto& move : *moves) {
    auto operation = reader.operation(move.id);
    if (operation && !operation->finished()) continue;
    auto vm = reader.vm(move.vm);
    if (!vm && vm.error().code != Code::NotFound) return vm.error();
    if (operation && may_be_wanted(*operation, vm)) continue;
    LeftFile left{std::move(move), {}};
    left.key = {left.move.vm, vm ? vm->uuid : ""};
    out.push_back(std::move(left));
  }
  return out;
}

}  // namespace

void CheckpointKeeper::remove_move_files(const std::vector<Host>& hosts) {
  auto files = query<std::vector<LeftFile>>(context_.ports.store, left_files);
  if (!files) return;
  for (const auto& [move, key] : *files) {
    // The host that wrote it may still hold the VM for it; else any other will do.
    const Host* who = nullptr;
    for (const auto& host : hosts) {
      if (host.health != HostHealth::Up) continue;
      if (host.id == move.source) who = &host;
      if (who == nullptr) who = &host;
    }
    if (who == nullptr || !busy_moves_.insert(move.id).second) continue;
    auto driver = context_.ports.drivers.driver(who->id, who->address);
    if (!driver) {
      busy_moves_.erase(move.id);
      continue;
    }
    context_.ports.executor.run(
        "host/" + who->id.value, [this, inbox = context_.inbox, driver = *driver, key = key,
                                  id = move.id, path = move.file.path] {
          const Status gone = driver->drop_capture(key, CheckpointId{id.value}, path);
          inbox->post([this, id, ok = gone.ok()] { move_file_removed(id, ok); });
        });
  }
}

void CheckpointKeeper::move_file_removed(const OperationId& id, bool gone) {
  busy_moves_.erase(id);
  if (!gone) return;
  (void)context_.ports.store.write([&](store::Transaction& tx) -> Status {
    auto row = tx.migration(id);
    if (!row) return row.error();
    row->file.path.clear();
    return tx.put(*row);
  });
}

}  // namespace mare::engine
