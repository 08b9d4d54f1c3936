// Where a migration goes: what the destination's backend writes into an IncomingEndpoint for the
// source's. Pure.
#pragma once

#include <string>

#include "hypervisor/libvirt/preloads.h"
#include "orchestrator/core/result.h"

namespace mare::libvirt {

struct Route {
  std::string libvirt_uri;   // of the destination's libvirtd, as the source reaches it
  std::string data_uri;      // where QEMU sends
  std::string bridge;        // the network there
  std::string console;       // the console's file there
  bool accelerated = false;  // KVM there; a guest can't change between KVM and emulation
  Preloads preloads = {};    // what QEMU is to load there
  bool tls = false;          // QEMU there takes encrypted pages only
  std::string notice = {};   // where it hears that the VM stands still (NoticeAddress); "": nowhere

  std::string text() const;
  /// InvalidArgument for what text() did not write.
  static Result<Route> parse(const std::string& text);
};

/// Where a host with that address takes migrations; an IPv6 address gets its brackets.
std::string libvirt_uri_at(const std::string& address);
std::string data_uri_at(const std::string& address);

/// FailedPrecondition if one end encrypts and the other does not.
Status check_encryption(const Route& to, bool here);

}  // namespace mare::libvirt
