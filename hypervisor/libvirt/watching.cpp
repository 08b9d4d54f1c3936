#include "hypervisor/libvirt/watching.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "hypervisor/dirtylog/cpu_quota.h"
#include "hypervisor/dirtylog/memory_scan.h"
#include "hypervisor/dirtylog/page_sampling.h"
#include "hypervisor/dirtylog/pagemap_scan.h"
#include "hypervisor/libvirt/copies.h"
#include "hypervisor/libvirt/handles.h"
#include "hypervisor/libvirt/preloads.h"

namespace mare::libvirt {
namespace {

// Before that nobody can tell how busy the host's CPUs are (CpuMeter), also where a guest's memory
// is not looked at anew.
constexpr Milliseconds kTellsUse{550};

/// What QEMU sends beside the RAM of a q35 without graphics: BIOS 256 KiB, option ROMs 128, ACPI
/// tables 128, their loader and pointer 8. Nobody looks into it.
constexpr Bytes kDeviceMemory{520 * 1024};

std::string read_file(const std::string& path) {
  const std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// ld.so skips in silence what it can't find.
std::string why_not_exactly(dirtylog::LogChoice choice, const std::string& library) {
  if (choice == dirtylog::LogChoice::None) return "--dirty-log none";
  if (choice == dirtylog::LogChoice::PageSampling) return "--dirty-log page-sampling";
  if (library.empty()) return "libmare-dirtylog.so is not beside the agent: --dirty-log-library";
  std::error_code failed;
  if (!std::filesystem::is_regular_file(library, failed)) return "there is no file " + library;
  if (!can_preload(library)) {
    return "the name " + library + " has a space or a colon, and can't be preloaded";
  }
  const auto works = dirtylog::pagemap_scan_works();
  return works ? "" : works.error().text();
}

std::chrono::nanoseconds first_write_here(bool exact, Log& log) {
  if (!exact) return dirtylog::kUsualFirstWrite;
  const auto takes = dirtylog::measure_first_write();
  if (!takes) return dirtylog::kUsualFirstWrite;
  log.debug("libvirt", "the first write to a page that the dirty-page log watches takes " +
                           std::to_string(takes->count()) + " ns");
  return *takes;
}

}  // namespace

std::string pid_directory(const std::string& uri) {
  constexpr std::string_view kKey = "socket=";
  const auto key = uri.find(kKey);
  if (key == std::string::npos) return "/run/libvirt/qemu";
  const auto begin = key + kKey.size();
  const std::string socket = uri.substr(begin, uri.find('&', begin) - begin);
  return (std::filesystem::path(socket).parent_path() / "qemu").string();
}

Result<pid_t> find_qemu(const std::string& directory, const VmKey& vm) {
  const std::string text = read_file(directory + "/" + vm.id.value + ".pid");
  pid_t pid = 0;
  std::from_chars(text.data(), text.data() + text.size(), pid);
  const std::string arguments =
      pid > 0 ? read_file("/proc/" + std::to_string(pid) + "/cmdline") : "";
  if (arguments.find(vm.uuid) != std::string::npos) return pid;
  return make_error(Code::NotFound, "no QEMU of VM '" + vm.id.value + "' is on this host");
}

Result<VmProcess> locate(virConnectPtr connection, const std::string& uuid, bool expected,
                         const std::string& directory, const std::string& names) {
  const DomainHandle domain{virDomainLookupByUUIDString(connection, uuid.c_str())};
  if (!domain) return last_read_error("VM " + uuid);
  const VmKey vm = key_of(domain.get());
  if (!vm.id.value.starts_with(names)) {
    return make_error(Code::NotFound, "VM '" + vm.id.value + "' is watched by another");
  }
  // The process first: the same VM may come back in a new one at any moment, and that must have run
  // before anybody registers its RAM, or QEMU's own registration for post-copy fails and the VM is
  // lost.
  const auto pid = find_qemu(directory, vm);
  auto seen = look_at(domain.get(), expected);
  if (!seen) return seen.error();
  if (seen->copy == Copy::Absent) {
    return make_error(Code::NotFound, "VM '" + vm.id.value + "' has ended");
  }
  if (seen->sending || seen->copy == Copy::Incoming) {
    return make_error(Code::FailedPrecondition, "VM '" + vm.id.value + "' is being migrated");
  }
  if (seen->copy != Copy::Running) {
    return make_error(Code::FailedPrecondition, "VM '" + vm.id.value + "' stands still");
  }
  if (!pid) return pid.error();
  return VmProcess{*pid, seen->memory};
}

Watching::Watching(dirtylog::LogChoice choice, std::string library, Locate where, Clock& clock,
                   Log& log)
    : library_(std::move(library)),
      why_not_exact_(why_not_exactly(choice, library_)),
      watches_(choice != dirtylog::LogChoice::None),
      clock_(clock),
      watcher_(opener(std::move(where)), clock, log,
               first_write_here(why_not_exact_.empty(), log)) {
  if (why_not_exact_.empty()) return;
  log.info("libvirt",
           (watches_ ? "the dirty-page log is by page-sampling: " : "no dirty-page log: ") +
               why_not_exact_);
}

dirtylog::OpenLog Watching::opener(Locate where) const {
  const bool exact = why_not_exact_.empty();
  return [where = std::move(where),
          exact](const std::string& uuid) -> Result<std::unique_ptr<dirtylog::PageLog>> {
    auto found = where(uuid);
    if (!found) return found.error();
    return exact ? dirtylog::PagemapScan::open(found->pid, found->memory)
                 : dirtylog::PageSampling::open(found->pid, found->memory);
  };
}

std::string Watching::source() const {
  if (!watches_) return "";
  return why_not_exact_.empty() ? "pagemap-scan" : "page-sampling";
}

void Watching::start() {
  if (!watches_) return;
  cpus_.begin(clock_.now());
  const std::lock_guard lock(mutex_);
  thread_ = std::make_unique<dirtylog::WatcherThread>(watcher_, clock_);
}

void Watching::stop() {
  std::unique_ptr<dirtylog::WatcherThread> ending;  // ends under no lock
  const std::lock_guard lock(mutex_);
  ending = std::move(thread_);
}

void Watching::prepare(const VmProcess& process) const {
  if (!watches_ || preload().empty()) return;
  static_cast<void>(dirtylog::PagemapScan::map_only_what_is_touched(process.pid, process.memory));
}

void Watching::watch(const std::string& uuid) {
  if (!watches_) return;
  watcher_.watch(uuid);
  const std::lock_guard lock(mutex_);
  if (thread_) thread_->wake();
}

void Watching::arrived(const std::string& uuid) {
  if (!watches_) return;
  watcher_.arrived(uuid);
  const std::lock_guard lock(mutex_);
  if (thread_) thread_->wake();
}

void Watching::watch_all(virConnectPtr connection) {
  virDomainPtr* raw = nullptr;
  const int count = virConnectListAllDomains(connection, &raw, VIR_CONNECT_LIST_DOMAINS_ACTIVE);
  for (int i = 0; i < count; ++i) {
    const DomainHandle domain{raw[i]};
    if (is_ours(domain.get())) watch(key_of(domain.get()).uuid);
  }
  if (count >= 0) std::free(raw);
}

Status Watching::give_way(const std::string& uuid,
                          const std::function<Result<VmProcess>()>& where) {
  if (watcher_.back_off(uuid) || preload().empty() || !watches_) return ok_status();
  const auto process = where();
  if (!process) return process.error();
  auto released = dirtylog::PagemapScan::release(process->pid, process->memory);
  const bool nothing_there = !released && (released.error().code == Code::Unsupported ||
                                           released.error().code == Code::NotFound);
  return nothing_there ? ok_status() : released;
}

Milliseconds Watching::look_anew(const std::string& uuid) {
  // When the agent started, others did as well, and a fault took longer than it does.
  if (why_not_exact_.empty() && measures_left_.fetch_sub(1) > 0) {
    if (const auto takes = dirtylog::measure_first_write(); takes) {
      watcher_.saw_first_write(*takes);
    }
  }
  cpus_.begin(clock_.now());
  const auto wait = watcher_.look_anew(uuid);
  const std::lock_guard lock(mutex_);
  if (thread_) thread_->wake();
  return thread_ ? std::max(wait, kTellsUse) : Milliseconds{0};
}

Result<MemoryProfile> Watching::profile(const VmKey& vm, const VmProcess& process) {
  if (!watches_) return make_error(Code::Unsupported, "no dirty-page log: " + why_not_exact_);
  const auto use = cpus_.look(clock_.now());  // before the scan takes one
  const auto report = watcher_.report(vm.uuid);
  auto content =
      report ? dirtylog::scan_memory(process.pid, process.memory, report->heat, report->written)
             : dirtylog::scan_memory(process.pid, process.memory);
  if (!content) return content.error().during("memory of VM '" + vm.id.value + "'");
  MemoryProfile out;
  out.source = source();
  out.taken = clock_.wall_now();
  out.total = content->total + kDeviceMemory;
  out.zero = content->zero;
  out.compressed_fraction = content->compressed_fraction;
  out.hot_compressed_fraction = content->hot_compressed_fraction;
  out.compress_rate = content->compress_rate;
  out.unpack_rate = content->unpack_rate;
  out.host_cpus = use.cpus;
  out.busy_cpus = use.busy;
  if (const auto qemu = dirtylog::Process::open(process.pid); qemu) {
    const auto quota = dirtylog::cpu_quota_of(qemu->vcpu_threads());
    out.cpu_quota = quota.cpus;
    out.cpu_quota_period = quota.period;
  }
  if (!report) {
    watch(vm.uuid);  // an event was missed
    return out;
  }
  if (report->hopeless) {
    return make_error(Code::Unsupported,
                      "VM '" + vm.id.value + "' is not watched: " + report->not_watched,
                      "start it anew, or migrate it");
  }
  for (const auto& cycle : report->cycles) {
    if (!cycle.points.empty()) out.cycles.push_back(cycle);
  }
  out.heat = report->heat;
  out.sequential = report->sequential;
  out.sweep = report->sweep;
  out.cost_fraction = report->cost_fraction;
  out.cpu_granted = report->cpu_granted;
  return out;
}

dirtylog::PageSet Watching::swept(const std::string& uuid) const {
  const auto report = watcher_.report(uuid);
  return report ? report->swept : dirtylog::PageSet{};
}

}  // namespace mare::libvirt
