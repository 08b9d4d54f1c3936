// The driver of a host behind its agent: every call of the port over gRPC with mutual TLS.
//
// A call that never left is Unavailable. One that broke or timed out is OutcomeUnknown if it
// changes something, for it may have been done, and Unavailable if it only reads. Threads: any.
#pragma once

#include <memory>
#include <string>

#include "hypervisor/driver.h"
#include "orchestrator/core/log.h"

namespace mare::remote {

struct RemoteOptions {
  std::string name;     // of the host: the agent's certificate must carry it
  std::string address;  // "10.77.0.11:7412"
  std::string ca;       // PEM files
  std::string certificate;
  std::string key;
  bool insecure = false;  // no TLS: for tests on loopback only
  Milliseconds read_deadline{5'000};
  Milliseconds change_deadline{20'000};
  Milliseconds save_deadline{600'000};  // save() and restore() write the whole memory
};

/// Does not connect yet. InvalidArgument names the file that can't be read.
Result<std::unique_ptr<Driver>> make_remote_driver(const RemoteOptions& options, Clock& clock,
                                                   Log& log);

}  // namespace mare::remote
