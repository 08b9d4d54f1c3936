// How fast the way from one host to another is. Bursts take turns: two at a time would share a link
// and each would tell too little. One that tells something else than the last time is repeated: it
// may have met a message of a job, which takes a share of the link for less time than a move does.
// The engine's thread only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hypervisor/driver.h"
#include "orchestrator/engine/context.h"

namespace mare::engine {

class LinkMeter : public std::enable_shared_from_this<LinkMeter> {
 public:
  using Then = std::function<void(Result<LinkMeasurement>)>;

  explicit LinkMeter(Context& context) : context_(context) {}
  LinkMeter(const LinkMeter&) = delete;
  LinkMeter& operator=(const LinkMeter&) = delete;

  /// Answers with what was measured at most `oldest` ago, else measures. Kept in memory only: after
  /// a restart everything is measured anew.
  void measure(const HostId& from, const HostId& to, std::chrono::nanoseconds oldest, Then then);

 private:
  using Pair = std::pair<HostId, HostId>;
  struct Known {
    LinkMeasurement link;
    MonotonicTime at{0};
    BytesPerSecond most{};  // that it was seen to carry
    MonotonicTime most_at{0};
  };
  struct Wanted {
    Pair pair;
    std::chrono::nanoseconds oldest{0};
    MonotonicTime asked{0};
    Then then;
  };

  std::optional<LinkMeasurement> known(const Wanted& wanted) const;
  void next();
  void open_sink();
  void send_burst(const IncomingEndpoint& sink);
  void burst_over(const Result<LinkMeasurement>& link);
  bool confirmed() const;
  BytesPerSecond most_of_bursts() const;
  void keep(const Pair& pair, LinkMeasurement& link, BytesPerSecond most);
  void measured(Result<LinkMeasurement> link, BytesPerSecond most = {});

  Context& context_;
  std::map<Pair, Known> known_;
  std::deque<Wanted> waiting_;  // the first one is being measured; as many as forecasts are made
  std::vector<LinkMeasurement> bursts_;  // of the first one
  bool busy_ = false;
};

}  // namespace mare::engine
