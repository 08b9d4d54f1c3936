#include "hypervisor/agent/convert.h"

namespace mare::agent {

pb::CaptureTicket to_wire(const CaptureTicket& value) {
  pb::CaptureTicket out;
  out.set_checkpoint(value.checkpoint.value);
  *out.mutable_vm() = to_wire(value.vm);
  out.set_path(value.path);
  out.set_hold_limit_ms(value.hold_limit.count());
  if (value.base) {
    out.mutable_base()->set_path(value.base->path);
    out.mutable_base()->set_size_bytes(value.base->size.count);
    out.mutable_base()->set_checksum(value.base->checksum);
  }
  out.set_compress(value.compress);
  out.set_answer_within_ms(value.answer_within.count());
  out.set_leaves(value.leaves);
  return out;
}

CaptureTicket from_wire(const pb::CaptureTicket& value) {
  CaptureTicket out{CheckpointId{value.checkpoint()}, from_wire(value.vm()), value.path(),
                    Milliseconds{value.hold_limit_ms()}};
  if (value.has_base()) {
    out.base =
        CaptureBase{value.base().path(), Bytes{value.base().size_bytes()}, value.base().checksum()};
  }
  out.compress = value.compress();
  out.answer_within = Milliseconds{value.answer_within_ms()};
  out.leaves = value.leaves();
  return out;
}

pb::CaptureStatus to_wire(const CaptureStatus& value) {
  pb::CaptureStatus out;
  out.set_phase(std::string(to_string(value.phase)));
  out.set_checkpoint(value.checkpoint.value);
  out.set_error(value.error);
  out.set_stopped_us(value.stopped.count());
  out.set_resumed_us(value.resumed.count());
  out.set_durable_us(value.durable.count());
  out.set_size_bytes(value.size.count);
  out.set_checksum(value.checksum);
  out.set_written_bytes(value.written.count);
  out.set_incremental(value.incremental);
  out.set_full_because(value.full_because);
  return out;
}

Result<CaptureStatus> from_wire(const pb::CaptureStatus& value) {
  const auto phase = capture_phase_from(value.phase());
  if (!phase) {
    return make_error(Code::Internal, "the agent says that a capture is '" + value.phase() + "'",
                      "install the same version on all hosts");
  }
  CaptureStatus out;
  out.phase = *phase;
  out.checkpoint = CheckpointId{value.checkpoint()};
  out.error = value.error();
  out.stopped = WallTime{value.stopped_us()};
  out.resumed = WallTime{value.resumed_us()};
  out.durable = WallTime{value.durable_us()};
  out.size = Bytes{value.size_bytes()};
  out.checksum = value.checksum();
  out.written = Bytes{value.written_bytes()};
  out.incremental = value.incremental();
  out.full_because = value.full_because();
  return out;
}

pb::CaptureLoad to_wire(const CaptureLoad& value) {
  pb::CaptureLoad out;
  out.set_reading_us(value.reading.count());
  out.set_restoring_us(value.restoring.count());
  out.set_mapped(value.mapped);
  return out;
}

CaptureLoad from_wire(const pb::CaptureLoad& value) {
  return {Microseconds{value.reading_us()}, Microseconds{value.restoring_us()}, value.mapped()};
}

pb::StandbyAnswer to_wire(const StandbyAnswer& value) {
  pb::StandbyAnswer out;
  out.set_vm(value.vm.value);
  out.set_kept(value.kept);
  out.set_memory_bytes(value.memory.count);
  out.set_why_not(value.why_not);
  return out;
}

StandbyAnswer from_wire(const pb::StandbyAnswer& value) {
  return {VmId{value.vm()}, value.kept(), Bytes{value.memory_bytes()}, value.why_not()};
}

pb::CheckpointPart to_wire(const CheckpointPart& value) {
  pb::CheckpointPart out;
  out.set_vm(value.vm.value);
  out.set_uuid(value.uuid);
  out.set_host(value.host.value);
  out.set_path(value.path);
  out.set_size_bytes(value.size.count);
  out.set_checksum(value.checksum);
  out.set_stopped_us(value.stopped.count());
  out.set_resumed_us(value.resumed.count());
  out.set_written_bytes(value.written.count);
  out.set_base(value.base.value);
  out.set_partner(value.partner.value);
  return out;
}

CheckpointPart from_wire(const pb::CheckpointPart& value) {
  CheckpointPart out;
  out.vm = VmId{value.vm()};
  out.uuid = value.uuid();
  out.host = HostId{value.host()};
  out.path = value.path();
  out.size = Bytes{value.size_bytes()};
  out.checksum = value.checksum();
  out.stopped = WallTime{value.stopped_us()};
  out.resumed = WallTime{value.resumed_us()};
  out.written = Bytes{value.written_bytes()};
  out.base = CheckpointId{value.base()};
  out.partner = HostId{value.partner()};
  return out;
}

pb::LeaseTicket to_wire(const LeaseTicket& value) {
  pb::LeaseTicket out;
  out.set_stamp(value.stamp);
  out.set_term_ms(value.term.count());
  out.set_enforced(value.enforced);
  out.set_note(value.note);
  return out;
}

LeaseTicket from_wire(const pb::LeaseTicket& value) {
  return {value.stamp(), Milliseconds{value.term_ms()}, value.enforced(), value.note()};
}

pb::LeaseAnswer to_wire(const LeaseAnswer& value) {
  pb::LeaseAnswer out;
  out.set_stamp(value.stamp);
  out.set_granted(value.granted);
  out.set_enforced(value.enforced);
  return out;
}

LeaseAnswer from_wire(const pb::LeaseAnswer& value) {
  return {value.stamp(), value.granted(), value.enforced()};
}

}  // namespace mare::agent
