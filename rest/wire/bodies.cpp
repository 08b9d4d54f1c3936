#include "rest/wire/bodies.h"

#include <algorithm>
#include <set>

#include "rest/wire/policies.h"

namespace mare::wire {
namespace {

constexpr double kMostMemoryMib = 16.0 * 1024 * 1024;  // 16 TiB, more than any host has
constexpr double kMostInt = 1'000'000;
constexpr std::size_t kMostWords = 4096;

bool is_name(const std::string& text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !text.empty() && text.size() <= 32 && text.front() >= 'a' && text.front() <= 'z' &&
         text.back() != '-' && std::all_of(text.begin(), text.end(), allowed);
}

std::string bad_name(const std::string& text) {
  return "'" + text + "' can't be a name; use 1 to 32 of a-z, 0-9 and '-', beginning with a letter";
}

/// A name becomes a host name, a file name and a part of URLs.
std::string new_name(ObjectReader& from, const std::string& name) {
  auto found = from.text(name, true, {0, 4096});
  if (found && !is_name(*found)) from.fault(name, bad_name(*found));
  return found.value_or("");
}

void read_hosts(ObjectReader& from, std::vector<HostId>& hosts) {
  auto found = from.texts("hosts", false, 1000);
  if (!found) return;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < found->size(); ++i) {
    if (!seen.insert((*found)[i]).second) {
      from.fault("hosts", "host '" + (*found)[i] + "' is named twice; name it once");
    }
    hosts.emplace_back((*found)[i]);
  }
}

void read_environment(ObjectReader& from, std::vector<std::string>& environment) {
  auto found = from.texts("environment", false, kMostWords, {1, 32768});
  if (!found) return;
  for (const auto& variable : *found) {
    const auto equals = variable.find('=');
    if (equals == std::string::npos || equals == 0) {
      from.fault("environment", "'" + variable + "' is no variable; write it as NAME=VALUE");
    }
  }
  environment = std::move(*found);
}

void read_safe_points(ObjectReader& from, CheckpointPlan& plan) {
  plan.safe_points = from.flag("safe_points", false).value_or(plan.safe_points);
  const auto wait = from.number("safe_point_wait_s", false, {0.01, 60});
  if (!wait) return;
  plan.safe_point_wait = Seconds{*wait};
  if (!plan.safe_points) {
    from.fault("safe_point_wait_s",
               "bounds the wait for a safe point; give 'safe_points': true with it");
  }
}

void read_checkpoints(ObjectReader& from, CheckpointPlan& plan) {
  const auto name = from.text("checkpoint_rule", false, {1, 64});
  const auto every = from.number("checkpoint_every_s", false, {1, 30.0 * 86'400});
  if (const auto keep = from.whole("checkpoints_kept", false, {1, 100})) {
    plan.keep = static_cast<int>(*keep);
  }
  read_safe_points(from, plan);
  if (const auto mode = from.text("checkpoint_mode", false, {1, 64})) {
    const auto known = checkpoint_mode_from(*mode);
    if (!known) {
      from.fault("checkpoint_mode", "'" + *mode + "' is no mode; give one of full, incremental");
    }
    plan.mode = known.value_or(plan.mode);
  }
  if (const auto chain = from.whole("checkpoint_chain", false, {1, 100})) {
    plan.chain = static_cast<int>(*chain);
  }
  const auto age = from.number("checkpoints_max_age_s", false, {60, 10 * 365.0 * 86'400});
  if (age) plan.max_age = Seconds{*age};
  plan.partner = from.flag("checkpoint_partner", false).value_or(plan.partner);
  if (every) plan.every = Seconds{*every};
  if (!name) {
    if (every) plan.rule = CheckpointRule::Every;
    return;
  }
  const auto rule = checkpoint_rule_from(*name);
  if (!rule) {
    from.fault("checkpoint_rule", "'" + *name + "' is no rule; give one of never, every, optimal");
  }
  plan.rule = rule.value_or(plan.rule);
  if (every && rule && *rule != CheckpointRule::Every) {
    from.fault("checkpoint_every_s",
               "says how often, the rule '" + *name + "' does not ask; leave one of them out");
  }
  if (!every && rule == CheckpointRule::Every) {
    from.fault("checkpoint_every_s", "is missing; the rule 'every' needs it");
  }
}

void read_timing(ObjectReader& from, Timing& timing) {
  auto name = from.text("moment", false, {1, 64});
  const auto within = from.number("within_s", false, {1, 86'400});
  if (name) {
    const auto moment = moment_from(*name);
    if (!moment)
      from.fault("moment", "'" + *name + "' is no moment; give one of now, trough, safe-point");
    timing.moment = moment.value_or(timing.moment);
  }
  timing.within = within ? Seconds{*within} : usual_wait(timing.moment);
  if (within && timing.moment == Moment::Now) {
    from.fault("within_s",
               "bounds the wait for a moment; give 'moment': 'trough' or 'safe-point' with it");
  }
}

}  // namespace

Json to_json(const HostBody& body) {
  return Json{{"id", body.id.value}, {"address", body.address}};
}

void read(const Json& json, HostBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Strict, faults);
  body.id = HostId{new_name(from, "id")};
  body.address = from.text("address", true, {1, 1024}).value_or("");
  from.finish();
}

Json to_json(const PoolBody& body) {
  Json hosts = Json::array();
  for (const auto& host : body.hosts) hosts.push_back(host.value);
  return Json{{"id", body.id.value},
              {"image", body.image},
              {"size", body.size},
              {"memory_mib", mib_json(body.memory)},
              {"vcpus", body.vcpus},
              {"hosts", hosts},
              {"move_policy", to_json(body.move_policy)},
              {"project", body.project.value}};
}

void read(const Json& json, PoolBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Strict, faults);
  body.id = PoolId{new_name(from, "id")};
  body.image = from.text("image", false, {1, 64}).value_or(body.image);
  body.size = static_cast<int>(from.whole("size", false, {1, kMostInt}).value_or(body.size));
  if (auto mib = from.whole("memory_mib", false, {1, kMostMemoryMib})) {
    body.memory = mebibytes(static_cast<std::uint64_t>(*mib));
  }
  body.vcpus = static_cast<int>(from.whole("vcpus", false, {1, 1024}).value_or(body.vcpus));
  read_hosts(from, body.hosts);
  if (const Json* policy = from.object("move_policy", false)) {
    read(*policy, from.pointer_to("move_policy"), body.move_policy, faults);
  }
  if (auto project = from.text("project", false, {1, 64})) {
    if (!is_name(*project)) from.fault("project", bad_name(*project));
    body.project = ProjectId{*project};
  }
  from.finish();
}

Json to_json(const PoolPatchBody& body) {
  Json out = Json::object();
  if (body.move_policy) out["move_policy"] = to_json(*body.move_policy);
  if (body.size) out["size"] = *body.size;
  if (body.best_effort) out["best_effort"] = true;
  return out;
}

void read(const Json& json, PoolPatchBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Strict, faults);
  if (const Json* policy = from.object("move_policy", false)) {
    read(*policy, from.pointer_to("move_policy"), body.move_policy.emplace(), faults);
  }
  if (auto size = from.whole("size", false, {1, kMostInt})) body.size = static_cast<int>(*size);
  const auto best_effort = from.flag("best_effort", false);
  body.best_effort = best_effort.value_or(false);
  if (body.size && body.move_policy) {
    from.fault("size", "is changed by an operation, a policy at once; send two requests");
  } else if (best_effort && !body.size && faults.empty()) {
    from.fault("best_effort", "says how a size is changed; give 'size' with it");
  } else if (!body.size && !body.move_policy && faults.empty()) {
    faults.push_back({"", "nothing is to be changed; give 'size' or 'move_policy'"});
  }
  from.finish();
}

Json to_json(const VmStartBody& body) {
  return Json{{"host", body.host ? Json(body.host->value) : Json(nullptr)}};
}

void read(const Json& json, VmStartBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Strict, faults);
  if (auto host = from.text("host", false, {1, 64})) body.host = HostId{*host};
  from.finish();
}

Json to_json(const VmStopBody& body) {
  return Json{{"force", body.force}};
}

void read(const Json& json, VmStopBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Strict, faults);
  body.force = from.flag("force", false).value_or(body.force);
  from.finish();
}

Json to_json(const MigrationBody& body) {
  Json out = to_json(body.policy);
  if (body.destination) out["destination"] = body.destination->value;
  out["timeout_s"] = body.timeout.count();
  out["force"] = body.force;
  if (body.timing.moment != Moment::Now) {
    out["moment"] = to_string(body.timing.moment);
    out["within_s"] = body.timing.within.count();
  }
  return out;
}

void read(const Json& json, MigrationBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Strict, faults);
  if (auto host = from.text("destination", false, {1, 64})) body.destination = HostId{*host};
  read(from, body.policy);
  read_timing(from, body.timing);
  if (auto limit = from.number("timeout_s", false, {1, 86'400})) body.timeout = Seconds{*limit};
  body.force = from.flag("force", false).value_or(body.force);
  from.finish();
}

Json to_json(const ReportBody& body) {
  return Json{{"added_job_time_s", body.added_job_time_s}};
}

void read(const Json& json, ReportBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Strict, faults);
  // Below zero by what timing a job varies.
  body.added_job_time_s = from.number("added_job_time_s", true, {-1e6, 1e6}).value_or(0);
  from.finish();
}

Json to_json(const JobBody& body) {
  Json out{{"pool", body.pool.value}};
  if (!body.name.empty()) out["name"] = body.name;
  out["command"] = body.command;
  out["environment"] = body.environment;
  out["ranks"] = body.ranks;
  out["checkpoint_rule"] = to_string(body.checkpoints.rule);
  if (body.checkpoints.rule == CheckpointRule::Every) {
    out["checkpoint_every_s"] = body.checkpoints.every.count();
  }
  out["checkpoints_kept"] = body.checkpoints.keep;
  if (body.checkpoints.safe_points) {
    out["safe_points"] = true;
    out["safe_point_wait_s"] = body.checkpoints.safe_point_wait.count();
  }
  out["checkpoint_mode"] = to_string(body.checkpoints.mode);
  out["checkpoint_chain"] = body.checkpoints.chain;
  if (body.checkpoints.max_age > Seconds{0}) {
    out["checkpoints_max_age_s"] = body.checkpoints.max_age.count();
  }
  if (body.checkpoints.partner) out["checkpoint_partner"] = true;
  if (body.tightness != 1) out["tightness"] = body.tightness;
  return out;
}

void read(const Json& json, JobBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Strict, faults);
  body.pool = PoolId{from.text("pool", true, {1, 64}).value_or("")};
  body.name = from.text("name", false, {1, 64}).value_or("");
  if (auto command = from.texts("command", true, kMostWords, {0, 32768})) {
    if (command->empty() || command->front().empty()) {
      from.fault("command", "names no program; give the program and its arguments");
    }
    body.command = std::move(*command);
  }
  read_environment(from, body.environment);
  body.ranks = static_cast<int>(from.whole("ranks", false, {1, kMostInt}).value_or(body.ranks));
  read_checkpoints(from, body.checkpoints);
  body.tightness = from.number("tightness", false, {0, 1}).value_or(body.tightness);
  from.finish();
}

Json to_json(const RestartBody& body) {
  Json hosts = Json::array();
  for (const auto& host : body.hosts) hosts.push_back(host.value);
  Json out{{"hosts", hosts}};
  if (body.checkpoint) out["checkpoint"] = body.checkpoint->value;
  if (body.eager) out["eager"] = true;
  return out;
}

void read(const Json& json, RestartBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Strict, faults);
  if (auto id = from.text("checkpoint", false, {1, 64})) body.checkpoint = CheckpointId{*id};
  read_hosts(from, body.hosts);
  body.eager = from.flag("eager", false).value_or(body.eager);
  from.finish();
}

Json to_json(const LayoutBody& body) {
  return Json{{"hosts", body.hosts ? Json(*body.hosts) : Json(nullptr)},
              {"remaining_s", body.remaining ? Json(body.remaining->count()) : Json(nullptr)},
              {"force", body.force}};
}

void read(const Json& json, LayoutBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Strict, faults);
  if (auto hosts = from.whole("hosts", false, {1, kMostInt})) body.hosts = static_cast<int>(*hosts);
  if (auto left = from.number("remaining_s", false, {0.001, 1e9})) body.remaining = Seconds{*left};
  body.force = from.flag("force", false).value_or(false);
  from.finish();
}

Json to_json(const EvacuationBody& body) {
  Json out{{"within_s", body.within.count()}};
  if (!body.reason.empty()) out["reason"] = body.reason;
  return out;
}

void read(const Json& json, EvacuationBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Strict, faults);
  if (auto within = from.number("within_s", true, {1, 86'400})) body.within = Seconds{*within};
  body.reason = from.text("reason", false, {0, 1024}).value_or("");
  from.finish();
}

Json to_json(const DrainBody& body) {
  return to_json(body.policy);
}

void read(const Json& json, DrainBody& body, Faults& faults) {
  read(json, "", body.policy, faults);
}

void read(const Json& json, AlertsBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Lenient, faults);
  const Json* alerts = from.array("alerts", true);
  if (alerts == nullptr) return;
  const auto word = [&faults](const Json* of, const std::string& pointer, const char* name) {
    if (of == nullptr) return std::string{};
    return ObjectReader(*of, pointer, Strictness::Lenient, faults)
        .text(name, false, {0, 4096})
        .value_or("");
  };
  for (std::size_t i = 0; i < alerts->size(); ++i) {
    const std::string pointer = "/alerts/" + std::to_string(i);
    ObjectReader alert((*alerts)[i], pointer, Strictness::Lenient, faults);
    const auto status = alert.text("status", false, {0, 64}).value_or("firing");
    const Json* labels = alert.object("labels", true);
    const Json* notes = alert.object("annotations", false);
    const auto host = word(labels, pointer + "/labels", "mare_host");
    std::string says = word(notes, pointer + "/annotations", "summary");
    if (says.empty()) says = word(labels, pointer + "/labels", "alertname");
    if (status != "firing" || host.empty()) {
      ++body.ignored;
    } else {
      body.alerts.push_back({HostId{host}, says.substr(0, 1024)});
    }
  }
}

void read(const Json& json, EmptyBody& body, Faults& faults) {
  (void)body;
  ObjectReader(json, "", Strictness::Strict, faults).finish();
}

}  // namespace mare::wire
