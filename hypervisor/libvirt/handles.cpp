#include "hypervisor/libvirt/handles.h"

#include <cstdlib>

namespace mare::libvirt {
namespace {

bool has(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

}  // namespace

Code code_of(int domain, int code, std::string_view text) {
  // The client's own transport: the call may have been served before the connection broke.
  if (domain == VIR_FROM_RPC || code == VIR_ERR_RPC) return Code::OutcomeUnknown;
  // These come with any code, system and internal errors above all.
  if (has(text, "Cannot allocate memory") || has(text, "No space left on device")) {
    return Code::ResourceExhausted;
  }
  switch (code) {
    case VIR_ERR_NO_DOMAIN:
      return Code::NotFound;
    case VIR_ERR_NO_CONNECT:
    case VIR_ERR_INVALID_CONN:
    case VIR_ERR_OPERATION_TIMEOUT:  // "cannot acquire state change lock": nothing was done
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
    case VIR_ERR_OPERATION_FAILED:
      return has(text, "already exists") ? Code::AlreadyExists : Code::Internal;
    default:
      return Code::Internal;
  }
}

Error last_error(std::string_view what) {
  const virErrorPtr raw = virGetLastError();
  if (raw == nullptr) {
    return make_error(Code::Internal, std::string(what) + ": libvirt gives no reason");
  }
  const std::string text = raw->message != nullptr ? raw->message : "no reason given";
  return make_error(code_of(raw->domain, raw->code, text), std::string(what) + ": " + text);
}

Error last_read_error(std::string_view what) {
  Error error = last_error(what);
  if (error.code == Code::OutcomeUnknown) error.code = Code::Unavailable;
  return error;
}

int last_error_code() {
  const virErrorPtr raw = virGetLastError();
  return raw != nullptr ? raw->code : 0;
}

std::string take_text(char* raw) {
  std::string text = raw != nullptr ? raw : "";
  std::free(raw);
  return text;
}

}  // namespace mare::libvirt
