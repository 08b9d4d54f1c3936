#include "tests/contract/lab.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace mare::contract {
namespace {

namespace fs = std::filesystem;

// no_timer_check: on a busy machine an emulated guest gets its first timer interrupts too late,
// takes its IO-APIC for broken and panics.
constexpr const char* kKernelLine =
    "console=ttyS0 loglevel=5 tsc=reliable clocksource=tsc random.trust_cpu=on panic=-1 "
    "no_timer_check mitigations=off rdinit=/init --";

std::string read_file(const fs::path& path) {
  const std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// An archive in the kernel's initramfs format ("newc" cpio): fields of eight hex digits, names and
/// contents padded to four bytes.
class Initramfs {
 public:
  void add(const std::string& name, unsigned mode, const std::string& content,
           std::pair<unsigned, unsigned> device = {0, 0}) {
    ++inode_;
    const auto size = static_cast<unsigned>(content.size());
    text_ += "070701";
    for (const unsigned field : {inode_, mode, 0U, 0U, 1U, 0U, size, 0U, 0U, device.first,
                                 device.second, static_cast<unsigned>(name.size() + 1), 0U}) {
      char digits[9];
      std::snprintf(digits, sizeof digits, "%08x", field);
      text_ += digits;
    }
    text_ += name + '\0';
    pad();
    text_ += content;
    pad();
  }
  std::string finish() {
    add("TRAILER!!!", 0, "");
    return text_;
  }

 private:
  void pad() {
    while (text_.size() % 4 != 0) text_.push_back('\0');
  }
  std::string text_;
  unsigned inode_ = 0;
};

Status write_initramfs(const fs::path& to) {
  const std::string guest = read_file(MARE_CONTRACT_GUEST);
  if (guest.empty()) {
    return make_error(Code::NotFound, "the guest " MARE_CONTRACT_GUEST " can't be read",
                      "build the target contract-guest");
  }
  Initramfs archive;
  archive.add("dev", S_IFDIR | 0755U, "");
  archive.add("proc", S_IFDIR | 0755U, "");
  archive.add("dev/console", S_IFCHR | 0600U, "", {5, 1});
  archive.add("init", S_IFREG | 0755U, guest);
  std::ofstream out(to, std::ios::binary);
  out << archive.finish() << std::flush;
  return out ? ok_status()
             : Status(make_error(Code::Unavailable, to.string() + " can't be written"));
}

Result<Lab> read_lab(const fs::path& state) {
  const auto json = nlohmann::json::parse(read_file(state / "lab.json"), nullptr, false);
  if (json.is_discarded() || !json.value("complete", false)) {
    return make_error(Code::FailedPrecondition, "no lab is up in " + state.string(),
                      "start it with mare-lab up --state " + state.string());
  }
  Lab lab;
  lab.state = state;
  const auto& plan = json["plan"];
  lab.images = plan.value("images", "");
  lab.agents = json.value("agents", false);
  const std::string subnet = plan.value("subnet", "");
  lab.subnet = subnet.substr(0, subnet.find('.', subnet.find('.') + 1));
  for (int i = 1; i <= plan.value("hosts", 0); ++i) {
    const std::string name = "h" + std::to_string(i);
    const fs::path directory = state / "hosts" / name;
    lab.hosts.push_back({name, lab.subnet + ".0." + std::to_string(10 + i),
                         directory / "run" / "libvirt" / "libvirt-sock", directory / "agent"});
  }
  if (lab.hosts.size() < 2) {
    return make_error(Code::FailedPrecondition, "the lab has fewer than two hosts");
  }
  return lab;
}

}  // namespace

Result<Lab> find_lab() {
  const char* state = std::getenv("MARE_LAB_STATE");
  if (state == nullptr) {
    return make_error(Code::Unsupported, "MARE_LAB_STATE is not set",
                      "set it to the state directory of a lab that is up");
  }
  return read_lab(state);
}

Result<std::string> find_kernel(const Lab& lab) {
  if (const char* given = std::getenv("MARE_CONTRACT_KERNEL")) return std::string(given);
  std::error_code failed;
  for (const auto& image : fs::directory_iterator(lab.images, failed)) {
    std::string version = read_file(image.path() / "current");
    while (!version.empty() && version.back() == '\n') version.pop_back();
    const fs::path kernel = image.path() / version / "vmlinuz";
    if (!version.empty() && fs::exists(kernel, failed)) return kernel.string();
  }
  return make_error(Code::NotFound, "no image with a kernel in " + lab.images.string(),
                    "build one with mare-image build, or set MARE_CONTRACT_KERNEL");
}

LabHosts::LabHosts(Lab lab, std::string kernel)
    : lab_(std::move(lab)),
      kernel_(std::move(kernel)),
      files_(lab_.state / ("contract-" + std::to_string(getpid()))),
      log_(clock_, LogLevel::Warning) {
  // As the agent does: libvirt answers a keep-alive on a connection that is being closed.
  signal(SIGPIPE, SIG_IGN);
  std::error_code failed;
  fs::create_directories(files_, failed);
  const auto written = write_initramfs(files_ / "initrd.img");
  EXPECT_TRUE(written.ok()) << written.error().text();
}

LabHosts::~LabHosts() {
  std::error_code ignored;
  // What a failure left is worth a look.
  if (!testing::Test::HasFailure()) fs::remove_all(files_, ignored);
}

VmSpec LabHosts::vm(const GuestPlan& plan) {
  ++made_;
  VmSpec spec;
  spec.id = VmId{names() + std::to_string(made_)};
  spec.uuid = make_uuid(rng_);
  const auto mac = MacAddress::parse("52:54:00:ff:fe:" + make_hex(rng_, 1));
  const auto ip = Ipv4Address::parse(lab_.subnet + ".1." + std::to_string(240 + made_ % 10));
  EXPECT_TRUE(mac.ok() && ip.ok());
  if (mac) spec.mac = *mac;
  if (ip) spec.ip = *ip;
  spec.memory = plan.memory;
  spec.kernel = kernel_;
  spec.initrd = (files_ / "initrd.img").string();
  spec.kernel_args = std::string(kKernelLine) + " wws=" + std::to_string(plan.wws.count) +
                     " rate=" + std::to_string(static_cast<std::uint64_t>(plan.dirty_bytes_per_s)) +
                     (plan.faulty ? " fault=1" : "");
  return spec;
}

std::string LabHosts::names() {
  return "ct-" + std::to_string(getpid()) + "-";
}

TemplateSpec LabHosts::template_of(const VmSpec& vm) {
  return {vm.kernel, vm.initrd, vm.kernel_args + " mare.template", vm.memory, vm.vcpus};
}

std::string LabHosts::new_file() {
  ++made_;
  return (files_ / ("saved-" + std::to_string(made_))).string();
}

std::optional<double> LabHosts::count(int host, const VmSpec& vm) {
  constexpr std::string_view kLine = "contract count ";
  const std::string said = read_file(fs::path(state_of(host)) / "console" / (vm.id.value + ".log"));
  // The last whole line: the guest may be in the middle of one.
  const auto end = said.rfind('\n');
  if (end == std::string::npos) return std::nullopt;
  const auto at = said.rfind(kLine, end);
  if (at == std::string::npos || said.find('\n', at) == std::string::npos) return std::nullopt;
  return std::strtod(said.c_str() + at + kLine.size(), nullptr);
}

}  // namespace mare::contract
