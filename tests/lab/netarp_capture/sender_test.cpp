// What the sender really puts on a wire, read back from a port of the bridge and judged by tshark.
#include "netarp/sender.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "netarp/frame.h"
#include "tests/lab/netarp_capture/net.h"

namespace mare::netarp::test {
namespace {

const MacAddress kMac{{0x52, 0x54, 0x00, 0x12, 0x34, 0x56}};
const Ipv4Address kIp{0x0a4d0107};  // 10.77.1.7
const Ipv6Address kIp6{{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}};

class SenderTest : public NetTest {
 protected:
  void SetUp() override {
    NetTest::SetUp();
    add_bridge("br0");
    add_port("br0", "up0", "wire0");
    add_port("br0", "up1", "wire1");
  }

  Result<std::unique_ptr<Sender>> open(std::vector<Milliseconds> gaps) {
    return Sender::open("br0", Schedule{std::move(gaps)}, clock_, log_);
  }

  SystemClock clock_;
  Log log_{clock_, LogLevel::Error};
};

template <std::size_t N>
Bytes bytes(const std::array<std::uint8_t, N>& frame) {
  return {frame.begin(), frame.end()};
}

TEST_F(SenderTest, FloodsEveryFormEveryRound) {
  const Port wire0("wire0");
  const Port wire1("wire1");
  auto sender = open({Milliseconds{0}, Milliseconds{1}, Milliseconds{2}});
  ASSERT_TRUE(sender.ok()) << sender.error().text();
  const WallTime before = clock_.wall_now();
  auto first = (*sender)->announce({kMac, kIp, kIp6});
  ASSERT_TRUE(first.ok()) << first.error().text();
  EXPECT_GE(*first, before);
  EXPECT_LE(*first, clock_.wall_now());
  (*sender)->wait_finished(kMac);
  const auto progress = (*sender)->progress(kMac);
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->rounds, 3U);
  EXPECT_EQ(progress->frames, 9);
  EXPECT_EQ(progress->last_error, "");
  for (const Port* port : {&wire0, &wire1}) {
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(port->receive(kLimitMs), bytes(gratuitous_arp_request(kMac, kIp)));
      EXPECT_EQ(port->receive(kLimitMs), bytes(gratuitous_arp_reply(kMac, kIp)));
      EXPECT_EQ(port->receive(kLimitMs), bytes(unsolicited_advertisement(kMac, kIp6)));
    }
    EXPECT_EQ(port->receive(0), std::nullopt);
  }
}

/// Classic pcap, link type Ethernet.
void write_pcap(const std::filesystem::path& path, const std::vector<Bytes>& frames) {
  std::ofstream out(path, std::ios::binary);
  const auto word = [&](std::uint32_t value) {
    out.write(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (const std::uint32_t value : {0xa1b2c3d4U, 0x00040002U, 0U, 0U, 65535U, 1U}) word(value);
  for (const auto& frame : frames) {
    const auto size = static_cast<std::uint32_t>(frame.size());
    for (const std::uint32_t value : {0U, 0U, size, size}) word(value);
    out.write(reinterpret_cast<const char*>(frame.data()), size);
  }
}

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 4096> buffer{};
  while (const auto got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    out.append(buffer.data(), got);
  }
  ::pclose(pipe);
  return out;
}

TEST_F(SenderTest, TsharkReadsTheCapture) {
  const Port wire("wire0");
  auto sender = open({Milliseconds{0}});
  ASSERT_TRUE(sender.ok()) << sender.error().text();
  ASSERT_TRUE((*sender)->announce({kMac, kIp, kIp6}).ok());
  std::vector<Bytes> frames;
  while (frames.size() < 3) {
    auto frame = wire.receive(kLimitMs);
    ASSERT_TRUE(frame.has_value());
    frames.push_back(*frame);
  }
  std::array<char, 64> name{"/tmp/mare-netarp-XXXXXX"};
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const std::filesystem::path directory(name.data());
  write_pcap(directory / "wire.pcap", frames);
  const std::string seen =
      output_of("tshark -r " + (directory / "wire.pcap").string() +
                " -T fields -E separator=/s -e eth.src -e arp.opcode"
                " -e arp.isgratuitous -e arp.isannouncement -e arp.src.hw_mac -e arp.src.proto_ipv4"
                " -e ipv6.hlim -e icmpv6.type -e icmpv6.checksum.status -e icmpv6.nd.na.flag.o"
                " -e icmpv6.nd.na.target_address -e icmpv6.opt.linkaddr 2>/dev/null");
  std::filesystem::remove_all(directory);
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(seen);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    rows.emplace_back();
    // Wireshark 4.0 writes a true flag as 1, newer ones as True.
    for (std::string word; words >> word;) rows.back().push_back(word == "True" ? "1" : word);
  }
  const std::string mac = kMac.text();
  using Row = std::vector<std::string>;
  ASSERT_EQ(rows.size(), 3U) << "is tshark installed? It said: " << seen;
  EXPECT_EQ(rows[0], (Row{mac, "1", "1", "1", mac, "10.77.1.7"})) << seen;
  EXPECT_EQ(rows[1].at(1), "2") << seen;
  EXPECT_EQ(rows[1].at(2), "1") << seen;
  EXPECT_EQ(rows[2].at(0), mac) << seen;
  EXPECT_EQ(rows[2].at(1), "255") << seen;
  EXPECT_EQ(rows[2].at(2), "136") << seen;
  EXPECT_EQ(rows[2].at(3), "1") << "checksum status, 1 is good: " << seen;
  EXPECT_EQ(rows[2].at(4), "1") << "override: " << seen;
  EXPECT_EQ(rows[2].back(), mac) << seen;
}

TEST_F(SenderTest, SeveralMacsAtOnce) {
  const Port wire("wire0");
  auto sender = open({Milliseconds{0}, Milliseconds{1}});
  ASSERT_TRUE(sender.ok()) << sender.error().text();
  std::vector<MacAddress> macs;
  for (std::uint8_t i = 0; i < 20; ++i) macs.push_back({{0x52, 0x54, 0, 0, 1, i}});
  for (const auto& mac : macs) ASSERT_TRUE((*sender)->announce({mac, kIp, {}}).ok());
  for (const auto& mac : macs) {
    (*sender)->wait_finished(mac);
    EXPECT_EQ((*sender)->progress(mac)->frames, 4);
  }
  std::map<Bytes, int> seen;
  for (int i = 0; i < 80; ++i) {
    auto frame = wire.receive(kLimitMs);
    ASSERT_TRUE(frame.has_value()) << i;
    ++seen[*frame];
  }
  for (const auto& mac : macs) {
    EXPECT_EQ(seen[bytes(gratuitous_arp_request(mac, kIp))], 2) << mac.text();
    EXPECT_EQ(seen[bytes(gratuitous_arp_reply(mac, kIp))], 2) << mac.text();
  }
}

TEST_F(SenderTest, AnnouncingAgainStartsOver) {
  const Port wire("wire0");
  auto sender = open({Milliseconds{0}, Milliseconds{600'000}});
  ASSERT_TRUE(sender.ok()) << sender.error().text();
  const Ipv4Address other{kIp.value + 1};
  ASSERT_TRUE((*sender)->announce({kMac, kIp, {}}).ok());
  ASSERT_TRUE((*sender)->announce({kMac, other, {}}).ok());
  EXPECT_EQ((*sender)->progress(kMac)->frames, 2);
  EXPECT_FALSE((*sender)->progress(kMac)->finished);
  EXPECT_TRUE(wire.receives(bytes(gratuitous_arp_reply(kMac, kIp)), kLimitMs));
  EXPECT_TRUE(wire.receives(bytes(gratuitous_arp_reply(kMac, other)), kLimitMs));
}

TEST_F(SenderTest, EndsAtOnceInTheMiddleOfItsSchedule) {
  auto sender = open({Milliseconds{0}, Milliseconds{600'000}});
  ASSERT_TRUE(sender.ok()) << sender.error().text();
  ASSERT_TRUE((*sender)->announce({kMac, kIp, {}}).ok());
  const MonotonicTime before = clock_.now();
  sender->reset();
  // A millisecond when idle; the bound only has to be far below the gap.
  EXPECT_LT(clock_.now() - before, std::chrono::seconds(5));
}

TEST_F(SenderTest, SaysThatTheInterfaceIsDownOrGone) {
  auto sender = open({Milliseconds{0}, Milliseconds{600'000}});
  ASSERT_TRUE(sender.ok()) << sender.error().text();
  ASSERT_TRUE(run("ip link set br0 down"));
  auto down = (*sender)->announce({kMac, kIp, {}});
  ASSERT_FALSE(down.ok());
  EXPECT_EQ(down.error().code, Code::FailedPrecondition);
  EXPECT_NE(down.error().text().find("br0"), std::string::npos);
  EXPECT_FALSE((*sender)->progress(kMac).has_value());

  ASSERT_TRUE(run("ip link del br0"));
  auto gone = (*sender)->announce({kMac, kIp, {}});
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().code, Code::NotFound);

  add_bridge("br0");  // made anew: the sender needs no restart
  EXPECT_TRUE((*sender)->announce({kMac, kIp, {}}).ok());
}

TEST_F(SenderTest, RefusesWhatCantBeAnnounced) {
  auto sender = open({Milliseconds{0}});
  ASSERT_TRUE(sender.ok()) << sender.error().text();
  EXPECT_EQ((*sender)->announce({kMac, {}, {}}).error().field, "ip");
  EXPECT_EQ((*sender)->announce({kEverybody, kIp, {}}).error().field, "mac");
  EXPECT_FALSE(Sender::open("lo", Schedule{}, clock_, log_).ok());
}

}  // namespace
}  // namespace mare::netarp::test
