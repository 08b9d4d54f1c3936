// A network of bridges and veth pairs in a namespace of the test process's own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orchestrator/core/net.h"

namespace mare::netarp::test {

using Bytes = std::vector<std::uint8_t>;

/// For a frame that is to come: generous, since the machine may be busy.
constexpr int kLimitMs = 10'000;

/// Runs a command in this namespace; false if it failed.
bool run(const std::string& command);

/// Each test has a fresh, empty namespace; the process leaves the last one when it ends.
class NetTest : public ::testing::Test {
 protected:
  void SetUp() override;

  static void add_bridge(const std::string& name);
  /// A veth pair with one end in the bridge, the other for a Port.
  static void add_port(const std::string& bridge, const std::string& inside,
                       const std::string& outside);
};

/// One end of a cable: sends and receives whole frames.
class Port {
 public:
  explicit Port(const std::string& interface);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  void send(std::span<const std::uint8_t> frame) const;
  /// The next frame from outside, or nothing within `limit_ms`.
  std::optional<Bytes> receive(int limit_ms) const;
  /// Reads until a frame equals `frame`; false if none comes within `limit_ms` of silence.
  bool receives(const Bytes& frame, int limit_ms) const;
  /// Reads up to and including `marker` and says whether `frame` was before it. Frames keep their
  /// order on one path, so this proves absence without waiting.
  bool came_before(const Bytes& frame, const Bytes& marker) const;

 private:
  int fd_ = -1;
};

/// An Ethernet frame of an experimental type (0x88b5) with `tag` as its content.
Bytes plain_frame(const MacAddress& from, const MacAddress& to, std::uint8_t tag);

inline constexpr MacAddress kEverybody{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

}  // namespace mare::netarp::test
