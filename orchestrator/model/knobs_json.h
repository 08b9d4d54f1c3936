// Knobs as JSON, the same for a row, a request and an answer.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "orchestrator/model/forecast.h"

namespace mare {

/// {"rate_gain": 2}: those that are stated.
template <typename Json>
Json knobs_json(const Knobs& knobs) {
  Json out = Json::object();
  for (const auto& knob : kKnobs) {
    const auto& value = knobs.*knob.value;
    if (!value) continue;
    const std::string name(knob.name);
    if (knob.whole && *value == std::floor(*value)) {
      out[name] = static_cast<std::int64_t>(*value);
    } else {
      out[name] = *value;
    }
  }
  return out;
}

/// Of the object `name` of `from`; none of them where it is not there. What is no number is left
/// out.
template <typename Json>
Knobs knobs_from(const Json& from, const char* name) {
  Knobs out;
  const auto found = from.find(name);
  if (found == from.end() || !found->is_object()) return out;
  for (const auto& knob : kKnobs) {
    const auto value = found->find(std::string(knob.name));
    if (value != found->end() && value->is_number()) {
      out.*knob.value = value->template get<double>();
    }
  }
  return out;
}

}  // namespace mare
