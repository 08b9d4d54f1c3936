#include "ui/cli/plan_file.h"

#include <unordered_set>

#include "rest/wire/reader.h"

namespace mare::cli {
namespace {

using wire::Faults;
using wire::Json;
using wire::ObjectReader;
using wire::Strictness;
using wire::TextRule;

constexpr TextRule kName{1, 200};
constexpr double kMostMib = 1e9;  // 1 PiB
constexpr std::size_t kMostTags = 100;

Bytes mib(double count) {
  return Bytes{static_cast<std::uint64_t>(count * 1024 * 1024)};
}

class PlanReader {
 public:
  explicit PlanReader(Faults& faults) : faults_(faults) {}

  PlanFile read(const Json& root) {
    PlanFile out;
    ObjectReader reader(root, "", Strictness::Strict, faults_);
    each(reader, "hosts", true, [&](ObjectReader& one) { host(one, out); });
    each(reader, "vms", true, [&](ObjectReader& one) { vm(one, out); });
    each(reader, "traffic", false, [&](ObjectReader& one) { traffic(one, out); });
    each(reader, "jobs", false, [&](ObjectReader& one) { job(one, out); });
    out.link.value = reader.number("link_bytes_per_s", false).value_or(0);
    if (const Json* given = reader.object("policy", false)) policy(*given, out.policy);
    reader.finish();
    return out;
  }

 private:
  template <typename Read>
  void each(ObjectReader& reader, const std::string& name, bool needed, Read read) {
    const Json* items = reader.array(name, needed);
    if (items == nullptr) return;
    std::size_t index = 0;
    for (const Json& item : *items) {
      ObjectReader one(item, reader.pointer_to(name) + "/" + std::to_string(index++),
                       Strictness::Strict, faults_);
      read(one);
      one.finish();
    }
  }

  std::string new_id(ObjectReader& reader, std::unordered_set<std::string>& known) {
    std::string id = reader.text("id", true, kName).value_or("");
    if (!id.empty() && !known.insert(id).second) reader.fault("id", "'" + id + "' occurs twice");
    return id;
  }
  void known_name(ObjectReader& reader, const std::string& member, const std::string& name,
                  const std::unordered_set<std::string>& known, const char* kind) {
    if (name.empty() || known.contains(name)) return;
    reader.fault(member, "no " + std::string(kind) + " '" + name + "' is in the file");
  }

  void host(ObjectReader& reader, PlanFile& out) {
    policy::ClusterHost one;
    one.id = HostId{new_id(reader, hosts_)};
    one.memory = mib(reader.number("memory_mib", true, {1, kMostMib}).value_or(1));
    one.vm_overhead = mib(reader.number("vm_overhead_mib", false, {0, kMostMib}).value_or(0));
    one.cpus = reader.number("cpus", true, {0.01, 1e6}).value_or(1);
    one.usable = reader.flag("usable", false).value_or(true);
    one.tags = reader.texts("tags", false, kMostTags, kName).value_or(std::vector<std::string>{});
    out.cluster.hosts.push_back(std::move(one));
  }

  void vm(ObjectReader& reader, PlanFile& out) {
    policy::ClusterVm one;
    one.id = VmId{new_id(reader, vms_)};
    one.memory = mib(reader.number("memory_mib", true, {1, kMostMib}).value_or(1));
    one.vcpus = reader.number("vcpus", false, {0, 1e6}).value_or(1);
    const auto at = reader.text("host", false, kName);
    known_name(reader, "host", at.value_or(""), hosts_, "host");
    if (at) one.host = HostId{*at};
    const auto job = reader.text("job", false, kName);
    if (job) one.job = JobId{*job};
    one.needs = reader.texts("needs", false, kMostTags, kName).value_or(std::vector<std::string>{});
    one.affinity = reader.text("affinity", false, kName).value_or("");
    one.anti_affinity = reader.text("anti_affinity", false, kName).value_or("");
    one.locked = reader.flag("locked", false).value_or(false);
    one.cpu_demand = reader.number("cpu_demand", false, {0, 1e6});
    one.cost.added_job_time_s = reader.number("added_job_time_s", false).value_or(0);
    one.cost.bytes = reader.number("move_bytes", false).value_or(0);
    out.cluster.vms.push_back(std::move(one));
  }

  void traffic(ObjectReader& reader, PlanFile& out) {
    const std::string a = reader.text("a", true, kName).value_or("");
    const std::string b = reader.text("b", true, kName).value_or("");
    known_name(reader, "a", a, vms_, "VM");
    known_name(reader, "b", b, vms_, "VM");
    const double rate = reader.number("bytes_per_s", true).value_or(0);
    out.cluster.traffic.push_back({VmId{a}, VmId{b}, rate});
  }

  void job(ObjectReader& reader, PlanFile& out) {
    const std::string id = reader.text("id", true, kName).value_or("");
    out.remaining_s[id] = reader.number("remaining_s", true).value_or(0);
  }

  void policy(const Json& given, policy::PlanPolicy& out) {
    ObjectReader reader(given, "/policy", Strictness::Strict, faults_);
    out.n_plus_one = reader.flag("n_plus_one", false).value_or(out.n_plus_one);
    const auto take = [&reader](const char* name, double& value) {
      value = reader.number(name, false).value_or(value);
    };
    take("max_vcpus_per_cpu", out.max_vcpus_per_cpu);
    take("threshold", out.threshold);
    take("margin", out.margin);
    take("min_gain", out.min_gain);
    take("horizon_s", out.horizon_s);
    out.max_moves =
        static_cast<int>(reader.whole("max_moves", false, {0, 1e6}).value_or(out.max_moves));
    if (const Json* weights = reader.object("weights", false)) {
      ObjectReader one(*weights, "/policy/weights", Strictness::Strict, faults_);
      const auto weight = [&one](const char* name, double& value) {
        value = one.number(name, false).value_or(value);
      };
      weight("memory", out.weights.memory);
      weight("vcpus", out.weights.vcpus);
      weight("demand", out.weights.demand);
      weight("stall", out.weights.stall);
      weight("traffic", out.weights.traffic);
      weight("affinity", out.weights.affinity);
      weight("conflict", out.weights.conflict);
      weight("n_plus_one", out.weights.n_plus_one);
      one.finish();
    }
    reader.finish();
  }

  Faults& faults_;
  std::unordered_set<std::string> hosts_;
  std::unordered_set<std::string> vms_;
};

}  // namespace

Result<PlanFile> read_plan(std::string_view text, const std::string& name) {
  Faults faults;
  const auto root = wire::parse_json(text, faults);
  PlanFile out;
  if (root) out = PlanReader(faults).read(*root);
  if (!faults.empty()) return wire::error_from(faults, "'" + name + "'");
  return out;
}

}  // namespace mare::cli
