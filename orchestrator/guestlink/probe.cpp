#include "orchestrator/guestlink/probe.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "images/guest/protocol.h"
#include "orchestrator/guestlink/connection.h"
#include "orchestrator/guestlink/probe_math.h"

namespace mare::guestlink {
namespace {

// Ten minutes at 200 a second; a migration that lasts longer keeps its first and its latest
// samples.
constexpr std::size_t kMostSamples = 120'000;
constexpr std::size_t kMostUnanswered = 20'000;
// How long report(true) may have to wait for the thread, whatever the period.
constexpr MonotonicTime kLongestWait = Milliseconds{20};
// Each echo costs an emulated guest 0.7 to 2 ms of its CPU: 200 a second took two fifths of it, and
// ten a second still 3% of a guest that has a quarter of a core.
constexpr int kSeldom = 200;  // periods between two samples
constexpr int kClose = 4;     // when the guest is about to stand still
constexpr int kFar = 20;      // from then on
// A guest that takes long to answer has little CPU time: so many round trips between two samples
// leave it to its program. One that had a tenth of a core, and was asked 200 times a second since
// no answer was in time, did a third less while it moved and stood for seconds after it.
constexpr int kRest = 5;
constexpr int kSmooth = 8;  // as TCP's estimate of its round trip
// An answer is late after so many periods, or usual round trips.
constexpr int kLate = 4;
// What is asked in a silence is answered all at once after it, by an emulator that has the guest's
// code to translate anew: at 200 a second that took 40 ms of a job whose VM stood still for 50. So
// the last that is asked in one lies at most a fifth of it back, or so long: where frames are lost
// its length may be wrong by that (those that wait for the VM tell it exactly).
constexpr int kPartOfSilence = 5;
constexpr MonotonicTime kInSilence = Milliseconds{50};
// So many answers at the full rate at the beginning: evaluate() takes the quickest of them. Not
// again after a silence, when each costs an emulated guest most: what was asked in it is answered
// then, and evaluate() has the end of the series for the quickest.
constexpr int kSteady = 20;

std::uint64_t read_be64(const unsigned char* bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = (value << 8U) | bytes[i];
  return value;
}

class UdpProbe final : public GuestProbe {
 public:
  UdpProbe(Socket socket, Microseconds period, Clock& clock)
      : socket_(std::move(socket)), period_(period), clock_(clock), thread_([this] { sample(); }) {}
  ~UdpProbe() override { end(); }

  void watch_closely(bool closely) override {
    closely_.store(closely);
    if (closely) was_close_.store(true);
  }

  ProbeReport report(bool stop) override {
    if (stop) end();
    const std::lock_guard lock(mutex_);
    std::vector<MonotonicTime> unanswered;
    unanswered.reserve(waiting_.size());
    for (const auto& [number, sent] : waiting_) unanswered.push_back(sent);
    return evaluate(samples_, unanswered, sent_, period_);
  }

 private:
  void end() {
    stopping_.store(true);
    if (thread_.joinable()) thread_.join();
  }

  void sample() {
    MonotonicTime last = clock_.now() - period_;
    std::uint64_t number = 0;
    while (!stopping_.load()) {
      // From the last one that was sent: after a long stop of this process a burst would measure
      // nothing.
      if (clock_.now() >= last + pace()) {
        last = clock_.now();
        send_one(number++);
      }
      const MonotonicTime next = last + pace();
      const MonotonicTime left = std::clamp(next - clock_.now(), MonotonicTime{0}, wait_);
      const timespec wait{0, static_cast<long>(left.count())};
      pollfd watched{socket_.fd(), POLLIN, 0};
      if (ppoll(&watched, 1, &wait, nullptr) > 0) receive_all();
    }
  }

  /// Until the next sample.
  MonotonicTime pace() {
    const std::lock_guard lock(mutex_);
    const auto late = waiting_.lower_bound(unanswered_from_);
    const MonotonicTime patience = kLate * std::max<MonotonicTime>(period_, usual_);
    const MonotonicTime silence =
        late == waiting_.end() ? MonotonicTime{0} : clock_.now() - late->second;
    if (silence > patience) {
      return std::max(
          {std::min(silence / kPartOfSilence, kInSilence), MonotonicTime{period_}, usual_});
    }
    const int periods = answered_ < kSteady ? 1
                        : closely_.load()   ? kClose
                        : was_close_.load() ? kFar
                                            : kSeldom;
    return std::max(periods * MonotonicTime{period_}, kRest * usual_);
  }

  void send_one(std::uint64_t number) {
    std::array<unsigned char, MARE_GUEST_PING_BYTES> ping{};
    std::memcpy(ping.data(), MARE_GUEST_PING_MAGIC, 8);
    std::memcpy(ping.data() + 8, &number, sizeof number);
    const std::lock_guard lock(mutex_);
    waiting_.emplace(number, clock_.now());
    if (waiting_.size() > kMostUnanswered) waiting_.erase(waiting_.begin());
    ++sent_;
    // A send that fails (no route for a moment) is a sample without an answer: that is the
    // measurement.
    (void)send(socket_.fd(), ping.data(), ping.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  void receive_all() {
    std::array<unsigned char, 64> pong{};
    while (true) {
      const auto got = recv(socket_.fd(), pong.data(), pong.size(), MSG_DONTWAIT);
      if (got < 0) return;  // nothing more, or the guest's port was closed for a moment
      if (got != MARE_GUEST_PONG_BYTES || std::memcmp(pong.data(), MARE_GUEST_PONG_MAGIC, 8) != 0) {
        continue;
      }
      std::uint64_t number = 0;
      std::memcpy(&number, pong.data() + 8, sizeof number);
      keep(number,
           std::chrono::nanoseconds{static_cast<std::int64_t>(read_be64(pong.data() + 16))});
    }
  }

  void keep(std::uint64_t number, std::chrono::nanoseconds guest) {
    const std::lock_guard lock(mutex_);
    const auto waiting = waiting_.find(number);
    if (waiting == waiting_.end()) return;  // a duplicate
    const Sample sample{waiting->second, clock_.now(), guest, clock_.wall_now()};
    waiting_.erase(waiting);
    const MonotonicTime trip = sample.received - sample.sent;
    // One silence says nothing of the trips after it.
    if (samples_.empty()) usual_ = trip;
    usual_ += (std::min(trip, kLate * std::max<MonotonicTime>(period_, usual_)) - usual_) / kSmooth;
    unanswered_from_ = std::max(unanswered_from_, number + 1);
    ++answered_;
    if (samples_.size() >= kMostSamples) samples_.erase(samples_.begin() + kMostSamples / 2);
    samples_.push_back(sample);
  }

  Socket socket_;
  const Microseconds period_;
  // A late answer must be noticed in time.
  const MonotonicTime wait_ = std::min<MonotonicTime>(kLongestWait, kLate* period_);
  Clock& clock_;
  std::mutex mutex_;
  std::vector<Sample> samples_;
  std::map<std::uint64_t, MonotonicTime> waiting_;
  std::uint64_t unanswered_from_ = 0;  // none of these numbers or later was answered
  MonotonicTime usual_{0};             // round trip
  int answered_ = 0;
  int sent_ = 0;
  std::atomic<bool> closely_{false};
  std::atomic<bool> was_close_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

Result<std::unique_ptr<GuestProbe>> start_udp_probe(Ipv4Address ip, std::uint16_t port,
                                                    Microseconds period, Clock& clock) {
  if (period < Microseconds{500} || period > Microseconds{10'000'000}) {
    return make_error(Code::InvalidArgument,
                      "a probe every " + std::to_string(period.count()) + " us can't be made",
                      "give 500 to 10000000");
  }
  Socket socket(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(ip.value);
  if (socket.fd() < 0 ||
      connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return make_error(Code::Unavailable,
                      "cannot send to " + ip.text() + ": " + std::strerror(errno));
  }
  return std::unique_ptr<GuestProbe>(std::make_unique<UdpProbe>(std::move(socket), period, clock));
}

}  // namespace mare::guestlink
