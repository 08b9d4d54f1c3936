// Values with every field set, no two alike where a mix-up could hide, and comparisons that stop
// compiling when a struct gets a field that they do not know.
#pragma once

#include "hypervisor/driver.h"

namespace mare::agent::test {

VmKey full_key();
VmSpec full_spec();
HostFacts full_facts();
TemplateSpec full_template();
VmObservation full_observation();
VmStatistics full_statistics();
Sending full_sending();
MigrationTicket full_ticket();
OutgoingStatus full_outgoing();
ArrivalReport full_arrival();
MemoryProfile full_profile();
LinkMeasurement full_link();
CaptureTicket full_capture_ticket();
LeaseTicket full_lease_ticket();
LeaseAnswer full_lease_answer();
CaptureStatus full_capture();
CheckpointPart full_part();
CaptureLoad full_load();
StandbyAnswer full_standby();

bool same(const VmKey& a, const VmKey& b);
bool same(const VmSpec& a, const VmSpec& b);
bool same(const HostFacts& a, const HostFacts& b);
bool same(const TemplateSpec& a, const TemplateSpec& b);
bool same(const VmObservation& a, const VmObservation& b);
bool same(const VmStatistics& a, const VmStatistics& b);
bool same(const Sending& a, const Sending& b);
bool same(const MigrationTicket& a, const MigrationTicket& b);
bool same(const Round& a, const Round& b);
bool same(const OutgoingStatus& a, const OutgoingStatus& b);
bool same(const ArrivalReport& a, const ArrivalReport& b);
bool same(const MemoryProfile& a, const MemoryProfile& b);
bool same(const LinkMeasurement& a, const LinkMeasurement& b);
bool same(const CaptureTicket& a, const CaptureTicket& b);
bool same(const CaptureStatus& a, const CaptureStatus& b);
bool same(const LeaseTicket& a, const LeaseTicket& b);
bool same(const LeaseAnswer& a, const LeaseAnswer& b);
bool same(const CheckpointPart& a, const CheckpointPart& b);
bool same(const CaptureLoad& a, const CaptureLoad& b);
bool same(const StandbyAnswer& a, const StandbyAnswer& b);

}  // namespace mare::agent::test
