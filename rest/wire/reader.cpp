#include "rest/wire/reader.h"

#include <cmath>

namespace mare::wire {
namespace {

constexpr int kDeepest = 32;

std::string kind_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "a boolean";
  if (value.is_number()) return "a number";
  if (value.is_string()) return "a string";
  if (value.is_array()) return "an array";
  return "an object";
}

std::string in_words(double value) {
  return to_text(value == std::floor(value) && std::abs(value) < 9.1e15
                     ? Json(static_cast<std::int64_t>(value))
                     : Json(value));
}

std::string range(NumberRule rule) {
  return in_words(rule.least) + " to " + in_words(rule.most);
}

/// Watches a parse for what nlohmann's parser lets pass: deep nesting and duplicate members.
struct Watch {
  std::vector<std::set<std::string>> names;
  bool too_deep = false;
  std::string duplicate;

  bool operator()(int depth, Json::parse_event_t event, Json& value) {
    if (depth > kDeepest) {
      too_deep = true;
      return false;  // Not kept, so the value that is built stays shallow.
    }
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end && !names.empty()) names.pop_back();
    if (event == Json::parse_event_t::key && !names.empty()) {
      if (!names.back().insert(value.get<std::string>()).second) duplicate = value;
    }
    return true;
  }
};

}  // namespace

Error error_from(const Faults& faults, std::string_view what) {
  if (faults.empty()) return make_error(Code::Internal, std::string(what));
  Error error = field_error(faults.front().pointer, std::string(what) + ": ");
  for (const auto& fault : faults) {
    if (&fault != &faults.front()) error.message += "; ";
    error.message += (fault.pointer.empty() ? "" : fault.pointer + ": ") + fault.detail;
  }
  return error;
}

std::string pointer_token(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

std::optional<Json> parse_json(std::string_view body, Faults& faults) {
  Watch watch;
  Json value = Json::parse(body.begin(), body.end(), std::ref(watch), /*allow_exceptions=*/false);
  if (watch.too_deep) {
    faults.push_back({"", "the body is nested more than " + std::to_string(kDeepest) +
                              " deep; send the object that the API description asks for"});
    return std::nullopt;
  }
  if (value.is_discarded()) {
    faults.push_back({"", "the body is not JSON (RFC 8259, UTF-8); check quotes and commas"});
    return std::nullopt;
  }
  if (!watch.duplicate.empty()) {
    faults.push_back({"", "member '" + watch.duplicate + "' is given twice; give it once"});
    return std::nullopt;
  }
  return value;
}

ObjectReader::ObjectReader(const Json& value, std::string pointer, Strictness strictness,
                           Faults& faults)
    : pointer_(std::move(pointer)), strictness_(strictness), faults_(faults) {
  if (value.is_object()) {
    object_ = &value;
  } else {
    faults_.push_back({pointer_, "is " + kind_of(value) + "; write an object"});
  }
}

void ObjectReader::fault(const std::string& name, const std::string& detail) {
  faults_.push_back({pointer_to(name), detail});
}

const Json* ObjectReader::find(const std::string& name, bool needed) {
  asked_.insert(name);
  if (object_ == nullptr) return nullptr;  // Told once already.
  const auto found = object_->find(name);
  if (found != object_->end() && !found->is_null()) return &*found;
  if (needed)
    fault(name, found == object_->end() ? "is missing; give it" : "is null; give a value");
  return nullptr;
}

bool ObjectReader::null(const std::string& name) {
  asked_.insert(name);
  if (object_ == nullptr) return false;
  const auto found = object_->find(name);
  return found != object_->end() && found->is_null();
}

bool ObjectReader::fits(const std::string& pointer, const Json& value, TextRule rule) {
  if (!value.is_string()) {
    faults_.push_back({pointer, "is " + kind_of(value) + "; write a string"});
    return false;
  }
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() < rule.least || text.size() > rule.most) {
    faults_.push_back({pointer, "has " + std::to_string(text.size()) + " bytes; write " +
                                    std::to_string(rule.least) + " to " +
                                    std::to_string(rule.most)});
    return false;
  }
  // No value of ours holds a NUL, and everything behind it would be lost in C interfaces.
  if (text.find('\0') != std::string::npos) {
    faults_.push_back({pointer, "holds a NUL character; leave it out"});
    return false;
  }
  return true;
}

std::optional<std::string> ObjectReader::text(const std::string& name, bool needed, TextRule rule) {
  const Json* value = find(name, needed);
  if (value == nullptr || !fits(pointer_to(name), *value, rule)) return std::nullopt;
  return value->get<std::string>();
}

std::optional<double> ObjectReader::number(const std::string& name, bool needed, NumberRule rule) {
  const Json* value = find(name, needed);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    fault(name, "is " + kind_of(*value) + "; write a number from " + range(rule));
    return std::nullopt;
  }
  const double found = value->get<double>();
  // Negated, so that a NaN is refused as well.
  if (!(found >= rule.least && found <= rule.most)) {
    fault(name, "is " + to_text(*value) + "; write a number from " + range(rule));
    return std::nullopt;
  }
  return found;
}

std::optional<std::int64_t> ObjectReader::whole(const std::string& name, bool needed,
                                                NumberRule rule) {
  const auto found = number(name, needed, rule);
  if (!found) return std::nullopt;
  if (*found != std::floor(*found)) {
    fault(name,
          "is " + to_text(*object_->find(name)) + "; write a whole number from " + range(rule));
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*found);
}

std::optional<bool> ObjectReader::flag(const std::string& name, bool needed) {
  const Json* value = find(name, needed);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    fault(name, "is " + kind_of(*value) + "; write true or false");
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<WallTime> ObjectReader::time(const std::string& name) {
  const auto written = text(name, false);
  if (!written) return std::nullopt;
  const auto parsed = parse_rfc3339(*written);
  if (!parsed) fault(name, "'" + *written + "' is no time; write 2026-11-21T04:00:00Z");
  return parsed;
}

const Json* ObjectReader::object(const std::string& name, bool needed) {
  const Json* value = find(name, needed);
  if (value == nullptr || value->is_object()) return value;
  fault(name, "is " + kind_of(*value) + "; write an object");
  return nullptr;
}

const Json* ObjectReader::array(const std::string& name, bool needed) {
  const Json* value = find(name, needed);
  if (value == nullptr || value->is_array()) return value;
  fault(name, "is " + kind_of(*value) + "; write an array");
  return nullptr;
}

std::optional<std::vector<std::string>> ObjectReader::texts(const std::string& name, bool needed,
                                                            std::size_t most_items, TextRule rule) {
  const Json* value = array(name, needed);
  if (value == nullptr) return std::nullopt;
  if (value->size() > most_items) {
    fault(name, "has " + std::to_string(value->size()) + " items; write at most " +
                    std::to_string(most_items));
    return std::nullopt;
  }
  std::vector<std::string> out;
  bool good = true;
  for (std::size_t i = 0; i < value->size(); ++i) {
    const Json& item = (*value)[i];
    if (fits(pointer_to(name) + "/" + std::to_string(i), item, rule)) {
      out.push_back(item.get<std::string>());
    } else {
      good = false;
    }
  }
  if (!good) return std::nullopt;
  return out;
}

void ObjectReader::finish() {
  if (object_ == nullptr || strictness_ == Strictness::Lenient) return;
  for (const auto& [name, value] : object_->items()) {
    if (asked_.contains(name)) continue;
    std::string known;
    for (const auto& other : asked_) known += (known.empty() ? "" : ", ") + other;
    fault(name, "is not known here; known are: " + (known.empty() ? "no members" : known));
  }
}

}  // namespace mare::wire
