// One question to the store.
#pragma once

#include "orchestrator/store/store.h"

namespace mare::rest {

/// Runs a query on a snapshot and hands out its value.
template <typename T, typename Ask>
Result<T> ask(const store::Store& store, Ask question) {
  Result<T> out = make_error(Code::Internal, "the query did not run");
  auto done = store.read([&](const store::Reader& reader) -> Status {
    out = question(reader);
    return ok_status();
  });
  if (!done) return done.error();
  return out;
}

}  // namespace mare::rest
