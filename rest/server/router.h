// Which handler a method and a path belong to. Patterns: "/api/v1/vms/{id}:start".
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rest/server/http.h"
#include "rest/wire/reader.h"

namespace mare::rest {

/// A request that was authorised and matched.
struct Call {
  const Request& request;
  std::map<std::string, std::string> captures;             // "{id}" decoded
  std::vector<std::pair<std::string, std::string>> query;  // decoded
};

/// Answers at once, or keeps the exchange for later (`Later`).
struct Later {};
using Answer = std::variant<Response, Later>;

struct Route {
  std::string method;
  std::string pattern;
  std::string operation_id;  // as in openapi.json
  bool open = false;         // needs no token
  std::function<Answer(const Call&, const std::shared_ptr<Exchange>&)> handle;
};

struct Match {
  const Route* route = nullptr;      // none: see `allowed`
  std::vector<std::string> allowed;  // methods that the path knows; empty: no such path
  std::map<std::string, std::string> captures;
};

class Router {
 public:
  void add(Route route);
  Match match(std::string_view method, std::string_view path) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  struct Part {
    bool capture = false;
    std::string text;  // literal, or the capture's name
    std::string verb;  // ":start" of the last part
  };
  static std::vector<Part> parts_of(const std::string& pattern);
  static bool fits(const std::vector<Part>& parts, const std::vector<std::string>& segments,
                   std::map<std::string, std::string>& captures);

  std::vector<Route> routes_;
  std::vector<std::vector<Part>> parts_;
};

/// "%41" -> "A"; nothing if malformed. A '+' stays one in paths and is a space in queries.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space);
std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query);

/// Reads query parameters as strictly as bodies are read.
class QueryReader {
 public:
  QueryReader(const Call& call, wire::Faults& faults) : call_(call), faults_(faults) {}
  std::optional<std::string> text(const std::string& name);
  std::optional<std::uint64_t> natural(const std::string& name, std::uint64_t least,
                                       std::uint64_t most);
  bool flag(const std::string& name);  // "true" or "false"; absent: false
  template <typename T, typename From>
  std::optional<T> name_of(const std::string& name, From from, const std::string& known) {
    auto written = text(name);
    if (!written) return std::nullopt;
    std::optional<T> value = from(*written);
    if (!value) fault(name, "'" + *written + "' is not known; give one of " + known);
    return value;
  }
  void fault(const std::string& name, const std::string& detail) {
    faults_.push_back({"?" + name, detail});
  }
  /// Notes parameters that were never asked for. Call it last.
  void finish();

 private:
  const Call& call_;
  wire::Faults& faults_;
  std::vector<std::string> asked_;
};

}  // namespace mare::rest
