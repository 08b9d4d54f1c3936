#include "netarp/bridge_fdb.h"

#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

namespace mare::netarp {
namespace {

/// The kernel answers at once; this bounds the wait should it not.
constexpr timeval kAnswerLimit{1, 0};

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// One neighbour request with its attributes in place.
struct Request {
  nlmsghdr header{};
  ndmsg body{};
  std::array<std::uint8_t, 64> attributes{};

  Request(std::uint16_t type, std::uint16_t flags) {
    header.nlmsg_type = type;
    header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
    header.nlmsg_len = NLMSG_LENGTH(sizeof(ndmsg));
    header.nlmsg_seq = 1;
    body.ndm_family = AF_BRIDGE;
  }
  void add(std::uint16_t type, std::span<const std::uint8_t> value) {
    const rtattr attribute{static_cast<std::uint16_t>(RTA_LENGTH(value.size())), type};
    std::uint8_t* at = attributes.data() + (header.nlmsg_len - NLMSG_LENGTH(sizeof(ndmsg)));
    std::memcpy(at, &attribute, sizeof attribute);
    std::memcpy(at + RTA_LENGTH(0), value.data(), value.size());
    header.nlmsg_len += static_cast<std::uint32_t>(RTA_SPACE(value.size()));
  }
};
static_assert(sizeof(nlmsghdr) == NLMSG_HDRLEN && sizeof(ndmsg) % NLMSG_ALIGNTO == 0,
              "header, body and attributes lie one after the other as the kernel reads them");

struct Answer {
  int error = 0;  // errno, 0 when fine
  ndmsg entry{};
};

Result<Answer> ask(const Socket& socket, const Request& request) {
  if (::send(socket.get(), &request, request.header.nlmsg_len, 0) < 0) {
    return make_error(Code::Internal, std::string("netlink: ") + std::strerror(errno));
  }
  alignas(nlmsghdr) std::array<std::uint8_t, 8192> buffer{};
  const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
  if (got < static_cast<ssize_t>(sizeof(nlmsghdr))) {
    return make_error(Code::Internal, "netlink: no answer from the kernel");
  }
  nlmsghdr header{};
  std::memcpy(&header, buffer.data(), sizeof header);
  Answer answer;
  if (header.nlmsg_type == NLMSG_ERROR) {
    nlmsgerr report{};
    std::memcpy(&report.error, buffer.data() + NLMSG_HDRLEN, sizeof report.error);
    answer.error = -report.error;
  } else if (header.nlmsg_type == RTM_NEWNEIGH && header.nlmsg_len >= NLMSG_LENGTH(sizeof(ndmsg))) {
    std::memcpy(&answer.entry, buffer.data() + NLMSG_HDRLEN, sizeof answer.entry);
  } else {
    return make_error(Code::Internal,
                      "netlink: answer of type " + std::to_string(header.nlmsg_type));
  }
  return answer;
}

}  // namespace

Result<bool> forget_learned(const std::string& bridge, const MacAddress& mac) {
  const unsigned index = if_nametoindex(bridge.c_str());
  if (index == 0) return make_error(Code::NotFound, "no interface '" + bridge + "' on this host");
  const Socket socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (socket.get() < 0) {
    return make_error(Code::Internal, std::string("netlink socket: ") + std::strerror(errno));
  }
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kAnswerLimit, sizeof kAnswerLimit) < 0) {
    return make_error(Code::Internal, std::string("netlink socket: ") + std::strerror(errno));
  }
  const auto* index_bytes = reinterpret_cast<const std::uint8_t*>(&index);

  Request get(RTM_GETNEIGH, 0);
  get.add(NDA_LLADDR, mac.bytes);
  get.add(NDA_MASTER, {index_bytes, sizeof index});
  auto found = ask(socket, get);
  if (!found) return found.error();
  // EINVAL, EOPNOTSUPP: not a bridge. ENOENT: the bridge has never heard of the MAC.
  if (found->error == EINVAL || found->error == EOPNOTSUPP || found->error == ENOENT) return false;
  if (found->error != 0) {
    return make_error(Code::Internal, "forwarding table of " + bridge + " for " + mac.text() +
                                          ": " + std::strerror(found->error));
  }
  // NUD_PERMANENT: a port's own address; NUD_NOARP: set by hand. Neither is stale knowledge.
  if ((found->entry.ndm_state & (NUD_PERMANENT | NUD_NOARP)) != 0) return false;

  Request del(RTM_DELNEIGH, NLM_F_ACK);
  del.body.ndm_ifindex = found->entry.ndm_ifindex;
  del.body.ndm_flags = NTF_MASTER;
  del.add(NDA_LLADDR, mac.bytes);
  auto removed = ask(socket, del);
  if (!removed) return removed.error();
  if (removed->error == ENOENT) return false;  // aged in between
  if (removed->error != 0) {
    return make_error(Code::Internal, "removing the old entry of " + mac.text() + " from " +
                                          bridge + ": " + std::strerror(removed->error));
  }
  return true;
}

}  // namespace mare::netarp
