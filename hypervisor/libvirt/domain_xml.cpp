#include "hypervisor/libvirt/domain_xml.h"

#include <algorithm>

#include "hypervisor/libvirt/emulator/ram_argument.h"

namespace mare::libvirt {
namespace {

constexpr std::string_view kConsoleBegin = "<source path='";
constexpr std::string_view kBridgeBegin = "<source bridge='";
constexpr std::size_t kLongestName = 63;

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
  if (options.ram != Ram::Own) xml += element("emulator", options.emulator);
  xml += "<controller type='usb' model='none'/>";
  xml += "<interface type='bridge'><mac address='" + vm.mac.text() + "'/><source bridge='" +
         escape(options.bridge) + "'/><model type='virtio'/><rom enabled='no'/></interface>";
  xml += "<serial type='file'><source path='" + escape(options.console_path) +
         "' append='on'/><target type='isa-serial' port='0'/></serial>";
  xml += "<console type='file'><source path='" + escape(options.console_path) +
         "' append='on'/><target type='serial' port='0'/></console>";
  xml += "<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>";
  xml += "<memballoon model='virtio'/>";
  // No panic device: Debian's cloud kernel has its driver only as a module. With "panic=-1" on the
  // kernel's line a panic is a reset, and <on_reboot> ends the VM.
  return xml + "</devices>";
}

std::string argument(const std::string& value) {
  return "<qemu:arg value='" + escape(value) + "'/>";
}

constexpr std::string_view kQemuNamespace =
    " xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>";

/// libvirt asks QEMU for each of the CPU's features, some 460 questions at each start, also of a
/// migration's destination: 0.34 s in all on two idle cores. Without this capability two questions
/// do, and it is 0.08 s. They do not tell the features that are MSRs, which `host-model` may have.
std::string hurry_xml(bool accelerated) {
  if (accelerated) return "";
  return "<qemu:capabilities" + std::string(kQemuNamespace) +
         "<qemu:del capability='cpu-unavailable-features'/></qemu:capabilities>";
}

std::string variable(const std::string& name, const std::string& value) {
  return "<qemu:env name='" + name + "' value='" + escape(value) + "'/>";
}

/// libvirt's own way to QEMU's environment and arguments. It writes the element back with its own
/// prefix "qemu", arguments first.
std::string command_line_xml(const DomainOptions& options) {
  std::string inner;
  if (options.ram == Ram::Clone) inner += argument("-incoming") + argument("defer");
  const std::string libraries = libraries_of(options.preloads);
  if (!libraries.empty()) inner += variable("LD_PRELOAD", libraries);
  if (!options.preloads.deadman.empty()) {
    inner += variable("MARE_DEADMAN", options.preloads.deadman_file);
  }
  if (options.ram != Ram::Own) {
    inner += variable(kRamVariable, to_text({options.ram == Ram::Template, options.ram_file}));
  }
  if (inner.empty()) return "";
  return "<qemu:commandline" + std::string(kQemuNamespace) + inner + "</qemu:commandline>";
}

/// A clone is not booted: it is told in a text what its kernel line would have been.
std::string boot_xml(const VmSpec& vm, const DomainOptions& options) {
  if (options.ram != Ram::Clone) {
    const std::string known =
        options.tsc_khz > 0 ? " tsc_early_khz=" + std::to_string(options.tsc_khz) : "";
    return element("kernel", vm.kernel) + element("initrd", vm.initrd) +
           element("cmdline", vm.kernel_args + known) + "</os>";
  }
  const std::string line =
      vm.kernel_args + " mare.mac=" + vm.mac.text() + " mare.machine=" + vm.uuid;
  return "</os><sysinfo type='fwcfg'><entry name='opt/mare/line'>" + escape(line) +
         "</entry></sysinfo>";
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
  const bool is_template = options.ram == Ram::Template;
  xml += std::string("<metadata><mare:vm xmlns:mare='") +
         (is_template ? kTemplateUri : kMetadataUri) + "' id='" + escape(vm.id.value) +
         "'/></metadata>";
  xml += "<memory unit='b'>" + std::to_string(vm.memory.count) + "</memory>";
  xml += "<vcpu>" + std::to_string(vm.vcpus) + "</vcpu>";
  xml += "<os><type arch='x86_64' machine='q35'>hvm</type>" + boot_xml(vm, options);
  xml += "<features><acpi/><apic/></features>" + cpu_xml(options.accelerated);
  // A guest that picks the HPET for its clock source crawls under emulation.
  xml += "<clock offset='utc'><timer name='hpet' present='no'/></clock>";
  // A VM that ends is gone: a restart is the orchestrator's to decide, or it might run twice.
  xml +=
      "<on_poweroff>destroy</on_poweroff><on_reboot>destroy</on_reboot><on_crash>destroy</"
      "on_crash>";
  return xml + devices_xml(vm, options) + command_line_xml(options) +
         hurry_xml(options.accelerated) + "</domain>";
}

namespace {

/// Every value between `begin` and the next quote; how many there were goes to `found`.
std::string replace_values(const std::string& xml, std::string_view begin, const std::string& value,
                           int& found) {
  std::string out;
  std::size_t from = 0;
  found = 0;
  while (true) {
    const auto at = xml.find(begin, from);
    const auto end = at == std::string::npos ? at : xml.find('\'', at + begin.size());
    if (end == std::string::npos) return out + xml.substr(from);
    out += xml.substr(from, at + begin.size() - from) + escape(value);
    from = end;
    ++found;
  }
}

std::string without_element(const std::string& xml, const std::string& name) {
  const std::string close = "</" + name + ">";
  const auto begin = xml.find("<" + name);
  const auto end = begin == std::string::npos ? begin : xml.find(close, begin);
  if (end == std::string::npos) return xml;
  return xml.substr(0, begin) + xml.substr(end + close.size());
}

/// Without what any host had QEMU preload and map, by which program, and how libvirt there was
/// hurried: all in these elements is ours. What was a clone is a VM as any other after a move.
std::string without_qemu(const std::string& xml) {
  return without_element(
      without_element(without_element(xml, "qemu:commandline"), "qemu:capabilities"), "emulator");
}

bool is_emulated(const std::string& xml) {
  const auto begin = xml.find("<domain ");
  const auto end = begin == std::string::npos ? begin : xml.find('>', begin);
  return end != std::string::npos &&
         xml.substr(begin, end - begin).find(" type='qemu'") != std::string::npos;
}

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > kLongestName || !is_alphanumeric(text.front())) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_uuid(std::string_view text) {
  constexpr std::string_view kShape = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  if (text.size() != kShape.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (kShape[i] == 'x' ? !hex : text[i] != '-') return false;
  }
  return true;
}

}  // namespace

std::string retarget(const std::string& xml, const std::string& bridge, const std::string& console,
                     const Preloads& preloads) {
  DomainOptions there;
  there.bridge = bridge;
  there.console_path = console;
  there.preloads = preloads;
  return retarget(xml, there);
}

std::string retarget(const std::string& xml, const DomainOptions& options) {
  int consoles = 0;
  int bridges = 0;
  const std::string moved = replace_values(xml, kConsoleBegin, options.console_path, consoles);
  if (consoles == 0) return "";
  std::string bridged = without_qemu(replace_values(moved, kBridgeBegin, options.bridge, bridges));
  constexpr std::string_view kDevices = "<devices>";
  const auto devices = bridged.find(kDevices);
  if (options.ram != Ram::Own && devices != std::string::npos) {
    bridged.insert(devices + kDevices.size(), element("emulator", options.emulator));
  }
  const auto end = bridged.rfind("</domain>");
  if (end == std::string::npos) return bridged;
  return bridged.substr(0, end) + command_line_xml(options) + hurry_xml(!is_emulated(xml)) +
         bridged.substr(end);
}

std::string text_of(const std::string& xml, const std::string& element) {
  const std::string open = "<" + element + ">";
  const auto begin = xml.find(open);
  if (begin == std::string::npos) return "";
  const auto text = begin + open.size();
  const auto end = xml.find('<', text);
  return end == std::string::npos ? "" : xml.substr(text, end - text);
}

Status check_key(const VmKey& vm) {
  if (!is_name(vm.id.value)) {
    return make_error(Code::InvalidArgument, "'" + vm.id.value + "' is not a VM's name",
                      "use letters, digits, '-', '_' and '.', at most 63");
  }
  if (!is_uuid(vm.uuid)) {
    return make_error(Code::InvalidArgument, "'" + vm.uuid + "' is not a uuid in lower case");
  }
  return ok_status();
}

}  // namespace mare::libvirt
