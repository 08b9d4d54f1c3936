// What a capture's threads do.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <vector>

#include "hypervisor/libvirt/captures.h"
#include "hypervisor/libvirt/copies.h"
#include "hypervisor/libvirt/handles.h"
#include "hypervisor/libvirt/monitor.h"

namespace mare::libvirt {
namespace {

// The VM stands still meanwhile.
constexpr auto kLookWhileHolding = std::chrono::milliseconds{1};
constexpr auto kLookWhileWriting = std::chrono::milliseconds{50};
constexpr auto kCancelWithin = std::chrono::seconds{10};
constexpr int kPipe = 1 << 20;
constexpr int kWake_ms = 100;
// libvirt sets its own for each of its migrations. QEMU's default would be 128 MiB/s.
constexpr const char* kFull =
    R"({"execute":"migrate-set-parameters","arguments":{"max-bandwidth":68719476736}})";
constexpr const char* kQuery = R"({"execute":"query-migrate"})";
constexpr const char* kCancel = R"({"execute":"migrate_cancel"})";
constexpr const char* kName = "mare-capture";
constexpr const char* kForget = R"({"execute":"closefd","arguments":{"fdname":"mare-capture"}})";

/// Migrations leave behind what a snapshot can't go with; libvirt sets all anew for each of its
/// own.
std::string capability(bool on) {
  std::string others;
  for (const char* name : {"xbzrle", "auto-converge", "postcopy-ram", "multifd", "return-path",
                           "x-ignore-shared", "pause-before-switchover"}) {
    others += std::string(R"({"capability":")") + name + R"(","state":false},)";
  }
  return R"({"execute":"migrate-set-capabilities","arguments":{"capabilities":[)" + others +
         R"({"capability":"background-snapshot","state":)" + (on ? "true" : "false") + "}]}}";
}

}  // namespace

SendPhase send_phase(const std::string& query_migrate) {
  const std::string status = text_in(query_migrate, "status");
  if (status == "completed") return SendPhase::Sent;
  if (status == "failed" || status == "cancelled") return SendPhase::Broken;
  if (status != "active" && status != "device") return SendPhase::Preparing;
  // The first page goes only after all memory was write-protected and the devices' state kept.
  const auto pages = natural_in(query_migrate, "normal").value_or(0) +
                     natural_in(query_migrate, "duplicate").value_or(0);
  return pages > 0 ? SendPhase::Sending : SendPhase::Preparing;
}

void Captures::Descriptor::reset(int raw) {
  if (raw_ >= 0) close(raw_);
  raw_ = raw;
}

Status Captures::make_ready(Job& job) {
  const std::string name = "VM '" + job.ticket.vm.id.value + "'";
  auto connection = open_connection(connection_.uri());
  if (!connection) return connection.error();
  job.connection = *connection;
  job.domain.reset(virDomainLookupByUUIDString(job.connection.get(), job.ticket.vm.uuid.c_str()));
  if (!job.domain) return last_read_error(name);
  virDomainPtr domain = job.domain.get();
  // As libvirt itself describes a domain in front of its state.
  const std::string xml = take_text(virDomainGetXMLDesc(
      domain, VIR_DOMAIN_XML_MIGRATABLE | VIR_DOMAIN_XML_SECURE | VIR_DOMAIN_XML_INACTIVE));
  if (xml.empty()) return last_read_error(name + " can't be described");
  auto file = CaptureFile::create(job.ticket.path, xml, {job.ticket.compress, find_below(job)});
  if (!file) return file.error();
  job.file = std::move(*file);
  auto set = ask_monitor(domain, capability(job.copy_on_write));
  if (!set && job.copy_on_write) {
    // Its memory is of a kind that can't be write-protected: it stands still, then.
    log_.info("libvirt", name + " is captured without copy-on-write: " + set.error().message);
    job.copy_on_write = false;
    set = ask_monitor(domain, capability(false));
  }
  if (!set) return set.error();
  if (auto full = ask_monitor(domain, kFull); !full) return full.error();
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return make_error(Code::Internal, "no pipe to capture " + name);
  }
  job.out.reset(ends[0]);
  Descriptor in;  // QEMU gets its own: its end is the end of the stream
  in.reset(ends[1]);
  (void)fcntl(job.out.get(), F_SETPIPE_SZ, kPipe);
  return give_descriptor(domain, kName, in.get());
}

std::optional<checkpointfile::Below> Captures::find_below(Job& job) {
  if (!job.ticket.base) return std::nullopt;
  const auto& [path, size, checksum] = *job.ticket.base;
  const checkpointfile::Base base{path, {size, checksum}};
  std::optional<checkpointfile::Below> known;
  {
    const std::lock_guard lock(mutex_);
    const auto found = below_.find(job.ticket.vm.uuid);
    if (found != below_.end()) known = std::move(found->second);
    if (found != below_.end()) below_.erase(found);
  }
  if (known && known->base.path == path && known->base.identity == base.identity &&
      checkpointfile::still_there(*known)) {
    return known;
  }
  auto read = checkpointfile::read_below(base);
  if (read) return std::move(*read);
  log_.warn("libvirt", "VM '" + job.ticket.vm.id.value + "' is captured as a whole for " +
                           job.ticket.checkpoint.value + ": " + read.error().message);
  const std::lock_guard lock(mutex_);
  job.status.full_because = read.error().message;
  return std::nullopt;
}

void Captures::remember(Job& job) {
  checkpointfile::Below next = job.file->for_next();
  std::vector<std::string> gone;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [uuid, below] : below_) gone.push_back(uuid);
  }
  std::erase_if(gone, [&](const std::string& uuid) {
    const DomainHandle domain{virDomainLookupByUUIDString(job.connection.get(), uuid.c_str())};
    return domain != nullptr;
  });
  const std::lock_guard lock(mutex_);
  for (const auto& uuid : gone) below_.erase(uuid);
  below_[job.ticket.vm.uuid] = std::move(next);
}

void Captures::run(const JobPtr& job) {
  Status done = wait_for_begin(*job);
  if (done) done = capture(*job);
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
  }
  if (!done) fail(*job, done.error());
  {
    const std::lock_guard lock(mutex_);
    if (done && !job->ticket.leaves) publish(*job);
  }
  // The next part of one that left is taken by another host.
  if (done && !job->ticket.leaves) remember(*job);
  job->file.reset();
  {
    const std::lock_guard lock(mutex_);
    job->over = true;
  }
  changed_.notify_all();
  over_(job->ticket.vm.uuid);
}

bool Captures::is_gone(const Job& job) {
  auto seen = look_at(job.domain.get(), false);
  return seen && seen->copy == Copy::Absent;
}

/// With the lock.
void Captures::publish(Job& job) {
  job.status.size = job.file->identity().size;
  job.status.checksum = job.file->identity().checksum;
  job.status.written = job.file->written();
  job.status.incremental = job.file->incremental();
  job.status.durable = clock_.wall_now();
  job.status.phase = CapturePhase::Durable;
}

Status Captures::wait_for_begin(Job& job) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (closed_) return make_error(Code::Cancelled, "the agent ends");
    if (!job.stopping) {
      if (job.refused) return *job.refused;
      if (job.dropped) return make_error(Code::Cancelled, "it was dropped");
      if (job.held) return ok_status();
      if (clock_.now() - job.began > job.ticket.hold_limit) {
        job.dropped = true;  // who begins it now is late
        return make_error(Code::Unavailable, "nobody began it in time");
      }
    }
    changed_.wait_for(lock, kLookWhileWriting);
  }
}

Status Captures::capture(Job& job) {
  std::atomic<Reading> reading{Reading::Going};
  Status kept = ok_status();
  auto begun =
      ask_monitor(job.domain.get(), std::string(R"({"execute":"migrate","arguments":{"uri":"fd:)") +
                                        kName + R"("}})");
  if (!begun) return begun.error();
  std::thread reader([&] {
    kept = read_all(job, reading);
    // QEMU must not wait for somebody who is gone.
    if (!kept) job.out.reset();
  });
  Status sent = follow(job);
  reading.store(sent ? Reading::LastPiece : Reading::GivenUp);
  reader.join();
  job.out.reset();
  if (!kept && kept.error().code != Code::Cancelled) return kept;  // it explains QEMU's complaint
  if (!sent) return sent;
  (void)ask_monitor(job.domain.get(), capability(false));
  if (auto whole = job.file->finish(); !whole) return whole;
  {
    const std::lock_guard lock(mutex_);
    job.written = true;
    if (job.ticket.leaves) publish(job);
  }
  return wait_for_release(job);
}

Status Captures::follow(Job& job) {
  bool holding = true;
  while (true) {
    auto reply = ask_monitor(job.domain.get(), kQuery);
    if (!reply) return reply.error();
    const SendPhase phase = send_phase(*reply);
    if (phase == SendPhase::Broken) {
      const std::string words = text_in(*reply, "error-desc");
      return make_error(Code::Internal,
                        "QEMU could not send its state" + (words.empty() ? "" : ": " + words));
    }
    const bool enough =
        phase == SendPhase::Sent || (phase == SendPhase::Sending && job.copy_on_write);
    if (holding && enough) {
      holding = false;
      taken(job);
    }
    if (phase == SendPhase::Sent) return ok_status();
    if (auto wanted = check_wanted(job); !wanted) return wanted;
    clock_.sleep_for(holding ? kLookWhileHolding : kLookWhileWriting);
  }
}

Status Captures::read_all(Job& job, std::atomic<Reading>& reading) {
  std::string piece(static_cast<std::size_t>(kPipe), '\0');
  while (true) {
    pollfd look{job.out.get(), POLLIN, 0};
    if (poll(&look, 1, kWake_ms) <= 0) {
      const Reading now = reading.load();
      if (now == Reading::GivenUp) return make_error(Code::Cancelled, "it was given up");
      // QEMU has sent everything, and nothing is in the pipe: somebody else holds its other end.
      if (now == Reading::LastPiece) return ok_status();
      continue;
    }
    const ssize_t got = read(job.out.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return make_error(Code::Internal, "the pipe from QEMU broke");
    if (got == 0) return ok_status();
    const std::string_view data{piece.data(), static_cast<std::size_t>(got)};
    if (auto added = job.file->add(data); !added) return added;
  }
}

Status Captures::check_wanted(Job& job) {
  const std::lock_guard lock(mutex_);
  if (closed_) return make_error(Code::Cancelled, "the agent ends");
  if (job.dropped) return make_error(Code::Cancelled, "it was dropped");
  const bool held = !job.released && !job.releasing;
  if (held && clock_.now() - job.began > job.ticket.hold_limit) {
    // A copy that ended meanwhile is in the file and nowhere else.
    if (job.waits_to_leave() && is_gone(job)) return ok_status();
    job.dropped = true;  // a release that comes now is late
    return make_error(Code::Unavailable, "nobody released it in time");
  }
  return ok_status();
}

void Captures::taken(Job& job) {
  const std::lock_guard lock(mutex_);
  job.status.phase = CapturePhase::Taken;
  changed_.notify_all();
}

Status Captures::wait_for_release(Job& job) {
  while (true) {
    if (auto wanted = check_wanted(job); !wanted) return wanted;
    std::unique_lock lock(mutex_);
    if (job.released) return ok_status();
    changed_.wait_for(lock, kLookWhileWriting);
  }
}

/// Cancels what QEMU sends, and waits until it says that it has ended: another could not begin.
void Captures::stop_sending(virDomainPtr domain) {
  (void)ask_monitor(domain, kCancel);
  const MonotonicTime limit = clock_.now() + kCancelWithin;
  while (clock_.now() < limit) {
    auto reply = ask_monitor(domain, kQuery);
    if (!reply) return;
    const std::string status = text_in(*reply, "status");
    if (status.empty() || status == "completed" || status == "failed" || status == "cancelled" ||
        status == "none") {
      break;
    }
    clock_.sleep_for(kLookWhileWriting);
  }
  (void)ask_monitor(domain, capability(false));
  (void)ask_monitor(domain, kForget);  // of one that never began to send
}

void Captures::fail(Job& job, const Error& why) {
  stop_sending(job.domain.get());
  bool stands = false;
  {
    const std::lock_guard lock(mutex_);
    // From here on nobody else lets it go on.
    stands = job.held && !job.released && !job.releasing;
    job.dropped = true;
    job.status.error = why.text();
  }
  if (job.file) job.file->discard();
  job.file.reset();
  const bool goes_on = stands && virDomainResume(job.domain.get()) == 0;
  {
    const std::lock_guard lock(mutex_);
    if (goes_on) job.status.resumed = clock_.wall_now();
    job.status.phase = CapturePhase::Failed;
  }
  log_.warn("libvirt", "VM '" + job.ticket.vm.id.value + "' was not captured for " +
                           job.ticket.checkpoint.value + ": " + why.text());
}

}  // namespace mare::libvirt
