#include "hypervisor/libvirt/switch_notice.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "hypervisor/dirtylog/sockets.h"

namespace mare::libvirt {
namespace {

constexpr std::size_t kTokenBytes = 16;
constexpr std::size_t kUuidLength = 36;
/// One that is lost is lost for good: the next moment is too late.
constexpr int kTimes = 2;

}  // namespace

std::string NoticeAddress::text() const {
  return at.text() + "/" + token;
}

std::optional<NoticeAddress> NoticeAddress::parse(const std::string& text) {
  const auto slash = text.rfind('/');
  if (slash == std::string::npos || text.size() - slash - 1 != 2 * kTokenBytes) return std::nullopt;
  auto at = Endpoint::parse(text.substr(0, slash));
  if (!at) return std::nullopt;
  return NoticeAddress{*at, text.substr(slash + 1)};
}

Result<NoticeSender> NoticeSender::open(const NoticeAddress& to, const std::string& uuid) {
  auto fd = dirtylog::datagrams_to(to.at);
  if (!fd) return fd.error();
  return NoticeSender(std::move(*fd), to.token + uuid);
}

void NoticeSender::send() const {
  for (int i = 0; i < kTimes; ++i) {
    // What keeps it from leaving keeps nothing else.
    static_cast<void>(::send(fd_.get(), text_.data(), text_.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  }
}

NoticeListener::NoticeListener(std::string address,
                               std::function<void(const std::string& uuid)> heard, Log& log)
    : host_(std::move(address)),
      heard_(std::move(heard)),
      log_(log),
      closing_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

NoticeListener::~NoticeListener() {
  const std::uint64_t one = 1;
  // Its only failure is an overflow of 2^64.
  static_cast<void>(!write(closing_.get(), &one, sizeof one));
  if (thread_.joinable()) thread_.join();
}

std::string NoticeListener::address() {
  const std::lock_guard lock(mutex_);
  if (tried_) return text_;
  tried_ = true;
  std::uint16_t port = 0;
  auto socket = dirtylog::datagrams_at(host_, port);
  if (!socket) {
    log_.warn("libvirt",
              "VMs that come here are announced only when they run: " + socket.error().text());
    return text_;
  }
  socket_ = std::move(*socket);
  token_ = make_hex(rng_, kTokenBytes);
  text_ = NoticeAddress{{host_, port}, token_}.text();
  thread_ = std::thread([this] { listen(); });
  return text_;
}

void NoticeListener::listen() {
  std::array<pollfd, 2> both{{{socket_.get(), POLLIN, 0}, {closing_.get(), POLLIN, 0}}};
  std::array<char, 2 * kTokenBytes + kUuidLength + 1> text{};
  while (true) {
    if (poll(both.data(), both.size(), -1) < 0) continue;
    if (both[1].revents != 0) return;
    const ssize_t got = recv(socket_.get(), text.data(), text.size(), MSG_DONTWAIT);
    if (got < 0) continue;
    const std::string_view said(text.data(), static_cast<std::size_t>(got));
    if (said.size() != token_.size() + kUuidLength || !said.starts_with(token_)) continue;
    heard_(std::string(said.substr(token_.size())));
  }
}

}  // namespace mare::libvirt
