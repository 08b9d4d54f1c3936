#include <nlohmann/json.hpp>

#include "orchestrator/core/checksum.h"
#include "orchestrator/store/rows.h"

namespace mare::store {
namespace {
using nlohmann::json;

std::string parts_text(const std::vector<CheckpointPart>& parts) {
  json out = json::array();
  for (const auto& part : parts) {
    out.push_back({{"vm", part.vm.value},
                   {"uuid", part.uuid},
                   {"host", part.host.value},
                   {"path", part.path},
                   {"size_bytes", part.size.count},
                   {"checksum", checksum_text(part.checksum)},
                   {"stopped_us", part.stopped.count()},
                   {"resumed_us", part.resumed.count()},
                   {"written_bytes", part.written.count},
                   {"base", part.base.value},
                   {"partner", part.partner.value}});
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// A part that is damaged here has no checksum that its file could have: it is found at a restart.
CheckpointPart part_from(const json& row) {
  CheckpointPart part;
  part.vm = VmId{row.value("vm", "")};
  part.uuid = row.value("uuid", "");
  part.host = HostId{row.value("host", "")};
  part.path = row.value("path", "");
  part.size = Bytes{row.value("size_bytes", std::uint64_t{0})};
  (void)checksum_from(row.value("checksum", ""), part.checksum);
  part.stopped = WallTime{row.value("stopped_us", std::int64_t{0})};
  part.resumed = WallTime{row.value("resumed_us", std::int64_t{0})};
  part.written = Bytes{row.value("written_bytes", std::uint64_t{0})};
  part.base = CheckpointId{row.value("base", "")};
  part.partner = HostId{row.value("partner", "")};
  return part;
}

std::vector<CheckpointPart> parts_from(const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  std::vector<CheckpointPart> out;
  if (!parsed.is_array()) return out;
  for (const auto& row : parsed) {
    if (row.is_object()) out.push_back(part_from(row));
  }
  return out;
}
}  // namespace

Checkpoint read_checkpoint(Statement& row) {
  Checkpoint checkpoint;
  checkpoint.id = CheckpointId{row.text()};
  checkpoint.job = JobId{row.text()};
  checkpoint.operation = OperationId{row.text()};
  // What a newer program calls otherwise is nothing to restart from.
  checkpoint.state = checkpoint_state_from(row.text()).value_or(CheckpointState::Dropping);
  checkpoint.began = WallTime{row.integer()};
  checkpoint.completed = WallTime{row.integer()};
  checkpoint.pause = Microseconds{row.integer()};
  checkpoint.skew = Microseconds{row.integer()};
  checkpoint.size = Bytes{row.natural()};
  checkpoint.parts = parts_from(row.text());
  checkpoint.safe_point = safe_point_from(row.text()).value_or(SafePoint::NotAsked);
  return checkpoint;
}

void bind_row(Statement& to, const Checkpoint& checkpoint) {
  to.bind(checkpoint.id.value).bind(checkpoint.job.value).bind(checkpoint.operation.value);
  to.bind(to_string(checkpoint.state)).bind(checkpoint.began.count());
  to.bind(checkpoint.completed.count()).bind(checkpoint.pause.count());
  to.bind(checkpoint.skew.count()).bind(checkpoint.size.count);
  to.bind(parts_text(checkpoint.parts)).bind(to_string(checkpoint.safe_point));
}

}  // namespace mare::store
