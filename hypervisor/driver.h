// The driver port: what Maré asks of a hypervisor on one host. Designed for two real ones (libvirt
// with QEMU, Xen's libxl) and a simulated one; tests/contract holds every backend to this text.
//
// Every call is short and idempotent: asking twice is as good as once, and after a crash of either
// side the same call tells the truth. Nothing here waits for a migration: begin_outgoing() starts
// it and returns, outgoing() says how far it is. save() and restore() may take as long as the
// memory takes to write.
//
// Threads: all methods may be called from several threads at once.
// Absent is a value, not an error: observe() of an unknown VM answers Copy::Absent.
// A call that could not be made is Unavailable; one that broke midway is OutcomeUnknown, never
// Failed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hypervisor/capture.h"
#include "hypervisor/lease.h"
#include "orchestrator/core/clock.h"
#include "orchestrator/core/ids.h"
#include "orchestrator/core/net.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"
#include "orchestrator/model/entities.h"
#include "orchestrator/model/forecast.h"
#include "orchestrator/model/migration_state.h"

namespace mare {

/// Names one incarnation of a VM. The uuid decides: a copy with the same name and another uuid is
/// foreign.
struct VmKey {
  VmId id;
  std::string uuid;
};

/// Everything that a host needs to run a VM. Hosts see the image's files under the same path.
struct VmSpec {
  VmId id;
  std::string uuid;
  MacAddress mac;
  Ipv4Address ip;  // for announcements; the guest sets it itself
  Bytes memory;
  int vcpus = 1;
  std::string kernel;
  std::string initrd;
  std::string kernel_args;
  VmKey key() const { return {id, uuid}; }
};

/// What a VM and its clones have in common. A template is booted with it once and waits, with no
/// name and no address, at a place that its guest tells by kTemplateReady on its console; clones
/// share its memory as it was there, until they write.
struct TemplateSpec {
  std::string kernel;
  std::string initrd;
  std::string kernel_args;  // of the template's own boot
  Bytes memory;
  int vcpus = 1;
};
inline constexpr const char* kTemplateReady = "mare: template ready";

enum class TemplatePhase : std::uint8_t { Making, Ready, Failed };
std::string_view to_string(TemplatePhase phase);
std::optional<TemplatePhase> template_phase_from(std::string_view text);

struct TemplateStatus {
  TemplatePhase phase = TemplatePhase::Making;
  std::string why;  // it failed
};

struct HostFacts {
  std::string hypervisor;  // "qemu 10.0.2 (tcg), libvirt 11.3.0"
  Bytes memory;            // that VMs may use, in all
  int cpus = 0;
  /// What one of its CPUs does in a second, in any unit that all hosts share; 0: it does not tell.
  double cpu_speed = 0;
  Bytes vm_overhead;            // a VM takes this much on top of its memory
  bool accelerated = false;     // KVM or Xen, not emulation
  bool live_migration = false;  // and if not:
  std::string live_migration_why;
  std::vector<Strategy> strategies;  // that this host can take part in, as either end
  std::string dirty_log;             // "pagemap-scan", ...; "" if it has none, and then:
  std::string dirty_log_why;
  std::string agent_version;
  bool migration_tls = false;     // pages are encrypted on their way; both ends must agree
  std::string migration_address;  // where other hosts send VMs; "" if it tells none
  bool cloning = false;           // VMs can start as clones of a template, and if not:
  std::string cloning_why;
  bool captures_to_leave = false;  // it knows CaptureTicket::leaves, and load_capture()
  /// What hosts on one machine have in common; "" if it does not tell.
  std::string machine;
};

/// How far the source is with sending one VM.
enum class OutgoingPhase : std::uint8_t {
  None,         // no migration of this VM is known here
  PreCopying,   // rounds are sent, the VM runs here
  Switching,    // the VM is paused here for the last round
  PostCopying,  // the VM runs at the destination and fetches its pages from here: no way back
  Completed,    // the hypervisor says that the destination has it
  Failed,
  Cancelled,
};
std::string_view to_string(OutgoingPhase phase);
std::optional<OutgoingPhase> outgoing_phase_from(std::string_view text);

struct OutgoingStatus {
  OutgoingPhase phase = OutgoingPhase::None;
  OperationId operation;  // that began it; empty when the agent restarted since
  /// The hypervisor's own words when Failed. While PostCopying: why no pages come, "" if they do;
  /// the VM stands still at the destination then, and begin_outgoing() tries to mend it.
  std::string error;
  std::vector<Round> rounds;
  Bytes memory_total;
  Bytes transferred;
  Bytes remaining;
  double dirty_bytes_per_s = 0;
  Microseconds elapsed{0};
  WallTime paused_at{0};  // when the source's copy stopped for the last round, 0 if it did not
  bool holds = false;     // it could switch, and waits for release_outgoing()
};

/// One copy of a VM as this host sees it.
struct VmObservation {
  VmKey key;
  Copy copy = Copy::Absent;
  /// A migration of it out of this host is running right now, or is a post-copy that broke: this
  /// copy holds pages that the destination's needs, so it must neither go on nor be destroyed.
  bool sending = false;
  Bytes memory;  // of the VM
  /// Lines on its console that tell of a sick guest kernel (BUG, Oops, panic, ...), since its start
  /// here.
  int console_faults = 0;
  std::string console_first_fault;
};

struct VmStatistics {
  Microseconds cpu_time{0};  // of all vCPUs; the guest's progress
  Bytes resident;            // of the hypervisor's process
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_bytes = 0;
};

/// The part of an older checkpoint that a new one may be built on.
struct CaptureBase {
  std::string path;
  Bytes size;                  // of its state
  std::uint64_t checksum = 0;  // of its state
};

/// One VM's part of a checkpoint that is to be taken.
struct CaptureTicket {
  CheckpointId checkpoint;
  VmKey vm;
  std::string path;  // of a new file, on storage that all hosts see; its directory may be new too
  /// A VM that nobody released goes on by itself after so long, and its capture fails: nobody's
  /// death leaves a job standing.
  Milliseconds hold_limit{60'000};
  /// Only what differs from it is written. Where it can't be (it is gone, damaged or another one,
  /// or this backend has no such files) the part is a full one, and says why.
  std::optional<CaptureBase> base = {};
  bool compress = true;
  /// begin_capture() answers when the state is taken, or after so long if that takes longer; 0: at
  /// once. Saves the question whether it is, while VMs stand still.
  Milliseconds answer_within{0};
  /// The VM is to go on elsewhere, from this part. It is Durable before the release, while the VM
  /// stands still, and release_capture() ends the copy here instead of letting it go on.
  bool leaves = false;
};

/// What both ends of a migration must know.
struct MigrationTicket {
  OperationId operation;  // of this sending: if it is begun anew, with ".2" behind it, ".3" ...
  VmSpec vm;
  std::optional<BytesPerSecond> bandwidth_limit;
  std::optional<Milliseconds> downtime_limit;
  Sending sending = {};  // Unsupported if a host does not offer its strategy
  /// When the rest fits into the downtime limit the source says that it holds, and sends on what is
  /// written, until release_outgoing(); or kHoldsAtMost, as nobody's death shall keep it from its
  /// end. For strategies that hold (holds_its_switch()); others do as ever.
  bool holds_switch = false;
};
inline constexpr Seconds kHoldsAtMost{30};
/// Pre-copy that neither ends in post-copy nor slows the guest meanwhile.
bool holds_its_switch(Strategy strategy);

/// Where to send to; made by the destination, opaque to everybody but the source's backend.
struct IncomingEndpoint {
  std::string uri;
};

/// What the destination knows of an arrival.
struct ArrivalReport {
  VmObservation seen;
  std::optional<Microseconds> downtime;    // the hypervisor's figure
  std::optional<Microseconds> total_time;  // the hypervisor's figure
  Bytes transferred;                       // the hypervisor's figure, 0 if unknown
  WallTime resumed_at{0};                  // when the copy began to run here
  WallTime announced_at{0};                // when the first frame was on the wire, 0 if none was
  int announcements = 0;                   // frames sent so far
};

class Driver {
 public:
  virtual ~Driver() = default;

  virtual Result<HostFacts> facts() = 0;
  /// Every copy of ours on this host. Foreign VMs are not listed.
  virtual Result<std::vector<VmObservation>> list() = 0;
  virtual Result<VmObservation> observe(const VmKey& vm) = 0;

  /// Starts a VM; ok if that incarnation runs already. AlreadyExists: another incarnation of that
  /// name is here. ResourceExhausted: no memory. On error nothing of it is left.
  virtual Status start(const VmSpec& vm) = 0;
  /// Ends a copy at once, in any state, also a half received one; ok if there is none.
  virtual Status destroy(const VmKey& vm) = 0;
  virtual Status pause(const VmKey& vm) = 0;
  virtual Status resume(const VmKey& vm) = 0;
  /// Writes the VM's whole state to a new file and ends the copy. On error it runs on and no file
  /// is left.
  virtual Status save(const VmKey& vm, const std::string& path) = 0;
  /// Starts a VM from a file of save(); it goes on where it was. The file stays.
  virtual Status restore(const VmSpec& vm, const std::string& path) = 0;
  virtual Result<VmStatistics> statistics(const VmKey& vm) = 0;

  // Captures: one cut through many VMs. Each is stopped by begin_capture(); when all are Taken each
  // is told release_capture(). A VM that goes on for any other reason makes its capture Failed, so
  // parts that are Durable were all taken before any of their VMs went on.

  /// Does what of begin_capture() can be done while the VM runs, so that VMs of several hosts stop
  /// at nearly the same moment: Ready. Makes the file. One that is not begun within the ticket's
  /// hold limit is given up: it Failed, and its file is gone. Meanwhile the VM is neither migrated
  /// nor paused. Not needed: begin_capture() does it where it was not done. Errors as there.
  virtual Result<CaptureStatus> prepare_capture(const CaptureTicket& ticket);
  /// Stops the VM and begins to take its state; ok if that checkpoint's was begun here. With
  /// copy-on-write it is Taken within milliseconds, without it the VM stands still until its file
  /// is written. AlreadyExists: there is such a file. Conflict: another capture or a migration of
  /// it runs. FailedPrecondition: that checkpoint was dropped here, or the VM is paused.
  virtual Result<CaptureStatus> begin_capture(const CaptureTicket& ticket);
  /// How far it is; kept until the next one of the VM begins. None after a restart of the agent.
  virtual Result<CaptureStatus> capture(const VmKey& vm);
  /// Lets the VM go on. FailedPrecondition while Ready or Holding and when it Failed; ok if it was
  /// done before. NotFound: none of that checkpoint is known here. Of a VM that leaves it ends the
  /// copy, for good and only if its part is Durable: FailedPrecondition before that, and when the
  /// VM went on because nobody released it within the hold limit (its file was removed before
  /// that).
  virtual Result<CaptureStatus> release_capture(const VmKey& vm, const CheckpointId& checkpoint);
  /// Ends that checkpoint's capture in any phase, lets the VM go on if it was stopped for it, and
  /// removes its file, also long after and when another host wrote it; a begin_capture() that comes
  /// late is refused. Ok if there is nothing.
  virtual Status drop_capture(const VmKey& vm, const CheckpointId& checkpoint,
                              const std::string& path);
  /// Makes a VM from its part of a checkpoint; it stands still until resume(). Ok if it was loaded
  /// from there before. FailedPrecondition: the file, with those that it is built on, is not what
  /// the part says (uuid, size, checksum). NotFound: no file. ResourceExhausted: the host has no
  /// room for the state, on its disk or in its memory. Files stay. A part whose partner is this
  /// host is taken from its memory where it is kept there, and from the file where that can't be.
  virtual Result<CaptureLoad> load_capture(const VmSpec& vm, const CheckpointId& checkpoint,
                                           const CheckpointPart& part);
  /// Makes an incremental part a full one, in its file's place and at once for whoever looks; those
  /// that are built on it do not notice. Ok if it is one. May take as long as the memory takes to
  /// write. Returns the file's size. FailedPrecondition, NotFound: as load_capture(), and the file
  /// is as it was.
  virtual Result<Bytes> merge_capture(const CheckpointPart& part, bool compress);
  /// Keeps these parts in this host's memory as well, at most one of each VM, so that
  /// load_capture() with this host as the part's partner need not read them; and forgets all others
  /// that it kept so. Answers for each, in order, once it is read; one that is kept already is only
  /// looked at. They give way to VMs, and a host that was started anew has none: load_capture()
  /// then takes the file. Unsupported: this host can't start VMs from such memory.
  virtual Result<std::vector<StandbyAnswer>> keep_standby(const std::vector<CheckpointPart>& parts);

  /// Destination: gets ready to receive and says where. No copy runs here because of it. From now
  /// on this host announces the VM's address by itself at the moment that the copy begins to run.
  virtual Result<IncomingEndpoint> prepare_incoming(const MigrationTicket& ticket) = 0;
  /// Source: starts sending; ok if this operation's migration is running already, or has ended
  /// here. A post-copy that broke is taken up again, also by an agent that was restarted since;
  /// Unsupported where the hypervisor can't.
  /// Conflict: another migration of the VM runs. NotFound: no such copy here.
  virtual Status begin_outgoing(const MigrationTicket& ticket, const IncomingEndpoint& to) = 0;
  /// Source: how far it is. Kept for a while after the end; None after a restart with nothing
  /// running.
  virtual Result<OutgoingStatus> outgoing(const VmKey& vm) = 0;
  /// Source: asks a running migration to stop. Ok also when none runs; the VM's copy decides what
  /// it came to. In post-copy it does nothing: there is no way back.
  virtual Status cancel_outgoing(const VmKey& vm) = 0;
  /// Source: does what the limit action says to a running migration: PostCopy switches to it,
  /// StopAndCopy pauses the VM so that the rest is the last round. Ok if that was done before.
  virtual Status force_outgoing(const VmKey& vm, LimitAction how);
  /// Source: one that holds its switch, now or later, no longer does. Ok if it was told before, if
  /// it was begun without, and if none runs here.
  virtual Status release_outgoing(const VmKey& vm);
  /// Destination: what is here. Idempotent, any time after prepare_incoming().
  virtual Result<ArrivalReport> arrival(const VmKey& vm) = 0;
  /// Destination: forgets the preparation; a copy that has not run is destroyed, a running one is
  /// left.
  virtual Status discard_incoming(const VmKey& vm) = 0;
  /// Destination: announces the VM's addresses on the network again (also without a migration).
  virtual Status announce(const VmSpec& vm) = 0;

  // A backend that lacks the following answers Unsupported, as these do.

  /// Grants, changes or ends the host's lease. While one is enforced and neither this call nor the
  /// storage (no note there) has confirmed it within its term, every copy here is ended, whether
  /// the agent lives or not, and none is made or resumed: FailedPrecondition.
  virtual Result<LeaseAnswer> renew_lease(const LeaseTicket& ticket);
  /// Writes a fence note, of another host, to the shared storage; ok if it is there. Durable.
  virtual Status put_fence_note(const std::string& note);
  /// Ok if there is none.
  virtual Status remove_fence_note(const std::string& note);

  /// Begins to make a template on this host, or says how far that is: ask again until it is no
  /// longer Making. It is kept until newer ones take its place. One that Failed is not tried again
  /// for some minutes. ResourceExhausted: there is no memory for it now. No copy of a VM is listed
  /// because of it.
  virtual Result<TemplateStatus> make_template(const TemplateSpec& what);
  /// As start(), but the guest goes on where the template stands, and is told `vm.kernel_args` with
  /// "mare.mac=" and "mare.machine=" (the VM's uuid) in the place of its kernel line; vm.memory,
  /// vcpus, kernel and initrd are the template's. NotFound: this host has no such template. It is
  /// a VM as any other then.
  virtual Status start_clone(const VmSpec& vm, const TemplateSpec& from);
  /// How a VM that runs here writes its memory, as watched since it came. Counts zero pages and
  /// samples compressibility now: up to 1 ms a MiB. Unsupported where facts().dirty_log is empty.
  virtual Result<MemoryProfile> memory_profile(const VmKey& vm);
  /// Begins to look at how a VM writes now, unless that was done a moment ago. Returns after how
  /// long memory_profile() knows it; 0 where there is nothing to wait for, as here.
  virtual Result<Milliseconds> look_anew(const VmKey& vm);
  /// Opens a sink for one measurement; it closes by itself after 10 s.
  virtual Result<IncomingEndpoint> open_link_sink();
  /// Sends a burst to a sink of another host: at most 4 MiB or 0.5 s.
  virtual Result<LinkMeasurement> measure_link(const IncomingEndpoint& sink);
};

/// A backend that needs the address announced calls this; netarp implements it, tests count it.
class Announcer {
 public:
  virtual ~Announcer() = default;
  /// Starts the repeated announcement of a MAC with its address and returns at once; the answer is
  /// the time at which the first frame was handed to the kernel.
  virtual Result<WallTime> announce(const MacAddress& mac, Ipv4Address ip) = 0;
  /// One announcement and no more: who draws a VM's frames before it runs may have to let it go.
  virtual Status announce_once(const MacAddress& mac, Ipv4Address ip) = 0;
  /// Frames sent for that MAC since its last announce().
  virtual int frames_sent(const MacAddress& mac) const = 0;
};

}  // namespace mare
