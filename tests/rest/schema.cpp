#include "tests/rest/schema.h"

#include <algorithm>

namespace mare::test {
namespace {

using wire::Json;

bool is_type(const Json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "integer") return value.is_number_integer();
  return type == "number" && value.is_number();
}

bool fits_type(const Json& value, const Json& type) {
  if (type.is_string()) return is_type(value, type.get<std::string>());
  return std::any_of(type.begin(), type.end(),
                     [&](const Json& one) { return is_type(value, one.get<std::string>()); });
}

}  // namespace

const Json& Schemas::resolve(const Json& node) const {
  if (!node.is_object() || !node.contains("$ref")) return node;
  const std::string ref = node["$ref"].get<std::string>();
  return resolve(description_.at(Json::json_pointer(ref.substr(1))));
}

std::vector<std::string> Schemas::check(const Json& value, const Json& schema,
                                        const std::string& where) const {
  std::vector<std::string> faults;
  walk(value, schema, where, faults);
  return faults;
}

void Schemas::walk(const Json& value, const Json& unresolved, const std::string& where,
                   std::vector<std::string>& faults) const {
  const Json& schema = resolve(unresolved);
  if (schema.contains("type") && !fits_type(value, schema["type"])) {
    faults.push_back(where + ": " + value.dump() + " is not " + schema["type"].dump());
    return;
  }
  if (schema.contains("enum")) {
    const Json& known = schema["enum"];
    if (std::find(known.begin(), known.end(), value) == known.end()) {
      faults.push_back(where + ": " + value.dump() + " is none of " + known.dump());
    }
  }
  if (value.is_number()) {
    const double number = value.get<double>();
    if (schema.contains("minimum") && number < schema["minimum"].get<double>()) {
      faults.push_back(where + ": " + value.dump() + " is below the minimum");
    }
    if (schema.contains("maximum") && number > schema["maximum"].get<double>()) {
      faults.push_back(where + ": " + value.dump() + " is above the maximum");
    }
  }
  if (value.is_array() && schema.contains("minItems") &&
      value.size() < schema["minItems"].get<std::size_t>()) {
    faults.push_back(where + ": has too few items");
  }
  if (value.is_array() && schema.contains("items")) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      walk(value[i], schema["items"], where + "/" + std::to_string(i), faults);
    }
  }
  if (value.is_object()) walk_object(value, schema, where, faults);
}

void Schemas::walk_object(const Json& value, const Json& schema, const std::string& where,
                          std::vector<std::string>& faults) const {
  if (schema.contains("maxProperties") &&
      value.size() > schema["maxProperties"].get<std::size_t>()) {
    faults.push_back(where + ": has too many members");
  }
  if (!schema.contains("properties")) return;  // Any object.
  const Json& properties = schema["properties"];
  for (const auto& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) {
      faults.push_back(where + ": lacks " + name.dump());
    }
  }
  for (const auto& [name, member] : value.items()) {
    if (properties.contains(name)) {
      walk(member, properties[name], where + "/" + name, faults);
    } else {
      faults.push_back(where + ": has '" + name + "', which is not described");
    }
  }
}

std::vector<std::string> Schemas::check_reply(const std::string& operation_id, int status,
                                              const std::string& content_type,
                                              const std::string& body) const {
  for (const auto& [path, methods] : description_["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) {
      if (operation["operationId"] != operation_id) continue;
      const std::string code = std::to_string(status);
      const std::string what = operation_id + " " + code;
      if (!operation["responses"].contains(code)) return {what + " is not described: " + body};
      const Json& response = resolve(operation["responses"][code]);
      const std::string type = content_type.substr(0, content_type.find(';'));
      if (!response.contains("content") || !response["content"].contains(type)) {
        return {what + " is not described with " + type};
      }
      if (!type.ends_with("json")) return {};
      return check(Json::parse(body, nullptr, false), response["content"][type]["schema"], what);
    }
  }
  return {operation_id + " is not described"};
}

}  // namespace mare::test
