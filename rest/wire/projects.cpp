#include "rest/wire/projects.h"

namespace mare::wire {
namespace {

constexpr double kMost = 1'000'000;
constexpr double kMostProjectMib = 1024.0 * 1024 * 1024;  // 1 PiB

template <typename T>
Json names(const std::vector<T>& ids) {
  Json out = Json::array();
  for (const auto& id : ids) out.push_back(id.value);
  return out;
}

Json limits(const std::optional<int>& vms, const std::optional<Bytes>& memory,
            const std::optional<int>& hosts) {
  return Json{{"vms", vms ? Json(*vms) : Json(nullptr)},
              {"memory_mib", memory ? mib_json(*memory) : Json(nullptr)},
              {"hosts", hosts ? Json(*hosts) : Json(nullptr)}};
}

}  // namespace

Json to_json(const QuotaBody& body) {
  return limits(body.vms, body.memory, body.hosts);
}

Json to_json(const ProjectRecord& project) {
  const Quota& quota = project.quota;
  return Json{{"id", quota.project.value},
              {"pools", names(project.pools)},
              {"vms", project.vms},
              {"memory_mib", mib_json(project.memory)},
              {"hosts", names(project.hosts)},
              {"quota", limits(quota.vms, quota.memory, quota.hosts)}};
}

void read(const Json& json, QuotaBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Strict, faults);
  if (auto vms = from.whole("vms", false, {0, kMost})) body.vms = static_cast<int>(*vms);
  if (auto mib = from.whole("memory_mib", false, {0, kMostProjectMib})) {
    body.memory = mebibytes(static_cast<std::uint64_t>(*mib));
  }
  if (auto hosts = from.whole("hosts", false, {0, kMost})) body.hosts = static_cast<int>(*hosts);
  from.finish();
}

}  // namespace mare::wire
