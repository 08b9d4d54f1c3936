#include "hypervisor/libvirt/copies.h"

#include <array>
#include <utility>

#include "hypervisor/libvirt/domain_xml.h"
#include "hypervisor/libvirt/handles.h"

namespace mare::libvirt {
namespace {

constexpr int kLooks = 5;

using StateAndReason = std::pair<int, int>;

Busy busy_with(virDomainPtr domain) {
  JobStats stats;
  if (stats.read(domain, 0)) return {stats.sending(), stats.receiving()};
  // "Migration statistics are available only on the source host": refused on the receiving side
  // alone.
  return {false, last_error_code() == VIR_ERR_OPERATION_INVALID};
}

}  // namespace

Copy copy_of(int state, int reason, Busy busy, bool expected) {
  switch (state) {
    case VIR_DOMAIN_RUNNING:
      // libvirt leaves it "running", but its processors wait for pages that do not come.
      return reason == VIR_DOMAIN_RUNNING_POSTCOPY_FAILED ? Copy::Paused : Copy::Running;
    case VIR_DOMAIN_BLOCKED:
    case VIR_DOMAIN_PMSUSPENDED:
      return Copy::Running;
    case VIR_DOMAIN_PAUSED:
      break;
    default:  // its guest is over: QEMU is about to go, or gone
      return Copy::Absent;
  }
  // It has run, here or there.
  if (reason == VIR_DOMAIN_PAUSED_POSTCOPY || reason == VIR_DOMAIN_PAUSED_POSTCOPY_FAILED) {
    return Copy::Paused;
  }
  if (busy.sending) return Copy::Paused;
  if (busy.receiving) return Copy::Incoming;
  // Received, but nobody said go: it has not run.
  const bool half_way =
      reason == VIR_DOMAIN_PAUSED_MIGRATION || reason == VIR_DOMAIN_PAUSED_STARTING_UP;
  return expected && half_way ? Copy::Incoming : Copy::Paused;
}

PostCopy post_copy_of(int state, int reason, Busy busy) {
  if (state != VIR_DOMAIN_PAUSED || busy.receiving) return PostCopy::None;
  if (reason == VIR_DOMAIN_PAUSED_POSTCOPY_FAILED) return PostCopy::Broken;
  return reason == VIR_DOMAIN_PAUSED_POSTCOPY ? PostCopy::Going : PostCopy::None;
}

PostCopy in_post_copy(virDomainPtr domain) {
  StateAndReason now;
  if (virDomainGetState(domain, &now.first, &now.second, 0) != 0) return PostCopy::None;
  return post_copy_of(now.first, now.second, busy_with(domain));
}

Result<CopySeen> look_at(virDomainPtr domain, bool expected) {
  const auto read = [&](StateAndReason& to) {
    return virDomainGetState(domain, &to.first, &to.second, 0) == 0;
  };
  const auto failed = [&]() -> Result<CopySeen> {
    const Error error = last_read_error("the state of a VM");
    if (error.code == Code::NotFound) return CopySeen{};
    return error;
  };
  StateAndReason before;
  if (!read(before)) return failed();
  Busy busy;
  for (int look = 0; look < kLooks; ++look) {
    busy = busy_with(domain);
    StateAndReason after;
    if (!read(after)) return failed();
    if (std::exchange(before, after) == after) break;
  }
  CopySeen seen;
  seen.copy = copy_of(before.first, before.second, busy, expected);
  seen.post_copy = post_copy_of(before.first, before.second, busy);
  seen.sending = busy.sending || seen.post_copy != PostCopy::None;
  seen.starved =
      before.first == VIR_DOMAIN_RUNNING && before.second == VIR_DOMAIN_RUNNING_POSTCOPY_FAILED;
  virDomainInfo info{};
  if (virDomainGetInfo(domain, &info) != 0) return failed();
  seen.memory = Bytes{info.maxMem * 1024};
  return seen;
}

namespace {
bool is_marked(virDomainPtr domain, const char* uri) {
  return !take_text(virDomainGetMetadata(domain, VIR_DOMAIN_METADATA_ELEMENT, uri, 0)).empty();
}
}  // namespace

bool is_ours(virDomainPtr domain) {
  return is_marked(domain, kMetadataUri);
}

bool is_template(virDomainPtr domain) {
  return is_marked(domain, kTemplateUri);
}

OutgoingStatus found_job(virDomainPtr domain) {
  JobStats stats;
  OutgoingStatus out;
  const bool sending = stats.read(domain, 0) && stats.sending();
  StateAndReason now;
  if (virDomainGetState(domain, &now.first, &now.second, 0) != 0) return out;
  const PostCopy post_copy =
      sending ? post_copy_of(now.first, now.second, {true, false}) : in_post_copy(domain);
  if (!sending && post_copy == PostCopy::None) return out;
  const bool paused = now.first == VIR_DOMAIN_PAUSED;
  out.phase = paused ? OutgoingPhase::Switching : OutgoingPhase::PreCopying;
  if (post_copy != PostCopy::None) out.phase = OutgoingPhase::PostCopying;
  if (post_copy == PostCopy::Broken) out.error = "the connection between the hosts broke";
  out.memory_total = Bytes{stats.natural(VIR_DOMAIN_JOB_MEMORY_TOTAL)};
  out.transferred = Bytes{stats.natural(VIR_DOMAIN_JOB_DATA_PROCESSED)};
  out.remaining = Bytes{stats.natural(VIR_DOMAIN_JOB_DATA_REMAINING)};
  out.elapsed = Milliseconds{static_cast<std::int64_t>(stats.natural(VIR_DOMAIN_JOB_TIME_ELAPSED))};
  return out;
}

VmKey key_of(virDomainPtr domain) {
  std::array<char, VIR_UUID_STRING_BUFLEN> uuid{};
  const char* name = virDomainGetName(domain);
  if (name == nullptr || virDomainGetUUIDString(domain, uuid.data()) != 0) return {};
  return {VmId{name}, uuid.data()};
}

}  // namespace mare::libvirt
