// The driver of a host behind its agent: every call of the port over gRPC with mutual TLS.
//
// A call that never left is Unavailable. One that broke or timed out is OutcomeUnknown if it
// changes something, for it may have been done, and Unavailable if it only reads. Never repeated
// here: who asked knows whether that is right.
//
// Threads: any, each call blocks its own. The connection is made and kept by gRPC; a restarted
// agent is found again within half a second.
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
  bool insecure = false;                 // no TLS: for tests on loopback only
  Milliseconds connect_deadline{3'000};  // until a call that waits for a connection gives up
  Milliseconds read_deadline{5'000};
  Milliseconds change_deadline{20'000};
  Milliseconds save_deadline{600'000};  // save() and restore() write the whole memory
};

/// Does not connect yet. InvalidArgument names the file that is wrong and why. The files are read
/// once: after new certificates make a new driver.
Result<std::unique_ptr<Driver>> make_remote_driver(const RemoteOptions& options, Clock& clock,
                                                   Log& log);

}  // namespace mare::remote
