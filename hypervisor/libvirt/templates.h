// The templates of this host: STATE/templates/KEY/{state,what} and MEMORY/KEY/ram. `what` is
// written last and says in words what it is of, so a directory without it is no template. RAM is
// mapped by clones and never written again; removing it takes nothing from those that run. MEMORY
// is best a tmpfs: of memory that is a disk's file QEMU can't take a copy while the VM goes on.
//
// A template's guest boots as a domain of its own, which carries another mark than VMs do. One that
// an earlier agent began is ended. Thread-safe.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "hypervisor/driver.h"
#include "hypervisor/libvirt/domain_xml.h"
#include "hypervisor/libvirt/handles.h"
#include "orchestrator/core/log.h"

namespace mare::libvirt {

struct TemplateFiles {
  std::string ram;
  std::string state;
};

/// User and group that QEMU runs as.
struct Owner {
  uid_t user = 0;
  gid_t group = 0;
};
/// From the text of libvirt's capabilities; root if it does not say. Pure.
Owner qemu_owner(const std::string& capabilities);
/// What decides whether a template fits, in words; kernel and initrd by name, size and time. Pure
/// but for looking at these.
std::string describe(const TemplateSpec& what, const std::string& hypervisor);
/// A short name for that text. Pure.
std::string key_of(const std::string& description);

class Templates {
 public:
  /// `memory`: for the RAM, a directory of this host's agent alone; "": beside the rest.
  Templates(std::string directory, const std::string& memory, Clock& clock, Log& log);

  /// Before the first other call.
  Status open(virConnectPtr connection, const std::string& capabilities);

  /// Claims memory for a VM of that name and uuid; released by the other.
  using Admit = std::function<Status(const VmSpec&)>;
  using Release = std::function<void(const std::string& uuid)>;
  /// Begins, or goes on: one short step.
  Result<TemplateStatus> make(virConnectPtr connection, const TemplateSpec& what,
                              const std::string& hypervisor, DomainOptions options,
                              const Admit& admit, const Release& release);
  /// Its files, if it is ready.
  std::optional<TemplateFiles> find(const TemplateSpec& what, const std::string& hypervisor);

 private:
  struct Making {
    VmSpec guest;
    MonotonicTime since{0};
  };
  struct Failure {
    std::string why;
    MonotonicTime when{0};
  };
  std::string path(const std::string& key, const char* file) const {
    return directory_ + "/" + key + "/" + file;
  }
  std::string ram(const std::string& key) const { return memory_ + "/" + key + "/ram"; }
  /// Makes the places of one, empty, for QEMU to write to.
  bool make_places(const std::string& key) const;
  void remove(const std::string& key) const;
  void forget_strays() const;
  Result<TemplateStatus> begin(virConnectPtr connection, const TemplateSpec& what,
                               const std::string& key, DomainOptions options, const Admit& admit,
                               const Release& release);
  Result<TemplateStatus> go_on(virConnectPtr connection, const std::string& key,
                               const std::string& description, const Release& release);
  Status keep(virDomainPtr domain, const std::string& key, const std::string& description);
  TemplateStatus fail(const std::string& key, const std::string& why);
  bool says_ready(const std::string& key) const;
  std::string last_words(const std::string& key) const;
  void end_left_over(virConnectPtr connection) const;
  void make_way(const std::string& but);

  const std::string directory_;
  const std::string memory_;
  Clock& clock_;
  Log& log_;
  Owner owner_;
  std::mutex mutex_;
  std::map<std::string, Making> making_;     // by key
  std::map<std::string, Failure> failures_;  // by key
};

}  // namespace mare::libvirt
