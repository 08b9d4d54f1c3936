#include "rest/wire/checkpoints.h"

#include "orchestrator/core/checksum.h"
#include "rest/wire/time.h"

namespace mare::wire {
namespace {

template <typename Tag>
Json id_or_null(const Id<Tag>& id) {
  return id.value.empty() ? Json(nullptr) : Json(id.value);
}

}  // namespace

Json to_json(const Checkpoint& checkpoint) {
  Json parts = Json::array();
  for (const auto& part : checkpoint.parts) {
    parts.push_back(
        Json{{"vm", part.vm.value},
             {"host", part.host.value},
             {"path", part.path},
             {"size_bytes", part.size.count},
             {"written_bytes", (part.written.count > 0 ? part.written : part.size).count},
             {"base", id_or_null(part.base)},
             {"partner", id_or_null(part.partner)},
             {"checksum", checksum_text(part.checksum)},
             {"stopped", time_json(part.stopped)},
             {"resumed", time_json(part.resumed)}});
  }
  return Json{{"id", checkpoint.id.value},
              {"job", checkpoint.job.value},
              {"operation", checkpoint.operation.value},
              {"state", to_string(checkpoint.state)},
              {"began", time_json(checkpoint.began)},
              {"completed", time_json(checkpoint.completed)},
              {"pause_ms", to_ms(checkpoint.pause)},
              {"skew_ms", to_ms(checkpoint.skew)},
              {"size_bytes", checkpoint.size.count},
              {"safe_point", to_string(checkpoint.safe_point)},
              {"written_bytes", written_by(checkpoint).count},
              {"base", id_or_null(base_of(checkpoint))},
              {"in_memory", parts_in_memory(checkpoint)},
              {"parts", parts}};
}

}  // namespace mare::wire
