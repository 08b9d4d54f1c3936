// The word from a migration's source to its destination that the VM stands still now.
//
// Until the destination's copy runs, the network knows the VM at the source, where nobody takes its
// frames any more: they are lost, and whoever sent them tries again only when TCP's timer says so,
// 0.2 s later at the least (RFC 6298 has 1 s, Linux 0.2) and after twice as long each time. So the
// destination, told by this, draws the VM's frames to itself at once
// (Arrivals::on_standing_still()); they wait in its tap until the copy runs.
//
// A datagram and no more: one that is lost, late or kept out by a firewall costs what it cost
// without. Who hears it does nothing but announce a VM that was expected here anyway.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "orchestrator/core/fd.h"
#include "orchestrator/core/log.h"
#include "orchestrator/core/net.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/rng.h"

namespace mare::libvirt {

/// Where a host hears of it, and the word without which it does not listen.
struct NoticeAddress {
  Endpoint at;
  std::string token;
  /// "10.77.0.12:40123/TOKEN"
  std::string text() const;
  static std::optional<NoticeAddress> parse(const std::string& text);
};

/// Source: for one migration. Opened beforehand, as a name may take long to look up.
class NoticeSender {
 public:
  /// Unavailable: no such address.
  static Result<NoticeSender> open(const NoticeAddress& to, const std::string& uuid);
  /// Does not block.
  void send() const;

 private:
  NoticeSender(Fd fd, std::string text) : fd_(std::move(fd)), text_(std::move(text)) {}
  Fd fd_;
  std::string text_;
};

/// Destination: hears for all VMs that come here.
class NoticeListener {
 public:
  /// `heard` is called with a VM's uuid, on a thread of its own.
  NoticeListener(std::string address, std::function<void(const std::string& uuid)> heard, Log& log);
  ~NoticeListener();
  NoticeListener(const NoticeListener&) = delete;
  NoticeListener& operator=(const NoticeListener&) = delete;

  /// From the first call on it listens. "" if it can't, which is logged once.
  std::string address();

 private:
  void listen();

  const std::string host_;
  const std::function<void(const std::string&)> heard_;
  Log& log_;
  SystemRng rng_;
  std::mutex mutex_;
  std::string token_;
  std::string text_;
  bool tried_ = false;
  Fd socket_;
  Fd closing_;  // readable when this ends
  std::thread thread_;
};

}  // namespace mare::libvirt
