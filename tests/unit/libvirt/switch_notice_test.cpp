#include "hypervisor/libvirt/switch_notice.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <vector>

#include "orchestrator/core/clock.h"

namespace mare::libvirt {
namespace {

constexpr const char* kUuid = "6f0d3c1e-2a5b-4c7d-8e9f-001122334455";

class SwitchNoticeTest : public testing::Test {
 protected:
  SwitchNoticeTest()
      : log_(clock_, LogLevel::Debug, [this](std::string_view line) { logged_ += line; }) {}
  std::unique_ptr<NoticeListener> listener(const std::string& address) {
    return std::make_unique<NoticeListener>(
        address,
        [this](const std::string& uuid) {
          const std::lock_guard lock(mutex_);
          heard_.push_back(uuid);
          changed_.notify_all();
        },
        log_);
  }
  /// All that came until `uuid` did.
  std::vector<std::string> heard_until(const std::string& uuid) {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, std::chrono::seconds{20},
                                        [&] { return !heard_.empty() && heard_.back() == uuid; });
    EXPECT_TRUE(came);
    return heard_;
  }
  static void send(const NoticeAddress& to, const std::string& uuid) {
    auto sender = NoticeSender::open(to, uuid);
    ASSERT_TRUE(sender.ok()) << sender.error().text();
    sender->send();
  }

  ManualClock clock_;
  std::string logged_;
  Log log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> heard_;
};

TEST_F(SwitchNoticeTest, TheDestinationHearsWhichVmStandsStill) {
  for (const std::string address : {"127.0.0.1", "localhost"}) {
    auto destination = listener(address);
    const auto to = NoticeAddress::parse(destination->address());
    ASSERT_TRUE(to) << destination->address();
    EXPECT_EQ(destination->address(), to->text());
    send(*to, kUuid);
    EXPECT_EQ(heard_until(kUuid).front(), kUuid);
    destination.reset();  // its thread with it
    heard_.clear();
  }
}

TEST_F(SwitchNoticeTest, WhoHasNotTheWordOrSaysSomethingElseIsNotHeard) {
  auto destination = listener("127.0.0.1");
  const auto to = NoticeAddress::parse(destination->address());
  ASSERT_TRUE(to);
  NoticeAddress wrong = *to;
  wrong.token[0] = wrong.token[0] == '0' ? '1' : '0';
  send(wrong, kUuid);
  send(*to, "");
  send(*to, std::string(kUuid) + "0");
  send(*to, std::string(1000, 'x'));
  std::string last = kUuid;
  last.back() = '6';
  send(*to, last);
  for (const auto& uuid : heard_until(last)) EXPECT_EQ(uuid, last);
}

TEST_F(SwitchNoticeTest, WhereItCanNotListenNothingIsToldAndTheReasonOnce) {
  auto destination = listener("192.0.2.1");  // of nobody: RFC 5737
  EXPECT_EQ(destination->address(), "");
  EXPECT_EQ(destination->address(), "");
  const std::string what = "can't listen on 192.0.2.1";
  const auto first = logged_.find(what);
  ASSERT_NE(first, std::string::npos) << logged_;
  EXPECT_EQ(logged_.find(what, first + 1), std::string::npos);
}

TEST_F(SwitchNoticeTest, WhatIsNoAddressIsNone) {
  const std::string token(32, 'a');
  EXPECT_TRUE(NoticeAddress::parse("[fd00::12]:4/" + token));
  for (const std::string& bad : {std::string(), "10.0.0.1:4" + token, "10.0.0.1:4/" + token + "a",
                                 "10.0.0.1/" + token, "10.0.0.1:x/" + token}) {
    EXPECT_FALSE(NoticeAddress::parse(bad)) << bad;
  }
}

}  // namespace
}  // namespace mare::libvirt
