// Owners of libvirt's objects, and its last error as ours. Internal to this room.
#pragma once

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>

#include <memory>
#include <string>
#include <string_view>

#include "orchestrator/core/result.h"

namespace mare::libvirt {

struct DomainFree {
  void operator()(virDomainPtr domain) const noexcept { virDomainFree(domain); }
};
using DomainHandle = std::unique_ptr<virDomain, DomainFree>;

struct ConnectClose {
  void operator()(virConnectPtr connection) const noexcept { virConnectClose(connection); }
};
using ConnectHandle = std::shared_ptr<virConnect>;

/// libvirt's codes (and, where those are vague, its words) as ours. Pure.
Code code_of(int domain, int code, std::string_view text);

/// The thread's last libvirt error: read at once, on the thread that made the call.
/// A connection that broke under the call is OutcomeUnknown.
Error last_error(std::string_view what);
/// The same after a call that changes nothing: there a broken connection is Unavailable.
Error last_read_error(std::string_view what);
int last_error_code();

/// Text that libvirt allocated; "" for a null pointer.
std::string take_text(char* raw);

/// Named values of a job's statistics.
class JobStats {
 public:
  JobStats() = default;
  ~JobStats() { virTypedParamsFree(params_, count_); }
  JobStats(const JobStats&) = delete;
  JobStats& operator=(const JobStats&) = delete;

  /// False on a libvirt error, see last_error().
  bool read(virDomainPtr domain, unsigned flags) {
    return virDomainGetJobStats(domain, &type_, &params_, &count_, flags) == 0;
  }
  bool busy() const { return type_ == VIR_DOMAIN_JOB_BOUNDED || type_ == VIR_DOMAIN_JOB_UNBOUNDED; }
  unsigned long long natural(const char* name) const {
    unsigned long long value = 0;
    return virTypedParamsGetULLong(params_, count_, name, &value) == 1 ? value : 0;
  }
  /// Is it a migration out of this host that runs now?
  bool sending() const { return busy() && operation() == VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT; }
  bool receiving() const { return busy() && operation() == VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN; }
  bool has(const char* name) const { return virTypedParamsGet(params_, count_, name) != nullptr; }
  int operation() const {
    int value = 0;
    return virTypedParamsGetInt(params_, count_, VIR_DOMAIN_JOB_OPERATION, &value) == 1 ? value : 0;
  }

 private:
  int type_ = VIR_DOMAIN_JOB_NONE;
  virTypedParameterPtr params_ = nullptr;
  int count_ = 0;
};

}  // namespace mare::libvirt
