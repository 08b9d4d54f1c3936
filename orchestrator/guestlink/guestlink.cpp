#include "orchestrator/guestlink/guestlink.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "images/guest/protocol.h"
#include "orchestrator/guestlink/connection.h"
#include "orchestrator/guestlink/probe.h"

namespace mare::guestlink {
namespace {

/// What is kept of one guest.
struct Peer {
  std::mutex mutex;  // held for a whole call
  std::mutex kept;   // for a change of these two, and for a look from another thread
  std::unique_ptr<Connection> connection;
  std::uint64_t hung_up = 0;
  std::uint64_t times_hung_up() {
    const std::lock_guard lock(kept);
    return hung_up;
  }
  MonotonicTime used{0};  // under GuestLink::mutex_
};

Bytes kib(const Answer& answer, const std::string& key) {
  return Bytes{answer.natural(key) * 1024};
}

Result<RunStatus> run_status_from(const Answer& answer) {
  RunStatus out;
  out.output_bytes = answer.natural("output_bytes");
  const std::string state = answer.text("state");
  if (state == MARE_GUEST_STATE_RUNNING) {
    out.phase = RunPhase::Running;
  } else if (state == MARE_GUEST_STATE_EXITED) {
    out.phase = RunPhase::Exited;
    if (const auto code = answer.number("exit")) out.exit_code = static_cast<int>(*code);
    // As a shell would say it.
    if (const auto signal = answer.number("signal"))
      out.exit_code = 128 + static_cast<int>(*signal);
  } else if (state == MARE_GUEST_STATE_LOST) {
    out.phase = RunPhase::Lost;
  } else if (state != MARE_GUEST_STATE_UNKNOWN) {
    return make_error(Code::Internal, "the guest calls a program's state '" + state + "'",
                      "build the image with this version of Maré");
  }
  return out;
}

class GuestLink final : public GuestPort {
 public:
  GuestLink(Clock& clock, const GuestLinkOptions& options) : clock_(clock), options_(options) {}

  Result<GuestHello> hello(const GuestAddress& guest) override {
    auto reply = ask(guest, MARE_GUEST_VERB_HELLO, {});
    if (!reply) return reply.error();
    const Answer& answer = reply->answer;
    if (const auto name = answer.text("hostname"); name != guest.vm.value) {
      return make_error(Code::Unauthenticated, "the guest at " + guest.ip.text() + " is '" + name +
                                                   "', not '" + guest.vm.value + "'");
    }
    GuestHello out;
    out.boot_id = answer.text("boot_id");
    out.memory_total = kib(answer, "mem_total_kib");
    out.memory_available = kib(answer, "mem_available_kib");
    out.taint = answer.natural("taint");
    out.kernel_faults = static_cast<int>(answer.natural("kmsg_faults"));
    out.kernel_first_fault = answer.text("kmsg_first");
    out.uptime = Milliseconds{static_cast<std::int64_t>(answer.natural("uptime_ms"))};
    return out;
  }

  Result<RunStatus> run(const GuestAddress& guest, const GuestRun& program) override {
    Fields fields{{"id", program.id.value}, {"dir", program.directory}};
    for (const auto& word : program.arguments) fields.emplace_back("arg", word);
    for (const auto& variable : program.environment) fields.emplace_back("env", variable);
    return status_of(ask(guest, MARE_GUEST_VERB_RUN, fields));
  }

  Result<RunStatus> run_status(const GuestAddress& guest, const GuestRun& program) override {
    return status_of(
        ask(guest, MARE_GUEST_VERB_STATUS, {{"id", program.id.value}, {"dir", program.directory}}));
  }

  Result<std::string> output(const GuestAddress& guest, const GuestRun& program,
                             std::uint64_t offset, std::size_t most) override {
    auto reply = ask(guest, MARE_GUEST_VERB_OUTPUT,
                     {{"dir", program.directory},
                      {"offset", std::to_string(offset)},
                      {"max", std::to_string(most)}});
    if (!reply) {
      // Not started yet, so there is nothing yet.
      if (reply.error().code == Code::NotFound) return std::string();
      return reply.error();
    }
    return std::move(reply->payload);
  }

  Status signal(const GuestAddress& guest, const GuestRun& program, int number) override {
    auto reply = ask(
        guest, MARE_GUEST_VERB_SIGNAL,
        {{"dir", program.directory}, {"id", program.id.value}, {"signal", std::to_string(number)}});
    if (!reply && reply.error().code != Code::NotFound) return reply.error();
    return ok_status();
  }

  Result<SafePointStatus> safe_points(const GuestAddress& guest, const JobId& job) override {
    auto reply = ask(guest, MARE_GUEST_VERB_SAFEPOINT, {{"id", job.value}});
    if (!reply) return needs_newer(reply.error(), guest, "can't tell safe points");
    SafePointStatus out;
    out.ranks = static_cast<int>(reply->answer.natural("ranks"));
    out.inside = static_cast<int>(reply->answer.natural("inside"));
    out.entered = reply->answer.natural("entered");
    out.outside = Milliseconds{static_cast<std::int64_t>(reply->answer.natural("outside_ms"))};
    return out;
  }

  Status set_clock(const GuestAddress& guest, WallTime now) override {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    auto reply = ask(guest, MARE_GUEST_VERB_SETCLOCK, {{"wall_ns", std::to_string(ns)}});
    if (!reply) return reply.error();
    return ok_status();
  }

  Status came_back(const GuestAddress& guest, WallTime now) override {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    auto reply = ask(guest, MARE_GUEST_VERB_SETCLOCK,
                     {{"wall_ns", std::to_string(ns)}, {"restored", "yes"}});
    // One of an older image knows no such word.
    if (!reply && reply.error().code == Code::InvalidArgument) return set_clock(guest, now);
    if (!reply) return reply.error();
    return ok_status();
  }

  void hang_up(const GuestAddress& guest) override {
    const auto peer = peer_of(guest.ip);
    const std::lock_guard lock(peer->kept);
    ++peer->hung_up;
    if (peer->connection) peer->connection->hang_up();
  }

  Result<Bytes> drop_cache(const GuestAddress& guest) override {
    auto reply = ask(guest, MARE_GUEST_VERB_DROPCACHE, {});
    if (reply) return kib(reply->answer, "freed_kib");
    return needs_newer(reply.error(), guest, "can't drop its page cache");
  }

  Status power_off(const GuestAddress& guest) override {
    auto reply = ask(guest, MARE_GUEST_VERB_POWEROFF, {});
    if (!reply) return reply.error();
    return ok_status();
  }

  Result<std::unique_ptr<GuestProbe>> start_probe(const GuestAddress& guest,
                                                  Microseconds period) override {
    return start_udp_probe(guest.ip, options_.port, period, clock_);
  }

 private:
  /// A verb that it does not know is a bad request to a guest.
  static Error needs_newer(const Error& error, const GuestAddress& guest, const std::string& what) {
    if (error.code != Code::InvalidArgument) return error;
    return make_error(Code::Unsupported, "the guest daemon of '" + guest.vm.value + "' " + what,
                      "build the image with this version of Maré");
  }

  static Result<RunStatus> status_of(const Result<Exchange>& reply) {
    if (!reply) return reply.error();
    return run_status_from(reply->answer);
  }

  Result<Exchange> ask(const GuestAddress& guest, std::string_view verb, const Fields& fields) {
    auto line = request_line(guest.token, verb, fields);
    if (!line) return line.error();
    const auto peer = peer_of(guest.ip);
    const std::lock_guard lock(peer->mutex);
    const bool kept = peer->connection != nullptr;
    const std::uint64_t hung_up = peer->times_hung_up();
    const MonotonicTime begun = clock_.now();
    auto reply = once(*peer, guest.ip, *line);
    // A kept connection may have died with the guest's last boot: that is worth one more. One that
    // took its full time is not: the guest is silent, and the caller has waited enough.
    const bool again = !reply && kept && reply.error().code == Code::Unavailable &&
                       peer->times_hung_up() == hung_up &&
                       clock_.now() - begun < options_.call_timeout;
    return again ? once(*peer, guest.ip, *line) : reply;
  }

  Result<Exchange> once(Peer& peer, Ipv4Address ip, const std::string& line) {
    if (!peer.connection) {
      auto opened = Connection::open(ip, options_.port, clock_, options_.connect_timeout);
      if (!opened) return opened.error();
      const std::lock_guard lock(peer.kept);
      peer.connection = std::move(*opened);
    }
    auto reply = peer.connection->exchange(line, options_.call_timeout);
    const bool usable =
        reply.ok() || reply.error().code == Code::NotFound || reply.error().code == Code::Conflict;
    if (!usable) {
      const std::lock_guard lock(peer.kept);
      peer.connection.reset();
    }
    return reply;
  }

  std::shared_ptr<Peer> peer_of(Ipv4Address ip) {
    const std::lock_guard lock(mutex_);
    const MonotonicTime now = clock_.now();
    auto& peer = peers_[ip];
    if (!peer) peer = std::make_shared<Peer>();
    peer->used = now;
    auto found = peer;
    // A call that uses one of these holds its own reference.
    std::erase_if(peers_, [&](const auto& entry) {
      return now - entry.second->used > options_.idle_timeout;
    });
    if (peers_.size() > options_.kept_connections) {
      peers_.erase(std::min_element(peers_.begin(), peers_.end(), [](const auto& a, const auto& b) {
        return a.second->used < b.second->used;
      }));
    }
    return found;
  }

  Clock& clock_;
  const GuestLinkOptions options_;
  std::mutex mutex_;
  std::map<Ipv4Address, std::shared_ptr<Peer>> peers_;
};

}  // namespace

std::unique_ptr<GuestPort> make_guest_port(Clock& clock, Log& /*log*/,
                                           const GuestLinkOptions& options) {
  return std::make_unique<GuestLink>(clock, options);
}

}  // namespace mare::guestlink
