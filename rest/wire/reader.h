// Reads a JSON object member by member and notes every fault instead of stopping at the first, so
// that one answer tells a user all that is wrong with a request.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/core/result.h"
#include "rest/wire/json.h"
#include "rest/wire/time.h"

namespace mare::wire {

/// What is wrong where: a JSON pointer (RFC 6901) into the body, or "?name" for a query parameter.
struct Fault {
  std::string pointer;
  std::string detail;  // includes what to write instead
};
using Faults = std::vector<Fault>;

/// The faults as one error, for callers that keep only one.
Error error_from(const Faults& faults, std::string_view what);

/// Parses a whole body: one JSON value without duplicate members, nested at most 32 deep.
std::optional<Json> parse_json(std::string_view body, Faults& faults);

/// "a/b~c" -> "a~1b~0c"
std::string pointer_token(std::string_view name);

/// Requests are strict: a member that nobody knows is a typing error. Answers are lenient: a newer
/// server may say more than this client knows.
enum class Strictness { Strict, Lenient };

struct TextRule {
  std::size_t least = 1;
  std::size_t most = 4096;
};
struct NumberRule {
  double least = 0;
  double most = 9.0e15;  // < 2^53: every whole number up to there is exact
};

class ObjectReader {
 public:
  ObjectReader(const Json& value, std::string pointer, Strictness strictness, Faults& faults);

  // Each answers nothing when the member is absent, null or at fault. A `needed` member that is
  // absent or null is a fault.
  std::optional<std::string> text(const std::string& name, bool needed, TextRule rule = {});
  std::optional<std::int64_t> whole(const std::string& name, bool needed, NumberRule rule = {});
  std::optional<double> number(const std::string& name, bool needed, NumberRule rule = {});
  std::optional<bool> flag(const std::string& name, bool needed);
  std::optional<WallTime> time(const std::string& name);
  /// Is it there, and null? For members where that says more than their absence.
  bool null(const std::string& name);
  std::optional<std::vector<std::string>> texts(const std::string& name, bool needed,
                                                std::size_t most_items, TextRule rule = {});
  /// An object; read it with a reader of its own.
  const Json* object(const std::string& name, bool needed);
  const Json* array(const std::string& name, bool needed);
  /// For what object() answered, as strict as this one.
  ObjectReader inside(const std::string& name, const Json& member) const {
    return {member, pointer_to(name), strictness_, faults_};
  }

  /// One of the names that `from` knows; `known` says them in the fault.
  template <typename T, typename From>
  std::optional<T> name_of(const std::string& name, From from, const std::string& known) {
    auto written = text(name, true);
    if (!written) return std::nullopt;
    std::optional<T> value = from(*written);
    if (!value) fault(name, "'" + *written + "' is none of " + known);
    return value;
  }

  void fault(const std::string& name, const std::string& detail);
  std::string pointer_to(const std::string& name) const {
    return pointer_ + "/" + pointer_token(name);
  }
  /// Notes members that were never asked for. Call it last.
  void finish();

 private:
  const Json* find(const std::string& name, bool needed);
  bool fits(const std::string& pointer, const Json& value, TextRule rule);

  const Json* object_ = nullptr;  // none when the value is no object
  std::string pointer_;
  Strictness strictness_;
  Faults& faults_;
  std::set<std::string> asked_;
};

}  // namespace mare::wire
