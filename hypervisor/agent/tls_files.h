// The three files of mutual TLS, checked before they are used: gRPC itself says of a wrong file no
// more than that a handshake failed, and it says so on the other host.
#pragma once

#include <string>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/result.h"

namespace mare::agent {

struct TlsPaths {
  std::string ca;           // of both sides
  std::string certificate;  // this side's, signed by it
  std::string key;
};

struct TlsTexts {
  std::string ca;
  std::string certificate;
  std::string key;
};

/// Reads the files; InvalidArgument names the one that is missing, is no PEM, belongs to another
/// key or CA, is out of date at `now`, or does not carry `name` (not asked when empty).
Result<TlsTexts> load_tls(const TlsPaths& paths, const std::string& name, WallTime now);

}  // namespace mare::agent
