#include "hypervisor/leases/vm_processes.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "orchestrator/core/fd.h"

namespace mare::leases {
namespace {

/// What marks a domain as ours: the namespace of its metadata (hypervisor/libvirt/domain_xml.h).
constexpr const char* kOurs = "urn:mare:vm:1";

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// What stands between the two texts, the first time after `from`.
std::optional<std::string> between(const std::string& text, const std::string& before,
                                   const std::string& after, std::size_t from) {
  const auto begin = text.find(before, from);
  if (begin == std::string::npos) return std::nullopt;
  const auto end = text.find(after, begin + before.size());
  if (end == std::string::npos) return std::nullopt;
  return text.substr(begin + before.size(), end - begin - before.size());
}

bool kill_if_its(const VmProcess& vm) {
  // From here on the number is this process, and no other that would get it after its end.
  const Fd process{static_cast<int>(::syscall(SYS_pidfd_open, vm.pid, 0))};
  if (!process) return false;
  const auto command = text_of("/proc/" + std::to_string(vm.pid) + "/cmdline");
  if (command.find(vm.uuid) == std::string::npos) return false;
  return ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) == 0;
}

}  // namespace

std::optional<VmProcess> process_in(const std::string& status) {
  const auto head = status.find("<domstatus ");
  if (head == std::string::npos || status.find(kOurs) == std::string::npos) return std::nullopt;
  const auto tag = between(status, "<domstatus ", ">", head);
  const auto number = tag ? between(*tag, "pid='", "'", 0) : std::nullopt;
  // The domain's own uuid comes first in it; devices and metadata follow.
  const auto domain = status.find("<domain ", head);
  if (domain == std::string::npos) return std::nullopt;
  const auto uuid = between(status, "<uuid>", "</uuid>", domain);
  if (!number || !uuid || uuid->empty()) return std::nullopt;
  VmProcess out;
  out.uuid = *uuid;
  const auto [end, error] =
      std::from_chars(number->data(), number->data() + number->size(), out.pid);
  if (error != std::errc{} || end != number->data() + number->size() || out.pid <= 1) {
    return std::nullopt;
  }
  return out;
}

int end_all_vms(const std::string& directory) {
  int ended = 0;
  std::error_code failed;
  for (auto file = std::filesystem::directory_iterator(directory, failed);
       !failed && file != std::filesystem::directory_iterator(); file.increment(failed)) {
    if (file->path().extension() != ".xml") continue;
    const auto vm = process_in(text_of(file->path()));
    if (vm && kill_if_its(*vm)) ++ended;
  }
  return ended;
}

Status can_end_vms(const std::string& directory) {
  std::error_code failed;
  const std::filesystem::directory_iterator files(directory, failed);
  if (!failed) return ok_status();
  return make_error(Code::Unavailable,
                    "can't read libvirtd's status files in " + directory + ": " + failed.message(),
                    "give mare-agent --libvirt-run-dir, or run it as libvirtd's user");
}

}  // namespace mare::leases
