// Policies of moves, as requests state them: what is absent is not stated, null is the default.
#pragma once

#include <string>

#include "orchestrator/model/forecast.h"
#include "rest/wire/reader.h"

namespace mare::wire {

/// Null where none is stated.
Json to_json(const Knobs& knobs);
/// Only what is stated.
Json to_json(const PolicyChange& change);
/// From the members of an object that may have others.
void read(ObjectReader& from, PolicyChange& change);
/// From an object of its own, at `pointer` of the body.
void read(const Json& json, const std::string& pointer, PolicyChange& change, Faults& faults);

}  // namespace mare::wire
