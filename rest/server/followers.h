// Everything that outlasts a request: event streams, followed outputs, waits for operations. One
// thread serves all; it pulls from the event table, the output files and the operations at the pace
// of each client, so that a slow one costs a bounded buffer and nothing else.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "orchestrator/core/clock.h"
#include "orchestrator/store/store.h"
#include "rest/server/http.h"
#include "rest/server/rest_server.h"

namespace mare::rest {

struct EventFollow {
  std::uint64_t after = 0;
  std::set<std::string> topics;  // empty: all
};
struct OutputFollow {
  JobId job;
  std::string file;
  std::uint64_t offset = 0;
};
struct OperationWait {
  OperationId id;
  Milliseconds limit{0};
};

/// "id: 7\nevent: vm.state\ndata: {...}\n\n"
std::string sse_frame(const Event& event);

class Followers {
 public:
  struct Counts {
    std::size_t streams = 0;
    std::size_t waiters = 0;
  };
  /// Answers a wait: the operation as it is.
  using AnswerWait = std::function<Response(const Operation&)>;

  Followers(const store::Store& store, Clock& clock, const RestOptions& options, AnswerWait answer);
  ~Followers();
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

  // Each takes the exchange over, or answers false when there are too many already.
  bool add(const std::shared_ptr<Exchange>& exchange, const EventFollow& what);
  bool add(const std::shared_ptr<Exchange>& exchange, const OutputFollow& what);
  bool add(const std::shared_ptr<Exchange>& exchange, const OperationWait& what);

  /// Something was committed.
  void wake();
  /// Ends streams properly and answers waits with what is there.
  void stop();
  Counts counts() const;

 private:
  struct Stream {
    std::shared_ptr<ByteStream> out;
    std::uint64_t written = 0;
    std::uint64_t taken = 0;    // of it, by the network
    MonotonicTime progress{0};  // when `taken` last grew, or nothing was pending
    MonotonicTime last_write{0};
  };
  struct EventStream {
    Stream stream;
    EventFollow what;
    bool fresh = true;
  };
  struct OutputStream {
    Stream stream;
    OutputFollow what;
  };
  struct Waiter {
    std::shared_ptr<Exchange> exchange;
    OperationId id;
    MonotonicTime until{0};
  };
  /// What the thread takes in at its next round.
  struct Arrivals {
    std::list<EventStream> events;
    std::list<OutputStream> outputs;
    std::list<Waiter> waiters;
  };

  void run();
  Milliseconds pause() const;
  void take_arrivals();
  void serve_events();
  void serve_outputs();
  void serve_waiters(bool ending);
  bool feed(EventStream& follower, std::uint64_t last);
  bool feed(OutputStream& follower);
  bool write(Stream& stream, std::string_view bytes);
  /// False when the client is gone, or has stalled and was cut off.
  bool check(Stream& stream);
  void evict_quiet_output();
  Stream make_stream(const std::shared_ptr<ByteStream>& out) const;
  void end_all();

  const store::Store& store_;
  Clock& clock_;
  const RestOptions& options_;
  AnswerWait answer_;

  mutable std::mutex mutex_;
  std::condition_variable woken_;
  bool wake_ = false;
  bool stopping_ = false;
  Arrivals arrivals_;
  Counts counts_;  // of arrivals and of the thread's own

  // Only the thread's.
  std::list<EventStream> events_;
  std::list<OutputStream> outputs_;
  std::list<Waiter> waiters_;

  std::thread thread_;
};

}  // namespace mare::rest
