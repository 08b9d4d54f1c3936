#include "hypervisor/libvirt/domain_xml.h"

namespace mare::libvirt {
namespace {

constexpr std::string_view kConsoleBegin = "<source path='";

std::string element(std::string_view name, std::string_view text) {
  return "<" + std::string(name) + ">" + escape(text) + "</" + std::string(name) + ">";
}

std::string cpu_xml(bool accelerated) {
  if (accelerated) return "<cpu mode='host-model' check='partial'/>";
  // The plain model keeps guests' libraries off wide vector code, which emulation is slow at;
  // rdrand feeds the guest's random numbers early in its boot.
  return "<cpu mode='custom' match='exact' check='none'><model fallback='forbid'>qemu64</model>"
         "<feature policy='require' name='rdrand'/></cpu>";
}

std::string devices_xml(const VmSpec& vm, const DomainOptions& options) {
  std::string xml = "<devices>";
  xml += "<controller type='usb' model='none'/>";
  xml += "<interface type='bridge'><mac address='" + vm.mac.text() + "'/><source bridge='" +
         escape(options.bridge) + "'/><model type='virtio'/><rom enabled='no'/></interface>";
  xml += "<serial type='file'><source path='" + escape(options.console_path) +
         "' append='on'/><target type='isa-serial' port='0'/></serial>";
  xml += "<console type='file'><source path='" + escape(options.console_path) +
         "' append='on'/><target type='serial' port='0'/></console>";
  xml += "<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>";
  xml += "<memballoon model='virtio'/>";
  return xml + "</devices>";
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&apos;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\t') out.push_back(c);
    }
  }
  return out;
}

std::string domain_xml(const VmSpec& vm, const DomainOptions& options) {
  std::string xml = std::string("<domain type='") + (options.accelerated ? "kvm" : "qemu") + "'>";
  xml += element("name", vm.id.value) + element("uuid", vm.uuid);
  xml += std::string("<metadata><mare:vm xmlns:mare='") + kMetadataUri + "' id='" +
         escape(vm.id.value) + "'/></metadata>";
  xml += "<memory unit='b'>" + std::to_string(vm.memory.count) + "</memory>";
  xml += "<vcpu>" + std::to_string(vm.vcpus) + "</vcpu>";
  xml += "<os><type arch='x86_64' machine='q35'>hvm</type>" + element("kernel", vm.kernel) +
         element("initrd", vm.initrd) + element("cmdline", vm.kernel_args) + "</os>";
  xml += "<features><acpi/></features>" + cpu_xml(options.accelerated) + "<clock offset='utc'/>";
  // A VM that ends is gone: a restart is the orchestrator's to decide, or it might run twice.
  xml +=
      "<on_poweroff>destroy</on_poweroff><on_reboot>destroy</on_reboot><on_crash>destroy</"
      "on_crash>";
  return xml + devices_xml(vm, options) + "</domain>";
}

std::string with_console(const std::string& xml, const std::string& path) {
  std::string out;
  std::size_t from = 0;
  while (true) {
    const auto begin = xml.find(kConsoleBegin, from);
    if (begin == std::string::npos) break;
    const auto value = begin + kConsoleBegin.size();
    const auto end = xml.find('\'', value);
    if (end == std::string::npos) return "";
    out += xml.substr(from, value - from) + escape(path);
    from = end;
  }
  if (from == 0) return "";
  return out + xml.substr(from);
}

}  // namespace mare::libvirt
