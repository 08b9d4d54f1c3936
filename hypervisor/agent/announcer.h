// The backends' Announcer over netarp.
#pragma once

#include <memory>

#include "hypervisor/driver.h"
#include "netarp/sender.h"

namespace mare::agent {

class NetAnnouncer final : public Announcer {
 public:
  explicit NetAnnouncer(std::unique_ptr<netarp::Sender> sender) : sender_(std::move(sender)) {}
  Result<WallTime> announce(const MacAddress& mac, Ipv4Address ip) override {
    return sender_->announce({mac, ip, {}});
  }
  Status announce_once(const MacAddress& mac, Ipv4Address ip) override {
    return sender_->announce_once({mac, ip, {}});
  }
  int frames_sent(const MacAddress& mac) const override {
    const auto progress = sender_->progress(mac);
    return progress ? progress->frames : 0;
  }

 private:
  std::unique_ptr<netarp::Sender> sender_;
};

/// Sends nothing: for simulated hosts, and for experiments without announcements.
class SilentAnnouncer final : public Announcer {
 public:
  Result<WallTime> announce(const MacAddress&, Ipv4Address) override { return WallTime{0}; }
  Status announce_once(const MacAddress&, Ipv4Address) override {
    return make_error(Code::FailedPrecondition, "nothing is announced from here");
  }
  int frames_sent(const MacAddress&) const override { return 0; }
};

}  // namespace mare::agent
