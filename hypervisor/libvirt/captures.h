// Captures of VMs on this host: a thread for each, which has QEMU send the VM's state into a pipe,
// and another that writes what comes out of it into the file.
//
// With copy-on-write (QEMU's background-snapshot, userfaultfd) the state is taken as soon as the
// memory is write-protected, within milliseconds, and the VM may go on while it is sent. The VM is
// paused by us before, not by QEMU for the snapshot: QEMU would let it go on at once, and the other
// VMs of the gang may not have stopped yet. Since 9.0 QEMU leaves a VM paused that was. Elsewhere
// the VM stands still until all of it is sent.
//
// What survives: nothing. A new agent knows of no capture, the pipe's end makes QEMU give up, and
// drop() clears away the rest. The pages of the part below are read from its file then.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "hypervisor/driver.h"
#include "hypervisor/libvirt/capture_file.h"
#include "hypervisor/libvirt/connection.h"

namespace mare::libvirt {

/// How far QEMU is, from its reply to query-migrate. Pure.
enum class SendPhase : std::uint8_t { Preparing, Sending, Sent, Broken };
/// `copy_on_write`: pages are counted only after all memory was write-protected.
SendPhase send_phase(const std::string& query_migrate);

class Captures {
 public:
  /// `over`: a capture of that VM has ended, in whatever way; on a thread of its own.
  Captures(Connection& connection, std::function<void(const std::string& uuid)> over, Clock& clock,
           Log& log);
  /// Leaves VMs and QEMUs as they are.
  ~Captures();
  Captures(const Captures&) = delete;
  Captures& operator=(const Captures&) = delete;

  /// Driver::prepare_capture() of a VM that runs here and is on no way. `make_way`: has others let
  /// go of its memory; called when it is active() already, so that nobody takes it anew.
  Result<CaptureStatus> prepare(const CaptureTicket& ticket, bool copy_on_write,
                                const std::function<Status()>& make_way);
  /// What prepare() would answer without doing anything; nothing if it would do something.
  std::optional<Result<CaptureStatus>> known(const CaptureTicket& ticket);
  /// Driver::begin_capture() of one that prepare() or known() has just answered.
  Result<CaptureStatus> begin(const CaptureTicket& ticket);
  CaptureStatus status(const VmKey& vm);
  Result<CaptureStatus> release(const VmKey& vm, const CheckpointId& checkpoint);
  Status drop(const VmKey& vm, const CheckpointId& checkpoint, const std::string& path);
  /// Is one of that VM not over?
  bool active(const std::string& uuid);
  /// Does that VM stand still for one?
  bool holds(const std::string& uuid);
  /// Did it end the copy of a VM that leaves?
  bool left(const std::string& uuid);
  /// A VM was made from its part of a checkpoint, by this process.
  /// `read`: when that was there to be loaded from.
  CaptureLoad note_loaded(const std::string& uuid, const CheckpointId& from, MonotonicTime began,
                          MonotonicTime read, bool mapped);
  /// How long that took; nothing if it was not.
  std::optional<CaptureLoad> was_loaded(const std::string& uuid, const CheckpointId& from);

 private:
  /// A descriptor with an owner.
  class Descriptor {
   public:
    Descriptor() = default;
    ~Descriptor() { reset(); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return raw_; }
    void reset(int raw = -1);

   private:
    int raw_ = -1;
  };
  struct Job {
    CaptureTicket ticket;
    CaptureStatus status;
    bool copy_on_write = false;
    bool preparing = true;
    bool stopping = false;         // the VM is being told to stop: nothing else is done with it
    bool held = false;             // the VM was told to stop
    std::optional<Error> refused;  // and could not
    bool releasing = false;        // asked for; the hold limit is off
    bool released = false;         // the VM was told to go on
    bool dropped = false;          // to be ended
    bool written = false;          // its file is whole
    bool over = false;             // its thread does nothing more
    bool waits_to_leave() const {
      return ticket.leaves && status.phase == CapturePhase::Durable && !released;
    }
    MonotonicTime began{0};  // or since when it is ready to
    std::unique_ptr<CaptureFile> file;
    Descriptor out;            // of the pipe that QEMU sends into
    ConnectHandle connection;  // of its own: others may be in long calls
    DomainHandle domain;
    std::thread thread;
  };
  using JobPtr = std::shared_ptr<Job>;

  /// All that can be done while the VM runs.
  Status make_ready(Job& job);
  Error give_up(const JobPtr& job, const Status& ready);
  Status let_go_on(const Job& job);
  Status end_copy(const Job& job);
  static bool is_gone(const Job& job);
  void publish(Job& job);
  // On the capture's thread.
  void run(const JobPtr& job);
  Status wait_for_begin(Job& job);
  Status capture(Job& job);
  Status follow(Job& job);
  enum class Reading : std::uint8_t { Going, LastPiece, GivenUp };
  Status read_all(Job& job, std::atomic<Reading>& reading);
  /// An error when it is to end now.
  Status check_wanted(Job& job);
  void taken(Job& job);
  Status wait_for_release(Job& job);
  void fail(Job& job, const Error& why);
  void stop_sending(virDomainPtr domain);

  /// What its part is built on, if it can be: remembered from the last one, or read.
  std::optional<checkpointfile::Below> find_below(Job& job);
  /// Keeps what the VM's next part needs, in the place of those of VMs that are gone.
  void remember(Job& job);

  JobPtr find_locked(const VmKey& vm, const CheckpointId& checkpoint) const;
  bool is_active_locked(const std::string& uuid) const;
  Error failed_locked(const Job& job) const;
  void clear_leftovers(const VmKey& vm);
  void join(JobPtr job);

  Connection& connection_;
  const std::function<void(const std::string& uuid)> over_;
  Clock& clock_;
  Log& log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  std::map<std::string, JobPtr> jobs_;                                  // by uuid
  std::map<std::string, std::pair<CheckpointId, CaptureLoad>> loaded_;  // by uuid
  /// By uuid: the pages of its last part, so that the next one need not read them; 8 thousandths of
  /// its memory.
  std::map<std::string, checkpointfile::Below> below_;
  std::deque<std::pair<std::string, CheckpointId>> dropped_;  // the last ones
};

}  // namespace mare::libvirt
