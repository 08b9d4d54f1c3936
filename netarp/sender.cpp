#include "netarp/sender.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "netarp/bridge_fdb.h"
#include "netarp/frame.h"

namespace mare::netarp {
namespace {

Error no_interface(const std::string& name) {
  return make_error(Code::NotFound, "no interface '" + name + "' on this host",
                    "name the bridge that the VMs are on; `ip link show type bridge` lists them");
}

Error send_error(const std::string& interface, int error) {
  const std::string what = "announcing on " + interface + ": ";
  switch (error) {
    case ENETDOWN:
      return make_error(Code::FailedPrecondition, what + "the interface is down",
                        "set it up with `ip link set " + interface + " up`");
    case ENODEV:
    case ENXIO:
      return no_interface(interface).during("announcing");
    default:
      return make_error(Code::Internal, what + std::strerror(error));
  }
}

/// A tap or bridge is Ethernet; a tun or loopback would swallow the frames without a word.
Status check_ethernet(int fd, const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  if (::ioctl(fd, SIOCGIFHWADDR, &request) < 0) return no_interface(interface);
  if (request.ifr_hwaddr.sa_family == ARPHRD_ETHER) return ok_status();
  return make_error(Code::FailedPrecondition, "'" + interface + "' is not an Ethernet interface",
                    "name the bridge that the VMs are on");
}

Status check_subject(const Subject& subject) {
  if (!subject.ip && !subject.ip6) {
    return field_error("ip", "nothing to announce for " + subject.mac.text(),
                       "give an IPv4 or IPv6 address");
  }
  if ((subject.mac.bytes[0] & 1U) != 0) {
    return field_error("mac", subject.mac.text() + " is a group address and belongs to no VM");
  }
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<Sender>> Sender::open(const std::string& interface, Schedule schedule,
                                             Clock& clock, Log& log) {
  MARE_ASSERT(!schedule.gaps.empty());
  if (interface.size() >= IFNAMSIZ || if_nametoindex(interface.c_str()) == 0) {
    return no_interface(interface);
  }
  // Protocol 0: this socket only sends, no frame is ever queued on it.
  const int fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    const int error = errno;
    if (error == EPERM || error == EACCES) {
      return make_error(
          Code::FailedPrecondition, "a raw socket needs the capability CAP_NET_RAW",
          "run as root, or with `setcap cap_net_raw,cap_net_admin+ep` on the program");
    }
    return make_error(Code::Internal, std::string("raw socket: ") + std::strerror(error));
  }
  if (auto ethernet = check_ethernet(fd, interface); !ethernet) {
    ::close(fd);
    return ethernet.error();
  }
  return std::unique_ptr<Sender>(new Sender(fd, interface, std::move(schedule), clock, log));
}

Sender::Sender(int fd, std::string interface, Schedule schedule, Clock& clock, Log& log)
    : fd_(fd),
      interface_(std::move(interface)),
      schedule_(std::move(schedule)),
      clock_(clock),
      log_(log),
      thread_([this] { run(); }) {}

Sender::~Sender() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  ::close(fd_);
}

Status Sender::announce_once(const Subject& subject) const {
  if (auto good = check_subject(subject); !good) return good;
  Progress progress;
  return begin(subject, progress);
}

/// The first round; some of its frames may have left with an error.
Status Sender::begin(const Subject& subject, Progress& progress) const {
  // Before the frames: whoever answers them must find the way to the VM.
  auto forgotten = forget_learned(interface_, subject.mac);
  progress.fdb_cleared = forgotten.ok() && forgotten.value();
  if (!forgotten) {
    // Without CAP_NET_ADMIN the switches still learn; only this bridge may hold an old entry.
    log_.warn("netarp", forgotten.error().text());
  }
  return send_round(subject, progress);
}

Result<WallTime> Sender::announce(const Subject& subject) {
  if (auto good = check_subject(subject); !good) return good.error();
  {
    const std::lock_guard lock(mutex_);
    if (tasks_.count(subject.mac) == 0 && !make_room_locked()) {
      return make_error(Code::ResourceExhausted,
                        std::to_string(kMaxSubjects) + " announcements are under way",
                        "try again in a few seconds");
    }
  }
  Task task{subject, MonotonicTime{0}, {}};
  clock_.sleep_for(schedule_.gaps.front());
  if (auto sent = begin(subject, task.progress); !sent) {
    if (task.progress.frames == 0) return sent.error();
    task.progress.last_error = sent.error().text();
  }

  const WallTime first = task.progress.first_frame;
  const std::lock_guard lock(mutex_);
  task.progress.rounds = 1;
  task.progress.finished = schedule_.gaps.size() == 1;
  if (!task.progress.finished) task.due = clock_.now() + schedule_.gaps[1];
  tasks_[subject.mac] = std::move(task);
  changed_.notify_all();
  return first;
}

std::optional<Progress> Sender::progress(const MacAddress& mac) const {
  const std::lock_guard lock(mutex_);
  const auto found = tasks_.find(mac);
  if (found == tasks_.end()) return std::nullopt;
  return found->second.progress;
}

void Sender::wait_finished(const MacAddress& mac) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    const auto found = tasks_.find(mac);
    return found == tasks_.end() || found->second.progress.finished;
  });
}

bool Sender::make_room_locked() {
  if (tasks_.size() < kMaxSubjects) return true;
  auto oldest = tasks_.end();
  for (auto it = tasks_.begin(); it != tasks_.end(); ++it) {
    if (!it->second.progress.finished) continue;
    if (oldest == tasks_.end() ||
        it->second.progress.first_frame < oldest->second.progress.first_frame) {
      oldest = it;
    }
  }
  if (oldest == tasks_.end()) return false;
  tasks_.erase(oldest);
  return true;
}

std::optional<MonotonicTime> Sender::next_due_locked() const {
  std::optional<MonotonicTime> soonest;
  for (const auto& [mac, task] : tasks_) {
    if (!task.progress.finished && (!soonest || task.due < *soonest)) soonest = task.due;
  }
  return soonest;
}

void Sender::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto due = next_due_locked();
    if (!due) {
      changed_.wait(lock);
      continue;
    }
    const MonotonicTime now = clock_.now();
    if (*due > now) {
      changed_.wait_for(lock, *due - now);
      continue;
    }
    repeat(lock);
  }
}

/// One due round. The frames are sent under the lock: a packet socket does not block (a full queue
/// drops), and so an announce() of the same MAC can't overtake its own repetition.
void Sender::repeat(std::unique_lock<std::mutex>& lock) {
  MARE_ASSERT(lock.owns_lock());
  const MonotonicTime now = clock_.now();
  for (auto& [mac, task] : tasks_) {
    Progress& progress = task.progress;
    if (progress.finished || task.due > now) continue;
    if (auto sent = send_round(task.subject, progress); !sent) {
      if (progress.last_error.empty()) log_.warn("netarp", sent.error().text());
      progress.last_error = sent.error().text();
    }
    ++progress.rounds;
    progress.finished = progress.rounds >= schedule_.gaps.size();
    if (!progress.finished) task.due = now + schedule_.gaps[progress.rounds];
  }
  changed_.notify_all();
}

Status Sender::send_round(const Subject& subject, Progress& progress) const {
  // Looked up each time: a bridge that was made anew has another index.
  const unsigned index = if_nametoindex(interface_.c_str());
  if (index == 0) return no_interface(interface_).during("announcing " + subject.mac.text());
  if (subject.ip) {
    const auto request = gratuitous_arp_request(subject.mac, *subject.ip);
    if (auto sent = send_frame(request, index, progress); !sent) return sent;
    const auto reply = gratuitous_arp_reply(subject.mac, *subject.ip);
    if (auto sent = send_frame(reply, index, progress); !sent) return sent;
  }
  if (subject.ip6) {
    const auto advertisement = unsolicited_advertisement(subject.mac, *subject.ip6);
    if (auto sent = send_frame(advertisement, index, progress); !sent) return sent;
  }
  return ok_status();
}

Status Sender::send_frame(std::span<const std::uint8_t> frame, unsigned index,
                          Progress& progress) const {
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = static_cast<int>(index);
  to.sll_halen = 6;
  // The type goes to the kernel's own bookkeeping (capture filters); the frame carries it too.
  std::uint16_t type = 0;
  std::memcpy(&type, frame.data() + 12, sizeof type);
  to.sll_protocol = type;
  std::copy_n(frame.begin(), 6, to.sll_addr);
  const ssize_t sent = ::sendto(fd_, frame.data(), frame.size(), MSG_DONTWAIT,
                                reinterpret_cast<const sockaddr*>(&to), sizeof to);
  if (sent < 0) return send_error(interface_, errno);
  if (progress.frames++ == 0) progress.first_frame = clock_.wall_now();
  return ok_status();
}

}  // namespace mare::netarp
