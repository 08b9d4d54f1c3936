#include "hypervisor/libvirt/monitor.h"

#include <libvirt/libvirt-qemu.h>

#include <charconv>

#include "hypervisor/libvirt/handles.h"

namespace mare::libvirt {
namespace {

/// Where the value of a key begins; JSON as libvirt writes it, without spaces.
std::size_t value_of(const std::string& reply, const std::string& key) {
  const std::string begin = "\"" + key + "\":";
  const auto at = reply.find(begin);
  return at == std::string::npos ? at : at + begin.size();
}

Result<std::string> answer(int code, char* raw) {
  if (code != 0) return last_error("QEMU's monitor does not answer");
  std::string reply = take_text(raw);
  if (value_of(reply, "error") == std::string::npos) return reply;
  const std::string words = text_in(reply, "desc");
  return make_error(Code::Internal, "QEMU refuses: " + (words.empty() ? reply : words));
}

}  // namespace

Result<std::string> ask_monitor(virDomainPtr domain, const std::string& command) {
  char* raw = nullptr;
  const int code = virDomainQemuMonitorCommand(domain, command.c_str(), &raw,
                                               VIR_DOMAIN_QEMU_MONITOR_COMMAND_DEFAULT);
  return answer(code, raw);
}

Status give_descriptor(virDomainPtr domain, const std::string& name, int descriptor) {
  const std::string command = R"({"execute":"getfd","arguments":{"fdname":")" + name + R"("}})";
  char* raw = nullptr;
  const int code =
      virDomainQemuMonitorCommandWithFiles(domain, command.c_str(), 1, &descriptor, nullptr,
                                           nullptr, &raw, VIR_DOMAIN_QEMU_MONITOR_COMMAND_DEFAULT);
  auto reply = answer(code, raw);
  return reply ? ok_status() : Status(reply.error());
}

std::string text_in(const std::string& reply, const std::string& key) {
  const auto at = value_of(reply, key);
  if (at == std::string::npos || at >= reply.size() || reply[at] != '"') return "";
  const auto end = reply.find('"', at + 1);
  return end == std::string::npos ? "" : reply.substr(at + 1, end - at - 1);
}

std::optional<std::uint64_t> natural_in(const std::string& reply, const std::string& key) {
  const auto at = value_of(reply, key);
  if (at == std::string::npos) return std::nullopt;
  std::uint64_t value = 0;
  const char* const end = reply.data() + reply.size();
  const auto [stop, error] = std::from_chars(reply.data() + at, end, value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

}  // namespace mare::libvirt
