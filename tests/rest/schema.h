// Checks JSON against the schemas of the API's description: $ref, type, enum, required,
// properties, additionalProperties, items, minimum, maximum, minItems, maxProperties. Members that
// the schema does not know are faults too: what the server says must be described.
#pragma once

#include <string>
#include <vector>

#include "rest/wire/json.h"

namespace mare::test {

class Schemas {
 public:
  explicit Schemas(wire::Json description) : description_(std::move(description)) {}
  const wire::Json& description() const { return description_; }
  /// "#/components/schemas/Host" and the like; follows $ref in `node`.
  const wire::Json& resolve(const wire::Json& node) const;
  /// What is wrong; empty if nothing is.
  std::vector<std::string> check(const wire::Json& value, const wire::Json& schema,
                                 const std::string& where = "") const;
  /// Checks a reply against what the description says of its operation and status.
  std::vector<std::string> check_reply(const std::string& operation_id, int status,
                                       const std::string& content_type,
                                       const std::string& body) const;

 private:
  void walk(const wire::Json& value, const wire::Json& schema, const std::string& where,
            std::vector<std::string>& faults) const;
  void walk_object(const wire::Json& value, const wire::Json& schema, const std::string& where,
                   std::vector<std::string>& faults) const;

  wire::Json description_;
};

}  // namespace mare::test
