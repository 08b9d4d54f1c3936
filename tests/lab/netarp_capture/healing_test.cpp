// A VM that says nothing moves from host A to host B; does its peer's traffic find it?
//
//   peer -- switch -- uplink A -- brA -- vmA
//              \----- uplink B -- brB -- vmB
//
// Three bridges stand for the switch and the hosts' bridges. vmA and vmB are the cable ends of the
// VM's two copies; moving is that vmA falls silent.
#include <gtest/gtest.h>

#include "netarp/bridge_fdb.h"
#include "netarp/frame.h"
#include "netarp/sender.h"
#include "tests/lab/netarp_capture/net.h"

namespace mare::netarp::test {
namespace {

const MacAddress kVm{{0x52, 0x54, 0x00, 0x00, 0x00, 0x01}};
const MacAddress kPeer{{0x52, 0x54, 0x00, 0x00, 0x00, 0x02}};
const Ipv4Address kVmIp{0x0a4d0101};

class HealingTest : public NetTest {
 protected:
  void SetUp() override {
    NetTest::SetUp();
    for (const char* bridge : {"sw", "brA", "brB"}) add_bridge(bridge);
    add_port("sw", "swp", "peer");
    add_port("sw", "swA", "upA");
    add_port("sw", "swB", "upB");
    ASSERT_TRUE(run("ip link set upA master brA"));
    ASSERT_TRUE(run("ip link set upB master brB"));
    add_port("brA", "tapA", "vmA");
    add_port("brB", "tapB", "vmB");
    peer_.emplace("peer");
    vm_a_.emplace("vmA");
    vm_b_.emplace("vmB");

    // On host A the VM speaks to everybody: the switch learns "port A", brB learns "uplink".
    const Bytes hello = plain_frame(kVm, kEverybody, 1);
    vm_a_->send(hello);
    ASSERT_TRUE(peer_->receives(hello, kLimitMs));
    ASSERT_TRUE(vm_b_->receives(hello, kLimitMs));
    ASSERT_TRUE(arrives_at(*vm_a_));
    ASSERT_FALSE(arrives_at(*vm_b_)) << "the bridges flood: nothing to heal";
  }

  /// Whether a frame from the peer to the VM comes out there.
  bool arrives_at(const Port& port) {
    const Bytes frame = plain_frame(kPeer, kVm, ++tag_);
    const Bytes marker = plain_frame(kPeer, kEverybody, tag_);
    peer_->send(frame);
    peer_->send(marker);
    return port.came_before(frame, marker);
  }

  SystemClock clock_;
  Log log_{clock_, LogLevel::Error};
  std::optional<Port> peer_, vm_a_, vm_b_;
  std::uint8_t tag_ = 10;
};

TEST_F(HealingTest, ControlWithoutAnnouncementStaysLost) {
  for (int i = 0; i < 50; ++i) ASSERT_FALSE(arrives_at(*vm_b_));
}

TEST_F(HealingTest, ControlFramesAloneLeaveTheOldEntryOfTheOwnBridge) {
  // The frames as any tool on host B would send them, without touching brB's table.
  const Port bridge("brB");
  bridge.send(gratuitous_arp_request(kVm, kVmIp));
  bridge.send(gratuitous_arp_reply(kVm, kVmIp));
  EXPECT_FALSE(arrives_at(*vm_a_)) << "the switch should have learned port B";
  EXPECT_FALSE(arrives_at(*vm_b_)) << "brB learned by itself: forget_learned() is not needed";
}

TEST_F(HealingTest, AnnouncementHeals) {
  auto sender = Sender::open("brB", Schedule{{Milliseconds{0}}}, clock_, log_);
  ASSERT_TRUE(sender.ok()) << sender.error().text();
  const MonotonicTime before = clock_.now();
  auto first = (*sender)->announce({kVm, kVmIp, {}});
  ASSERT_TRUE(first.ok()) << first.error().text();
  ASSERT_TRUE(arrives_at(*vm_b_));
  RecordProperty(
      "healed_us",
      std::to_string(std::chrono::duration_cast<Microseconds>(clock_.now() - before).count()));
  EXPECT_TRUE((*sender)->progress(kVm)->fdb_cleared);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(arrives_at(*vm_b_));
  EXPECT_FALSE(arrives_at(*vm_a_)) << "the switch floods instead of knowing port B";

  // Once the VM speaks at B the bridge there knows its tap, and the way back is as good.
  const Bytes word = plain_frame(kVm, kPeer, 2);
  vm_b_->send(word);
  EXPECT_TRUE(peer_->receives(word, kLimitMs));
  EXPECT_TRUE(arrives_at(*vm_b_));
}

TEST_F(HealingTest, MovesThereAndBack) {
  auto at_a = Sender::open("brA", Schedule{{Milliseconds{0}}}, clock_, log_);
  auto at_b = Sender::open("brB", Schedule{{Milliseconds{0}}}, clock_, log_);
  ASSERT_TRUE(at_a.ok() && at_b.ok());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE((*at_b)->announce({kVm, kVmIp, {}}).ok());
    ASSERT_TRUE(arrives_at(*vm_b_)) << i;
    ASSERT_TRUE((*at_a)->announce({kVm, kVmIp, {}}).ok());
    ASSERT_TRUE(arrives_at(*vm_a_)) << i;
  }
}

TEST_F(HealingTest, ForgetsOnlyWhatWasLearned) {
  auto removed = forget_learned("brB", kVm);
  ASSERT_TRUE(removed.ok()) << removed.error().text();
  EXPECT_TRUE(*removed);
  EXPECT_FALSE(*forget_learned("brB", kVm)) << "there is nothing left";
  ASSERT_TRUE(run("bridge fdb add 52:54:00:00:00:01 dev tapB master static"));
  EXPECT_FALSE(*forget_learned("brB", kVm)) << "an entry made by hand is an administrator's will";
  EXPECT_FALSE(*forget_learned("vmB", kVm)) << "not a bridge";
  EXPECT_EQ(forget_learned("nothing", kVm).error().code, Code::NotFound);
}

}  // namespace
}  // namespace mare::netarp::test
