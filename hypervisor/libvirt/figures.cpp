#include "hypervisor/libvirt/figures.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <string_view>

#include "hypervisor/libvirt/handles.h"

namespace mare::libvirt {
namespace {

void add_traffic(virDomainPtr domain, VmStatistics& out) {
  const std::string xml = take_text(virDomainGetXMLDesc(domain, 0));
  constexpr std::string_view kBefore = "<target dev='";
  const auto begin = xml.find(kBefore, std::min(xml.find("<interface"), xml.size()));
  if (begin == std::string::npos) return;
  const auto name = begin + kBefore.size();
  const std::string device = xml.substr(name, xml.find('\'', name) - name);
  virDomainInterfaceStatsStruct traffic{};
  if (virDomainInterfaceStats(domain, device.c_str(), &traffic, sizeof traffic) != 0) return;
  // As the guest sees it: libvirt turns the tap's view round.
  out.received_bytes = static_cast<std::uint64_t>(std::max<long long>(0, traffic.rx_bytes));
  out.sent_bytes = static_cast<std::uint64_t>(std::max<long long>(0, traffic.tx_bytes));
}

}  // namespace

Result<VmStatistics> figures_of(virDomainPtr domain, const VmKey& vm) {
  virDomainInfo info{};
  if (virDomainGetInfo(domain, &info) != 0) {
    return last_read_error("figures of VM '" + vm.id.value + "'");
  }
  VmStatistics out;
  out.cpu_time = std::chrono::duration_cast<Microseconds>(
      std::chrono::nanoseconds{static_cast<std::int64_t>(info.cpuTime)});
  std::array<virDomainMemoryStatStruct, VIR_DOMAIN_MEMORY_STAT_NR> memory{};
  const int got = virDomainMemoryStats(domain, memory.data(), memory.size(), 0);
  for (int i = 0; i < got; ++i) {
    const auto& entry = memory.at(static_cast<std::size_t>(i));
    if (entry.tag == VIR_DOMAIN_MEMORY_STAT_RSS) out.resident = Bytes{entry.val * 1024};
  }
  add_traffic(domain, out);
  return out;
}

void add_figures(virDomainPtr domain, ArrivalReport& report) {
  JobStats stats;
  // Kept, or only the first to ask would get them.
  const unsigned flags = VIR_DOMAIN_JOB_STATS_COMPLETED | VIR_DOMAIN_JOB_STATS_KEEP_COMPLETED;
  if (!stats.read(domain, flags)) return;
  if (stats.operation() != VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN) return;
  const auto span = [&](const char* name) -> std::optional<Microseconds> {
    if (!stats.has(name)) return std::nullopt;
    return Milliseconds{static_cast<std::int64_t>(stats.natural(name))};
  };
  report.downtime = span(VIR_DOMAIN_JOB_DOWNTIME);
  report.total_time = span(VIR_DOMAIN_JOB_TIME_ELAPSED);
  report.transferred = Bytes{stats.natural(VIR_DOMAIN_JOB_DATA_PROCESSED)};
}

}  // namespace mare::libvirt
