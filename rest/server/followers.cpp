#include "rest/server/followers.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "rest/server/ask.h"
#include "rest/wire/entities.h"

namespace mare::rest {
namespace {

// A client may be this far behind what was given to the network; the rest stays where it is.
constexpr std::size_t kMostPending = 256 * 1024;
constexpr std::size_t kEventsAtOnce = 64;
constexpr Milliseconds kOutputTick{200};  // files don't say when they grow
constexpr Milliseconds kBacklogTick{50};  // a client is taking what it has
constexpr Milliseconds kQuietTick{1000};
constexpr Seconds kQuietEnough{60};  // a quiet output may make room for a new one

/// Up to `most` bytes of a file from `offset`; "" for a file that isn't there yet.
std::string read_part(const std::string& path, std::uint64_t offset, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  file.seekg(static_cast<std::streamoff>(offset));
  std::string out(most, '\0');
  file.read(out.data(), static_cast<std::streamsize>(most));
  out.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return out;
}

}  // namespace

std::string sse_frame(const Event& event) {
  // JSON text holds no line break, so one data line is enough.
  return "id: " + std::to_string(event.seq) + "\nevent: " + event.type +
         "\ndata: " + wire::to_text(wire::to_json(event)) + "\n\n";
}

Followers::Followers(const store::Store& store, Clock& clock, const RestOptions& options,
                     AnswerWait answer)
    : store_(store), clock_(clock), options_(options), answer_(std::move(answer)) {
  thread_ = std::thread([this] { run(); });
}

Followers::~Followers() {
  stop();
}

Followers::Stream Followers::make_stream(const std::shared_ptr<ByteStream>& out) const {
  Stream stream;
  stream.out = out;
  stream.progress = clock_.now();
  stream.last_write = clock_.now();
  return stream;
}

bool Followers::add(const std::shared_ptr<Exchange>& exchange, const EventFollow& what) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || counts_.streams >= options_.most_streams) return false;
  Response head;
  head.content_type = "text/event-stream";
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  arrivals_.events.push_back({make_stream(exchange->stream(std::move(head))), what});
  ++counts_.streams;
  wake_ = true;
  woken_.notify_one();
  return true;
}

bool Followers::add(const std::shared_ptr<Exchange>& exchange, const OutputFollow& what) {
  const std::lock_guard lock(mutex_);
  // One more than the limit: the thread ends the quietest output for it, if one is quiet enough.
  if (stopping_ || counts_.streams > options_.most_streams) return false;
  Response head;
  head.content_type = "text/plain; charset=utf-8";
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  arrivals_.outputs.push_back({make_stream(exchange->stream(std::move(head))), what});
  ++counts_.streams;
  wake_ = true;
  woken_.notify_one();
  return true;
}

bool Followers::add(const std::shared_ptr<Exchange>& exchange, const OperationWait& what) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || counts_.waiters >= options_.most_waiters) return false;
  arrivals_.waiters.push_back({exchange, what.id, clock_.now() + what.limit});
  ++counts_.waiters;
  wake_ = true;
  woken_.notify_one();
  return true;
}

void Followers::wake() {
  const std::lock_guard lock(mutex_);
  wake_ = true;
  woken_.notify_one();
}

Followers::Counts Followers::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void Followers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    woken_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

Milliseconds Followers::pause() const {
  const auto behind = [](const auto& list) {
    return std::any_of(list.begin(), list.end(),
                       [](const auto& f) { return f.stream.out->pending() > 0; });
  };
  if (behind(events_) || behind(outputs_)) return kBacklogTick;
  return outputs_.empty() ? std::min(kQuietTick, options_.heartbeat) : kOutputTick;
}

void Followers::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    woken_.wait_for(lock, pause(), [this] { return wake_ || stopping_; });
    wake_ = false;
    if (stopping_) break;
    take_arrivals();
    lock.unlock();
    serve_events();
    serve_outputs();
    serve_waiters(false);
    lock.lock();
    counts_.streams =
        events_.size() + outputs_.size() + arrivals_.events.size() + arrivals_.outputs.size();
    counts_.waiters = waiters_.size() + arrivals_.waiters.size();
  }
  take_arrivals();
  lock.unlock();
  end_all();
}

void Followers::take_arrivals() {
  events_.splice(events_.end(), arrivals_.events);
  outputs_.splice(outputs_.end(), arrivals_.outputs);
  waiters_.splice(waiters_.end(), arrivals_.waiters);
}

bool Followers::write(Stream& stream, std::string_view bytes) {
  stream.written += bytes.size();
  stream.last_write = clock_.now();
  return stream.out->write(bytes);
}

bool Followers::check(Stream& stream) {
  if (!stream.out->alive()) return false;
  const std::uint64_t pending = stream.out->pending();
  const std::uint64_t taken = stream.written - std::min(stream.written, pending);
  if (pending == 0 || taken > stream.taken) stream.progress = clock_.now();
  stream.taken = taken;
  if (clock_.now() - stream.progress < options_.stall) return true;
  stream.out->abort();
  return false;
}

void Followers::serve_events() {
  if (events_.empty()) return;
  // Without the last number only heartbeats go out; the next round asks again.
  const auto last = ask<std::uint64_t>(store_, [](const auto& r) { return r.last_event(); });
  events_.remove_if([&](EventStream& follower) {
    return !check(follower.stream) || !feed(follower, last ? *last : 0);
  });
}

bool Followers::feed(EventStream& follower, std::uint64_t last) {
  Stream& stream = follower.stream;
  if (follower.fresh) {
    follower.fresh = false;
    if (!write(stream, "retry: 2000\n: hello\n\n")) return false;
  }
  while (follower.what.after < last && stream.out->pending() < kMostPending) {
    const auto events = ask<std::vector<Event>>(
        store_, [&](const auto& r) { return r.events_after(follower.what.after, kEventsAtOnce); });
    if (!events || events->empty()) break;
    std::string frames;
    for (const auto& event : *events) {
      const auto& topics = follower.what.topics;
      if (topics.empty() || topics.contains(event.topic)) frames += sse_frame(event);
    }
    follower.what.after = events->back().seq;
    if (!frames.empty() && !write(stream, frames)) return false;
  }
  if (clock_.now() - stream.last_write < options_.heartbeat) return true;
  return write(stream, ": ping\n\n");
}

void Followers::serve_outputs() {
  evict_quiet_output();
  outputs_.remove_if(
      [&](OutputStream& follower) { return !check(follower.stream) || !feed(follower); });
}

bool Followers::feed(OutputStream& follower) {
  Stream& stream = follower.stream;
  // First the state, then the bytes: what a job wrote before its end is in the file by then.
  const auto job = ask<Job>(store_, [&](const auto& r) { return r.job(follower.what.job); });
  bool at_end = false;
  while (!at_end && stream.out->pending() < kMostPending) {
    const std::string part = read_part(follower.what.file, follower.what.offset, 64 * 1024);
    at_end = part.empty();
    if (at_end) break;
    follower.what.offset += part.size();
    if (!write(stream, part)) return false;
  }
  if (!at_end || !job || !is_final(job->state)) return true;
  stream.out->close();
  return false;
}

/// A client that has left shows only when something is written to it, and a quiet job writes
/// nothing. So when all places are taken, the longest quiet one goes; were it alive, its client
/// sees the break and comes back with its offset.
void Followers::evict_quiet_output() {
  if (outputs_.empty() || events_.size() + outputs_.size() <= options_.most_streams) return;
  const auto oldest = std::min_element(outputs_.begin(), outputs_.end(),
                                       [](const OutputStream& a, const OutputStream& b) {
                                         return a.stream.last_write < b.stream.last_write;
                                       });
  const bool quiet = clock_.now() - oldest->stream.last_write > kQuietEnough;
  const auto loser = quiet ? oldest : std::prev(outputs_.end());
  loser->stream.out->abort();
  outputs_.erase(loser);
}

void Followers::serve_waiters(bool ending) {
  waiters_.remove_if([&](Waiter& waiter) {
    const auto now = ask<Operation>(store_, [&](const auto& r) { return r.operation(waiter.id); });
    const bool due = ending || clock_.now() >= waiter.until;
    if (now && (now->finished() || due)) {
      waiter.exchange->reply(answer_(*now));
      return true;
    }
    if (!now && (due || now.error().code == Code::NotFound)) {
      // The exchange answers 500 by itself when it is dropped.
      return true;
    }
    return false;
  });
}

void Followers::end_all() {
  serve_waiters(true);
  for (auto& follower : events_) follower.stream.out->close();
  for (auto& follower : outputs_) follower.stream.out->abort();
  events_.clear();
  outputs_.clear();
  waiters_.clear();
  const std::lock_guard lock(mutex_);
  counts_ = {};
}

}  // namespace mare::rest
