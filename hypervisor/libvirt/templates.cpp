#include "hypervisor/libvirt/templates.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "hypervisor/libvirt/copies.h"
#include "hypervisor/libvirt/device_state.h"

namespace mare::libvirt {
namespace {

namespace fs = std::filesystem;

// An emulated guest on a busy machine comes to its place within 30 s.
constexpr auto kComesWithin = std::chrono::minutes{3};
constexpr auto kFailureHolds = std::chrono::minutes{10};
// Of an image, its versions and the sizes of VMs. Each takes what its guest had touched, some 140
// MB of an image's guest.
constexpr std::size_t kKept = 4;
constexpr const char* kNamePrefix = "mare-template-";
// Nobody has ever seen it on a network: its card is never up.
constexpr const char* kTemplateMac = "52:54:00:00:00:00";

std::string read_text(const std::string& path) {
  const std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string file_as_it_is(const std::string& path) {
  std::error_code failed;
  const auto size = fs::file_size(path, failed);
  const auto time = fs::last_write_time(path, failed);
  return path + " " + std::to_string(failed ? 0 : size) + " " +
         std::to_string(failed ? 0 : time.time_since_epoch().count());
}

/// FNV-1a, 64 bits: names a directory, and `what` in it is compared in full.
std::uint64_t digest_of(const std::string& text) {
  std::uint64_t digest = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return digest;
}

/// A uuid that is the same for the same key: the domain is found again by it.
std::string domain_uuid(const std::string& key) {
  return key.substr(0, 8) + "-" + key.substr(8, 4) + "-4" + key.substr(12, 3) + "-8000-" +
         key.substr(0, 12);
}

VmSpec guest_of(const TemplateSpec& what, const std::string& key) {
  VmSpec guest;
  guest.id = VmId{kNamePrefix + key};
  guest.uuid = domain_uuid(key);
  if (auto mac = MacAddress::parse(kTemplateMac)) guest.mac = *mac;
  guest.memory = what.memory;
  guest.vcpus = what.vcpus;
  guest.kernel = what.kernel;
  guest.initrd = what.initrd;
  guest.kernel_args = what.kernel_args;
  return guest;
}

}  // namespace

Owner qemu_owner(const std::string& capabilities) {
  const auto model = capabilities.find("<model>dac</model>");
  constexpr std::string_view kLabel = "<baselabel type='qemu'>+";
  const auto label = model == std::string::npos ? model : capabilities.find(kLabel, model);
  if (label == std::string::npos) return {};
  const char* end = capabilities.data() + capabilities.size();
  Owner owner;
  const auto user = std::from_chars(capabilities.data() + label + kLabel.size(), end, owner.user);
  if (user.ec != std::errc{} || end - user.ptr < 2) return {};
  if (std::from_chars(user.ptr + 2, end, owner.group).ec != std::errc{}) return {};
  return owner;
}

std::string describe(const TemplateSpec& what, const std::string& hypervisor) {
  return hypervisor + "\n" + file_as_it_is(what.kernel) + "\n" + file_as_it_is(what.initrd) + "\n" +
         what.kernel_args + "\n" + std::to_string(what.memory.count) + " bytes, " +
         std::to_string(what.vcpus) + " vCPUs\n";
}

std::string key_of(const std::string& description) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx",
                static_cast<unsigned long long>(digest_of(description)));
  return text.data();
}

Templates::Templates(std::string directory, const std::string& memory, Clock& clock, Log& log)
    : directory_(std::move(directory)),
      memory_(memory.empty() ? directory_ : memory),
      clock_(clock),
      log_(log) {}

bool Templates::make_places(const std::string& key) const {
  remove(key);
  for (const auto& place : {directory_ + "/" + key, memory_ + "/" + key}) {
    std::error_code failed;
    fs::create_directories(place, failed);
    // QEMU makes its files itself, as whoever it runs as.
    if (failed || chown(place.c_str(), owner_.user, owner_.group) != 0) return false;
  }
  return true;
}

void Templates::remove(const std::string& key) const {
  std::error_code ignored;
  // `what` first: a template without its RAM must not be found.
  fs::remove(path(key, "what"), ignored);
  fs::remove_all(memory_ + "/" + key, ignored);
  fs::remove_all(directory_ + "/" + key, ignored);
}

Status Templates::open(virConnectPtr connection, const std::string& capabilities) {
  owner_ = qemu_owner(capabilities);
  end_left_over(connection);
  for (const auto& place : {directory_, memory_}) {
    std::error_code failed;
    fs::create_directories(place, failed);
    if (failed) {
      return make_error(Code::Unavailable, "cannot make " + place + ": " + failed.message());
    }
  }
  forget_strays();
  return ok_status();
}

/// RAM that belongs to no template holds memory for nothing.
void Templates::forget_strays() const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(memory_, ignored)) {
    const std::string key = entry.path().filename().string();
    if (!fs::exists(path(key, "what"), ignored)) remove(key);
  }
}

/// What an agent before this one began: it holds memory, and nobody would ask for it again.
void Templates::end_left_over(virConnectPtr connection) const {
  virDomainPtr* raw = nullptr;
  const int count = virConnectListAllDomains(connection, &raw, VIR_CONNECT_LIST_DOMAINS_ACTIVE);
  for (int i = 0; i < count; ++i) {
    const DomainHandle domain{raw[i]};
    if (!is_template(domain.get())) continue;
    // Of this directory: tests have several agents on one libvirtd.
    const std::string xml = take_text(virDomainGetXMLDesc(domain.get(), 0));
    if (xml.find(escape(directory_ + "/")) == std::string::npos) continue;
    virDomainDestroyFlags(domain.get(), VIR_DOMAIN_DESTROY_DEFAULT);
  }
  if (count >= 0) std::free(raw);
}

std::optional<TemplateFiles> Templates::find(const TemplateSpec& what,
                                             const std::string& hypervisor) {
  const std::string description = describe(what, hypervisor);
  const std::string key = key_of(description);
  std::error_code ignored;
  if (read_text(path(key, "what")) != description) return std::nullopt;
  if (!fs::exists(ram(key), ignored)) return std::nullopt;  // the host was started anew
  // The one that was used last is the last to go.
  fs::last_write_time(path(key, "what"), fs::file_time_type::clock::now(), ignored);
  return TemplateFiles{ram(key), path(key, "state")};
}

Result<TemplateStatus> Templates::make(virConnectPtr connection, const TemplateSpec& what,
                                       const std::string& hypervisor, DomainOptions options,
                                       const Admit& admit, const Release& release) {
  const std::lock_guard lock(mutex_);
  if (find(what, hypervisor)) return TemplateStatus{TemplatePhase::Ready, ""};
  const std::string description = describe(what, hypervisor);
  const std::string key = key_of(description);
  const auto failure = failures_.find(key);
  if (failure != failures_.end()) {
    if (clock_.now() - failure->second.when < kFailureHolds) {
      return TemplateStatus{TemplatePhase::Failed, failure->second.why};
    }
    failures_.erase(failure);
  }
  if (making_.contains(key)) return go_on(connection, key, description, release);
  return begin(connection, what, key, std::move(options), admit, release);
}

Result<TemplateStatus> Templates::begin(virConnectPtr connection, const TemplateSpec& what,
                                        const std::string& key, DomainOptions options,
                                        const Admit& admit, const Release& release) {
  const VmSpec guest = guest_of(what, key);
  const DomainHandle there{virDomainLookupByUUIDString(connection, guest.uuid.c_str())};
  // An agent before this one began it: nobody knows how far it is.
  if (there) virDomainDestroyFlags(there.get(), VIR_DOMAIN_DESTROY_DEFAULT);
  if (auto room = admit(guest); !room) return room.error();
  make_way(key);
  if (!make_places(key)) {
    release(guest.uuid);
    return fail(key, "cannot make " + directory_ + "/" + key + " or " + memory_ + "/" + key);
  }
  options.ram = Ram::Template;
  options.ram_file = ram(key);
  options.console_path = path(key, "console");
  const std::string xml = domain_xml(guest, options);
  const DomainHandle made{virDomainCreateXML(connection, xml.c_str(), VIR_DOMAIN_NONE)};
  if (!made) {
    const Error error = last_error("a template can't be started");
    release(guest.uuid);
    return fail(key, error.message);
  }
  making_[key] = {guest, clock_.now()};
  return TemplateStatus{};
}

Result<TemplateStatus> Templates::go_on(virConnectPtr connection, const std::string& key,
                                        const std::string& description, const Release& release) {
  const Making making = making_.at(key);
  const DomainHandle domain{virDomainLookupByUUIDString(connection, making.guest.uuid.c_str())};
  if (!domain) {
    const Error error = last_read_error("the template");
    if (error.code != Code::NotFound) return error;
    release(making.guest.uuid);
    making_.erase(key);
    return fail(key, "its guest ended: " + last_words(key));
  }
  const bool ready = says_ready(key);
  if (!ready && clock_.now() - making.since < kComesWithin) return TemplateStatus{};
  const Status kept =
      ready ? keep(domain.get(), key, description)
            : Status(make_error(Code::Internal,
                                "its guest does not come to its place: " + last_words(key),
                                "build the image with this version of Maré"));
  virDomainDestroyFlags(domain.get(), VIR_DOMAIN_DESTROY_DEFAULT);
  release(making.guest.uuid);
  making_.erase(key);
  if (!kept) return fail(key, kept.error().text());
  log_.info("libvirt", "template " + key + " is ready");
  return TemplateStatus{TemplatePhase::Ready, ""};
}

Status Templates::keep(virDomainPtr domain, const std::string& key,
                       const std::string& description) {
  if (virDomainSuspend(domain) != 0) return last_error("a template can't be paused");
  if (auto saved = save_devices(domain, path(key, "state"), clock_); !saved) return saved;
  // By a rename: it is there in full or not at all. Not synced: after a power cut the files may be
  // short, but `what` would be, too.
  const std::string partial = path(key, "what.partial");
  std::ofstream out(partial, std::ios::trunc | std::ios::binary);
  out << description << std::flush;
  std::error_code failed;
  if (out) fs::rename(partial, path(key, "what"), failed);
  if (!out || failed) return make_error(Code::ResourceExhausted, "cannot write " + partial);
  return ok_status();
}

TemplateStatus Templates::fail(const std::string& key, const std::string& why) {
  failures_[key] = {why, clock_.now()};
  std::error_code ignored;
  fs::remove(ram(key), ignored);  // its console is worth a look
  log_.warn("libvirt", "template " + key + ": " + why);
  return {TemplatePhase::Failed, why};
}

bool Templates::says_ready(const std::string& key) const {
  return read_text(path(key, "console")).find(kTemplateReady) != std::string::npos;
}

std::string Templates::last_words(const std::string& key) const {
  std::string said = read_text(path(key, "console"));
  while (!said.empty() && static_cast<unsigned char>(said.back()) <= ' ') said.pop_back();
  const auto begin = said.rfind('\n');
  return said.empty() ? "it said nothing" : said.substr(begin == std::string::npos ? 0 : begin + 1);
}

void Templates::make_way(const std::string& but) {
  std::vector<std::pair<fs::file_time_type, fs::path>> kept;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name == but || making_.contains(name)) continue;
    kept.emplace_back(fs::last_write_time(entry.path() / "what", ignored), entry.path());
  }
  std::sort(kept.begin(), kept.end());
  for (std::size_t i = 0; i + kKept <= kept.size(); ++i) remove(kept[i].second.filename());
}

}  // namespace mare::libvirt
