// What a capture's threads do.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "hypervisor/libvirt/captures.h"
#include "hypervisor/libvirt/handles.h"
#include "hypervisor/libvirt/monitor.h"

namespace mare::libvirt {
namespace {

// The VM stands still meanwhile.
constexpr auto kLookWhileHolding = std::chrono::milliseconds{2};
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

std::string capability(bool on) {
  return std::string(R"({"execute":"migrate-set-capabilities","arguments":{"capabilities":[)") +
         R"({"capability":"background-snapshot","state":)" + (on ? "true" : "false") + "}]}}";
}

class Descriptor {
 public:
  explicit Descriptor(int raw) : raw_(raw) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return raw_; }
  void reset() {
    if (raw_ >= 0) close(raw_);
    raw_ = -1;
  }

 private:
  int raw_;
};

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

void Captures::run(const JobPtr& job) {
  auto connection = open_connection(connection_.uri());
  const std::string& uuid = job->ticket.vm.uuid;
  const DomainHandle domain{
      connection ? virDomainLookupByUUIDString(connection->get(), uuid.c_str()) : nullptr};
  const Status done = domain       ? capture(*job, domain.get())
                      : connection ? Status(last_read_error("VM '" + job->ticket.vm.id.value + "'"))
                                   : Status(connection.error());
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
  }
  if (!done) fail(*job, domain.get(), done.error());
  {
    const std::lock_guard lock(mutex_);
    if (done) {
      job->status.size = job->file->size();
      job->status.checksum = job->file->checksum();
      job->status.phase = CapturePhase::Durable;
    }
    job->file.reset();
    job->over = true;
  }
  changed_.notify_all();
  over_(uuid);
}

Status Captures::capture(Job& job, virDomainPtr domain) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return make_error(Code::Internal, "no pipe for a capture");
  }
  Descriptor out(ends[0]);
  Descriptor in(ends[1]);
  (void)fcntl(out.get(), F_SETPIPE_SZ, kPipe);
  if (auto begun = start_sending(job, domain, in.get()); !begun) return begun;
  in.reset();  // QEMU has its own: its end is the end of the stream
  std::atomic<bool> stop{false};
  Status kept = ok_status();
  std::thread reader([&] {
    kept = read_all(job, out.get(), stop);
    // QEMU must not wait for somebody who is gone.
    if (!kept) out.reset();
  });
  Status sent = follow(job, domain);
  if (!sent) stop.store(true);
  reader.join();
  if (!kept && kept.error().code != Code::Cancelled) return kept;  // it explains QEMU's complaint
  if (!sent) return sent;
  (void)ask_monitor(domain, capability(false));
  if (auto whole = job.file->finish(); !whole) return whole;
  {
    const std::lock_guard lock(mutex_);
    job.written = true;
  }
  return wait_for_release(job);
}

Status Captures::start_sending(Job& job, virDomainPtr domain, int pipe_end) {
  auto set = ask_monitor(domain, capability(job.copy_on_write));
  if (!set && job.copy_on_write) {
    // Its memory is of a kind that can't be write-protected: it stands still, then.
    log_.info("libvirt", "VM '" + job.ticket.vm.id.value +
                             "' is captured without copy-on-write: " + set.error().message);
    job.copy_on_write = false;
    set = ask_monitor(domain, capability(false));
  }
  if (!set) return set.error();
  if (auto full = ask_monitor(domain, kFull); !full) return full.error();
  if (auto given = give_descriptor(domain, kName, pipe_end); !given) return given;
  auto begun = ask_monitor(
      domain, std::string(R"({"execute":"migrate","arguments":{"uri":"fd:)") + kName + R"("}})");
  return begun ? ok_status() : Status(begun.error());
}

Status Captures::follow(Job& job, virDomainPtr domain) {
  bool holding = true;
  while (true) {
    auto reply = ask_monitor(domain, kQuery);
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

Status Captures::read_all(Job& job, int pipe_end, std::atomic<bool>& stop) {
  std::string piece(static_cast<std::size_t>(kPipe), '\0');
  while (true) {
    pollfd look{pipe_end, POLLIN, 0};
    if (poll(&look, 1, kWake_ms) <= 0) {
      if (stop.load()) return make_error(Code::Cancelled, "it was given up");
      continue;
    }
    const ssize_t got = read(pipe_end, piece.data(), piece.size());
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
}

void Captures::fail(Job& job, virDomainPtr domain, const Error& why) {
  if (domain != nullptr) stop_sending(domain);
  bool stands = false;
  {
    const std::lock_guard lock(mutex_);
    // From here on nobody else lets it go on.
    stands = !job.released && !job.releasing;
    job.status.phase = CapturePhase::Failed;
    job.status.error = why.text();
    job.file.reset();
  }
  if (stands && domain != nullptr && virDomainResume(domain) == 0) {
    const std::lock_guard lock(mutex_);
    job.status.resumed = clock_.wall_now();
  }
  log_.warn("libvirt", "VM '" + job.ticket.vm.id.value + "' was not captured for " +
                           job.ticket.checkpoint.value + ": " + why.text());
}

}  // namespace mare::libvirt
