#include "hypervisor/driver.h"

#include <array>

#include "orchestrator/model/names.h"

namespace mare {
namespace {
constexpr std::array kPhases{Name<OutgoingPhase>{OutgoingPhase::None, "none"},
                             Name<OutgoingPhase>{OutgoingPhase::PreCopying, "pre_copying"},
                             Name<OutgoingPhase>{OutgoingPhase::Switching, "switching"},
                             Name<OutgoingPhase>{OutgoingPhase::PostCopying, "post_copying"},
                             Name<OutgoingPhase>{OutgoingPhase::Completed, "completed"},
                             Name<OutgoingPhase>{OutgoingPhase::Failed, "failed"},
                             Name<OutgoingPhase>{OutgoingPhase::Cancelled, "cancelled"}};
constexpr std::array kTemplatePhases{Name<TemplatePhase>{TemplatePhase::Making, "making"},
                                     Name<TemplatePhase>{TemplatePhase::Ready, "ready"},
                                     Name<TemplatePhase>{TemplatePhase::Failed, "failed"}};
constexpr std::array kCapturePhases{Name<CapturePhase>{CapturePhase::None, "none"},
                                    Name<CapturePhase>{CapturePhase::Ready, "ready"},
                                    Name<CapturePhase>{CapturePhase::Holding, "holding"},
                                    Name<CapturePhase>{CapturePhase::Taken, "taken"},
                                    Name<CapturePhase>{CapturePhase::Durable, "durable"},
                                    Name<CapturePhase>{CapturePhase::Failed, "failed"}};

Error no_captures(const VmKey& vm) {
  return make_error(Code::Unsupported,
                    "the state of VM '" + vm.id.value + "' can't be captured on its host");
}
}  // namespace

std::string_view to_string(CapturePhase phase) {
  return name_of(kCapturePhases, phase);
}
std::optional<CapturePhase> capture_phase_from(std::string_view text) {
  return value_of(kCapturePhases, text);
}

std::string_view to_string(OutgoingPhase phase) {
  return name_of(kPhases, phase);
}
std::optional<OutgoingPhase> outgoing_phase_from(std::string_view text) {
  return value_of(kPhases, text);
}

std::string_view to_string(TemplatePhase phase) {
  return name_of(kTemplatePhases, phase);
}
std::optional<TemplatePhase> template_phase_from(std::string_view text) {
  return value_of(kTemplatePhases, text);
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

Status Driver::release_outgoing(const VmKey& /*vm*/) {
  return ok_status();  // nothing holds here
}

bool holds_its_switch(Strategy strategy) {
  return strategy == Strategy::PreCopy || strategy == Strategy::RateControlled ||
         strategy == Strategy::Compressed;
}

Result<CaptureStatus> Driver::prepare_capture(const CaptureTicket& ticket) {
  return no_captures(ticket.vm);
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
Result<Bytes> Driver::merge_capture(const CheckpointPart& part, bool /*compress*/) {
  return no_captures({part.vm, part.uuid});
}
Result<CaptureLoad> Driver::load_capture(const VmSpec& vm, const CheckpointId& /*checkpoint*/,
                                         const CheckpointPart& /*part*/) {
  return no_captures(vm.key());
}
Result<std::vector<StandbyAnswer>> Driver::keep_standby(
    const std::vector<CheckpointPart>& /*parts*/) {
  return make_error(Code::Unsupported, "this host keeps no parts of checkpoints in its memory");
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
