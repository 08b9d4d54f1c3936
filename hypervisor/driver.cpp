#include "hypervisor/driver.h"

#include <array>
#include <utility>

namespace mare {
namespace {
constexpr std::array<std::pair<OutgoingPhase, std::string_view>, 7> kPhases{{
    {OutgoingPhase::None, "none"},
    {OutgoingPhase::PreCopying, "pre_copying"},
    {OutgoingPhase::Switching, "switching"},
    {OutgoingPhase::PostCopying, "post_copying"},
    {OutgoingPhase::Completed, "completed"},
    {OutgoingPhase::Failed, "failed"},
    {OutgoingPhase::Cancelled, "cancelled"},
}};
constexpr std::array<std::pair<TemplatePhase, std::string_view>, 3> kTemplatePhases{{
    {TemplatePhase::Making, "making"},
    {TemplatePhase::Ready, "ready"},
    {TemplatePhase::Failed, "failed"},
}};
constexpr std::array<std::pair<CapturePhase, std::string_view>, 5> kCapturePhases{{
    {CapturePhase::None, "none"},
    {CapturePhase::Holding, "holding"},
    {CapturePhase::Taken, "taken"},
    {CapturePhase::Durable, "durable"},
    {CapturePhase::Failed, "failed"},
}};

Error no_captures(const VmKey& vm) {
  return make_error(Code::Unsupported,
                    "the state of VM '" + vm.id.value + "' can't be captured on its host");
}
}  // namespace

std::string_view to_string(CapturePhase phase) {
  for (const auto& [known, name] : kCapturePhases) {
    if (known == phase) return name;
  }
  return "none";
}

std::optional<CapturePhase> capture_phase_from(std::string_view text) {
  for (const auto& [phase, name] : kCapturePhases) {
    if (name == text) return phase;
  }
  return std::nullopt;
}

std::string_view to_string(OutgoingPhase phase) {
  for (const auto& [known, name] : kPhases) {
    if (known == phase) return name;
  }
  return "none";
}

std::optional<OutgoingPhase> outgoing_phase_from(std::string_view text) {
  for (const auto& [phase, name] : kPhases) {
    if (name == text) return phase;
  }
  return std::nullopt;
}

std::string_view to_string(TemplatePhase phase) {
  for (const auto& [known, name] : kTemplatePhases) {
    if (known == phase) return name;
  }
  return "failed";
}

std::optional<TemplatePhase> template_phase_from(std::string_view text) {
  for (const auto& [phase, name] : kTemplatePhases) {
    if (name == text) return phase;
  }
  return std::nullopt;
}

Result<TemplateStatus> Driver::make_template(const TemplateSpec& /*what*/) {
  return make_error(Code::Unsupported, "VMs can't be cloned here");
}

Status Driver::start_clone(const VmSpec& vm, const TemplateSpec& /*from*/) {
  return make_error(Code::Unsupported, "VM '" + vm.id.value + "' can't be cloned here");
}

Status Driver::force_outgoing(const VmKey& vm, LimitAction /*how*/) {
  return make_error(Code::Unsupported,
                    "the migration of VM '" + vm.id.value + "' can't be forced to its end here");
}

Result<CaptureStatus> Driver::begin_capture(const CaptureTicket& ticket) {
  return no_captures(ticket.vm);
}
Result<CaptureStatus> Driver::capture(const VmKey& /*vm*/) {
  return CaptureStatus{};
}
Result<CaptureStatus> Driver::release_capture(const VmKey& vm, const CheckpointId& /*checkpoint*/) {
  return no_captures(vm);
}
Status Driver::drop_capture(const VmKey& vm, const CheckpointId& /*checkpoint*/,
                            const std::string& /*path*/) {
  return no_captures(vm);
}
Status Driver::load_capture(const VmSpec& vm, const CheckpointId& /*checkpoint*/,
                            const CheckpointPart& /*part*/) {
  return no_captures(vm.key());
}

Result<LeaseAnswer> Driver::renew_lease(const LeaseTicket& /*ticket*/) {
  return make_error(Code::Unsupported, "this host holds no leases");
}
Status Driver::put_fence_note(const std::string& /*note*/) {
  return make_error(Code::Unsupported, "this host writes no fence notes");
}
Status Driver::remove_fence_note(const std::string& /*note*/) {
  return make_error(Code::Unsupported, "this host writes no fence notes");
}

Result<MemoryProfile> Driver::memory_profile(const VmKey& vm) {
  return make_error(Code::Unsupported,
                    "the memory of VM '" + vm.id.value + "' is not watched here");
}

Result<Milliseconds> Driver::look_anew(const VmKey& /*vm*/) {
  return Milliseconds{0};
}

Result<IncomingEndpoint> Driver::open_link_sink() {
  return make_error(Code::Unsupported, "links are not measured here");
}

Result<LinkMeasurement> Driver::measure_link(const IncomingEndpoint& /*sink*/) {
  return make_error(Code::Unsupported, "links are not measured here");
}

}  // namespace mare
