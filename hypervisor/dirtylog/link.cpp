#include "hypervisor/dirtylog/link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "hypervisor/dirtylog/sockets.h"
#include "hypervisor/dirtylog/tcp_queues.h"

namespace mare::dirtylog {
namespace {

constexpr std::string_view kScheme = "mare-link://";
constexpr std::size_t kTokenBytes = 16;
constexpr std::size_t kTokenLength = 2 * kTokenBytes;
constexpr std::chrono::seconds kSinkLives{10};
constexpr std::chrono::seconds kSenderWaits{5};
constexpr std::size_t kMostSinks = 8;
/// 4 MiB are 0.34 s at 100 Mbit/s and 34 ms at 1 Gbit/s.
constexpr std::size_t kBurst = std::size_t{4} << 20U;
constexpr Milliseconds kBurstTime{500};
/// Twice the bucket of 1 ms that links of 1 Gbit/s are shaped with (125 kB), and past the slow
/// start.
constexpr std::uint64_t kLeftOut = 256 * 1024;
constexpr std::size_t kMostMoments = 100;
constexpr std::size_t kEchoes = 5;
constexpr std::size_t kEchoBytes = 16;
constexpr std::size_t kBlock = 64 * 1024;

using Echo = std::array<std::byte, kEchoBytes>;

/// What the sink answers at the end.
struct Answer {
  std::uint64_t received = 0;
  double goodput = 0;  // bytes/s
};
// Both ends are the same program on the same kind of machine.
static_assert(sizeof(Answer) == 16);

/// Reads the burst to its end; what arrived when.
std::vector<ArrivalPoint> take_burst(int connection, int stop, Clock& clock,
                                     MonotonicTime deadline) {
  std::vector<StampedArrival> arrivals;
  std::vector<std::byte> block(kBlock);
  std::uint64_t sum = 0;
  while (sum <= kBurst) {
    std::chrono::nanoseconds stamp{0};
    const ssize_t got = receive_stamped(connection, block, stamp);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!await(connection, POLLIN, stop, clock, deadline)) break;
      continue;
    }
    if (got <= 0) break;
    sum += static_cast<std::uint64_t>(got);
    arrivals.push_back({sum, stamp, clock.now()});
  }
  return by_one_clock(arrivals);
}

/// Random: nothing on the way may compress it, or remember it.
std::vector<std::byte> noise(std::uint64_t seed) {
  std::vector<std::byte> out(kBurst);
  SeededRng rng(seed);
  for (std::size_t i = 0; i < out.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t word = rng.next();
    std::memcpy(out.data() + i, &word, sizeof word);
  }
  return out;
}

std::optional<Microseconds> round_trip(int fd, Clock& clock, MonotonicTime deadline) {
  std::array<MonotonicTime, kEchoes> spans{};
  for (auto& span : spans) {
    Echo echo{};
    const MonotonicTime began = clock.now();
    if (!send_all(fd, echo, -1, clock, deadline)) return std::nullopt;
    if (!receive_all(fd, echo, -1, clock, deadline)) return std::nullopt;
    span = clock.now() - began;
  }
  std::sort(spans.begin(), spans.end());
  return std::chrono::duration_cast<Microseconds>(spans[kEchoes / 2]);
}

/// As much as leaves within the time.
bool send_burst(int fd, Clock& clock) {
  const auto bytes = noise(static_cast<std::uint64_t>(clock.now().count()));
  const MonotonicTime stop = clock.now() + kBurstTime;
  for (std::size_t at = 0; at < bytes.size() && clock.now() < stop; at += kBlock) {
    const auto block = std::span(bytes).subspan(at, std::min(kBlock, bytes.size() - at));
    // A link that does not take one block in the time is measured by what it took.
    if (!send_all(fd, block, -1, clock, stop) && clock.now() < stop) return false;
  }
  return shutdown(fd, SHUT_WR) == 0;
}

}  // namespace

std::string SinkAddress::uri() const {
  return std::string(kScheme) + at.text() + "/" + token;
}

Result<SinkAddress> SinkAddress::parse(const std::string& uri) {
  const Error wrong = make_error(Code::InvalidArgument, "'" + uri + "' is not a sink's address");
  const auto slash = uri.rfind('/');
  if (!uri.starts_with(kScheme) || slash < kScheme.size() ||
      uri.size() != slash + 1 + kTokenLength) {
    return wrong;
  }
  auto at = Endpoint::parse(uri.substr(kScheme.size(), slash - kScheme.size()));
  if (!at) return wrong;
  return SinkAddress{*at, uri.substr(slash + 1)};
}

std::vector<ArrivalPoint> by_one_clock(const std::vector<StampedArrival>& arrivals) {
  const bool stamped = std::all_of(arrivals.begin(), arrivals.end(),
                                   [](const auto& one) { return one.stamp.count() != 0; });
  std::vector<ArrivalPoint> out;
  for (const auto& one : arrivals) out.push_back({one.bytes, stamped ? one.stamp : one.seen});
  return out;
}

BytesPerSecond goodput_of(const std::vector<ArrivalPoint>& arrivals) {
  if (arrivals.size() < 2) return {};
  const ArrivalPoint& last = arrivals.back();
  const std::uint64_t left_out = std::min(kLeftOut, last.bytes / 2);
  const auto first = std::find_if(arrivals.begin(), arrivals.end(), [&](const ArrivalPoint& point) {
    return point.bytes >= left_out;
  });
  // The median over pairs of moments (Theil and Sen), far enough from each other to tell a rate and
  // so near that most of them have nothing between them that held the sender up.
  std::vector<ArrivalPoint> few;
  const auto count = static_cast<std::size_t>(arrivals.end() - first);
  const std::size_t most = std::min(count, kMostMoments);
  for (std::size_t i = 0; i < most; ++i)
    few.push_back(first[i * (count - 1) / std::max<std::size_t>(1, most - 1)]);
  const std::size_t apart = std::max<std::size_t>(1, few.size() / 6);
  std::vector<double> slopes;
  for (std::size_t i = 0; i + apart < few.size(); ++i) {
    for (std::size_t j = i + apart; j < std::min(few.size(), i + 2 * apart + 1); ++j) {
      const double span = std::chrono::duration<double>(few[j].at - few[i].at).count();
      if (span > 0) slopes.push_back(static_cast<double>(few[j].bytes - few[i].bytes) / span);
    }
  }
  if (slopes.empty()) return {};
  const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  return {*middle};
}

LinkSinks::LinkSinks(std::string address, Clock& clock, Log& log)
    : address_(std::move(address)),
      clock_(clock),
      log_(log),
      closing_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

LinkSinks::~LinkSinks() {
  const std::uint64_t one = 1;
  // Its only failure is an overflow of 2^64.
  static_cast<void>(!write(closing_.get(), &one, sizeof one));
  for (auto& sink : sinks_) sink.thread.join();
}

Result<std::string> LinkSinks::open() {
  std::uint16_t port = 0;
  auto listener = listen_on(address_, port);
  if (!listener) return listener.error();
  const std::lock_guard lock(mutex_);
  for (auto it = sinks_.begin(); it != sinks_.end();) {
    const auto next = std::next(it);
    if (it->over) {
      it->thread.join();  // it has nothing left to do
      sinks_.erase(it);
    }
    it = next;
  }
  if (sinks_.size() >= kMostSinks) {
    return make_error(Code::ResourceExhausted, "too many links to this host are being measured",
                      "try again in some seconds");
  }
  Sink& sink = sinks_.emplace_back();
  sink.listener = std::move(*listener);
  sink.token = make_hex(rng_, kTokenBytes);
  sink.thread = std::thread([this, &sink] { serve(sink); });
  return SinkAddress{{address_, port}, sink.token}.uri();
}

void LinkSinks::serve(Sink& sink) {
  const MonotonicTime deadline = clock_.now() + kSinkLives;
  // Whoever comes without the word is sent away, and the next one may try.
  bool done = false;
  while (!done && await(sink.listener.get(), POLLIN, closing_.get(), clock_, deadline)) {
    const Fd connection{
        accept4(sink.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (connection) done = serve_one(connection.get(), sink, deadline);
  }
  sink.listener = Fd{};
  sink.over = true;
}

bool LinkSinks::serve_one(int connection, const Sink& sink, MonotonicTime deadline) {
  std::array<std::byte, kTokenLength> token{};
  const auto in_time = std::min(deadline, clock_.now() + std::chrono::seconds{1});
  if (!receive_all(connection, token, closing_.get(), clock_, in_time) ||
      std::memcmp(token.data(), sink.token.data(), kTokenLength) != 0) {
    log_.warn("dirtylog", "somebody without the right word tried to measure a link to this host");
    return false;
  }
  make_prompt(connection);
  ask_for_stamps(connection);
  for (std::size_t i = 0; i < kEchoes; ++i) {
    Echo echo{};
    if (!receive_all(connection, echo, closing_.get(), clock_, deadline)) return true;
    if (!send_all(connection, echo, closing_.get(), clock_, deadline)) return true;
  }
  const auto arrivals = take_burst(connection, closing_.get(), clock_, deadline);
  Answer answer;
  answer.received = arrivals.empty() ? 0 : arrivals.back().bytes;
  answer.goodput = goodput_of(arrivals).value;
  if (answer.goodput > 0) last_goodput_ = answer.goodput;
  send_all(connection, std::as_bytes(std::span(&answer, 1)), closing_.get(), clock_, deadline);
  return true;
}

Result<LinkMeasurement> measure_link(const std::string& uri, Clock& clock) {
  auto sink = SinkAddress::parse(uri);
  if (!sink) return sink.error();
  const MonotonicTime deadline = clock.now() + kSenderWaits;
  auto connection = connect_to(sink->at, clock, deadline);
  if (!connection) return connection.error();
  const int fd = connection->get();
  make_prompt(fd);
  const Error broke = make_error(Code::Unavailable, "the sink at " + sink->at.text() + " hung up",
                                 "open a new one: each is for one measurement within 10 s");
  if (!send_all(fd, std::as_bytes(std::span(sink->token)), -1, clock, deadline)) return broke;
  const auto trip = round_trip(fd, clock, deadline);
  give_way(fd);  // as the move itself will
  if (!trip || !send_burst(fd, clock)) return broke;
  Answer answer;
  if (!receive_all(fd, std::as_writable_bytes(std::span(&answer, 1)), -1, clock, deadline)) {
    return broke;
  }
  if (answer.goodput <= 0) {
    return make_error(Code::Unavailable,
                      "too little of the burst came to " + sink->at.text() + " to tell its speed");
  }
  return LinkMeasurement{{answer.goodput}, *trip, Bytes{answer.received}};
}

}  // namespace mare::dirtylog
