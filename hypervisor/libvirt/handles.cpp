#include "hypervisor/libvirt/handles.h"

namespace mare::libvirt {
namespace {

Code code_of(int code, const std::string& text) {
  switch (code) {
    case VIR_ERR_NO_DOMAIN:
      return Code::NotFound;
    case VIR_ERR_NO_CONNECT:
    case VIR_ERR_RPC:
    case VIR_ERR_SYSTEM_ERROR:
    case VIR_ERR_OPERATION_TIMEOUT:
    case VIR_ERR_INVALID_CONN:
    case VIR_ERR_AGENT_UNRESPONSIVE:
      return Code::Unavailable;
    case VIR_ERR_NO_MEMORY:
      return Code::ResourceExhausted;
    case VIR_ERR_DOM_EXIST:
      return Code::AlreadyExists;
    case VIR_ERR_OPERATION_ABORTED:
      return Code::Cancelled;
    case VIR_ERR_OPERATION_UNSUPPORTED:
    case VIR_ERR_NO_SUPPORT:
    case VIR_ERR_CONFIG_UNSUPPORTED:
      return Code::Unsupported;
    case VIR_ERR_OPERATION_INVALID:
      return Code::FailedPrecondition;
    default:
      break;
  }
  // libvirt reports a connection that broke under a call as an internal error.
  if (text.find("client socket is closed") != std::string::npos ||
      text.find("End of file while reading data") != std::string::npos) {
    return Code::OutcomeUnknown;
  }
  return Code::Internal;
}

}  // namespace

Error last_error(std::string_view what) {
  const virErrorPtr raw = virGetLastError();
  const std::string text =
      raw != nullptr && raw->message != nullptr ? raw->message : "no reason given";
  return make_error(code_of(raw != nullptr ? raw->code : 0, text), std::string(what) + ": " + text);
}

int last_error_code() {
  const virErrorPtr raw = virGetLastError();
  return raw != nullptr ? raw->code : 0;
}

}  // namespace mare::libvirt
