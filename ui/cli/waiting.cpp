#include "ui/cli/waiting.h"

#include <algorithm>
#include <cmath>

#include "ui/cli/human.h"
#include "ui/cli/views.h"

namespace mare::cli {
namespace {

// A restart of mared takes a second or two; a machine that swaps needs longer.
constexpr Milliseconds kPatience{60'000};
constexpr Milliseconds kPeriod{500};

/// Deadlines of one wait, and how long the server has been silent.
class Patience {
 public:
  explicit Patience(Session& session) : session_(session), begun_(session.clock().now()) {}

  bool timed_out() const {
    const auto& limit = session_.globals().timeout;
    return limit && session_.clock().now() - begun_ >= *limit;
  }
  Milliseconds elapsed() const {
    return std::chrono::duration_cast<Milliseconds>(session_.clock().now() - begun_);
  }
  /// Waits until the next look is due; false when interrupted.
  bool pause() const {
    Milliseconds pause = kPeriod;
    if (const auto& limit = session_.globals().timeout) {
      pause = std::clamp(*limit - elapsed(), Milliseconds{1}, kPeriod);
    }
    return session_.interrupt().wait(pause);
  }
  /// May the wait go on after this error?
  bool bears(const Error& error, StatusLine& line) {
    if (error.code != Code::Unavailable) return false;
    const auto now = session_.clock().now();
    if (!silent_) {
      silent_ = true;
      silent_since_ = now;
    }
    line.show("mared does not answer; waiting for it to come back",
              "mared does not answer; waiting for it to come back");
    return now - silent_since_ < kPatience;
  }
  void heard() { silent_ = false; }

 private:
  Session& session_;
  MonotonicTime begun_;
  bool silent_ = false;
  MonotonicTime silent_since_{0};
};

std::string seconds_text(Milliseconds elapsed) {
  return std::to_string(elapsed.count() / 1000) + " s";
}

/// Looks at `path` until `ended` says so. The heart of both waits.
Result<WaitEnd> wait_until(Session& session, const std::string& path,
                           const std::function<bool(const Json&)>& ended, const Looker& look) {
  StatusLine line{session.globals().quiet};
  Patience patience{session};
  WaitEnd end;
  for (;;) {
    auto seen = session.get(path);
    if (!seen && seen.error().code == Code::Cancelled) break;
    if (!seen && !patience.bears(seen.error(), line)) return seen.error();
    if (seen) {
      patience.heard();
      end.last = *std::move(seen);
      if (ended(end.last)) return end;
      if (!line.is_quiet()) {
        const Look now = look(session, end.last);
        line.show(now.live + "  " + seconds_text(patience.elapsed()), now.plain);
      }
    }
    if (patience.timed_out()) {
      end.how = WaitEnd::How::TimedOut;
      return end;
    }
    if (!patience.pause()) break;
  }
  end.how = WaitEnd::How::Interrupted;
  return end;
}

std::string rate_and_eta(const Json& migration, double remaining) {
  const Json& rounds = member(migration, "rounds");
  if (rounds.empty()) return {};
  const Json& last = rounds.back();
  const double sent = number(last, "sent_bytes").value_or(0);
  const double seconds = number(last, "duration_ms").value_or(0) / 1000;
  if (sent <= 0 || seconds <= 0) return {};
  const double rate = sent / seconds;
  const double dirty = number(last, "dirty_bytes_per_s").value_or(0);
  std::string out = "  " + human_rate(rate);
  // While pages are dirtied as fast as they are sent there is no end to tell.
  if (rate > dirty) out += "  ETA " + human_ms(remaining / (rate - dirty) * 1000);
  return out;
}

}  // namespace

Look look_at_operation(Session&, const Json& operation) {
  const std::string name = text(operation, "kind") + " " + text(operation, "target");
  const double progress = number(operation, "progress").value_or(0);
  const std::string state = text(operation, "state");
  std::string live = name + "  ";
  if (progress > 0) live += bar(progress, 24) + " ";
  return {live + state, name + ": " + state};
}

Look look_at_pool(Session& session, const Json& operation) {
  auto vms = session.get(api({"vms"}) + "?" + query({{"pool", text(operation, "target")}}));
  if (!vms) return look_at_operation(session, operation);
  const Json& items = member(*vms, "items");
  const auto running = std::count_if(items.begin(), items.end(),
                                     [](const Json& vm) { return text(vm, "state") == "running"; });
  const std::string counted =
      std::to_string(running) + " of " + std::to_string(items.size()) + " VMs run";
  const std::string name = "pool " + text(operation, "target");
  const double share =
      items.empty() ? 0 : static_cast<double>(running) / static_cast<double>(items.size());
  return {name + "  " + bar(share, 24) + " " + counted + ", " + text(operation, "state"),
          name + ": " + text(operation, "state") + ", " + counted};
}

Look look_at_migration(Session& session, const Json& operation) {
  auto seen = session.get(api({"migrations", text(operation, "id")}));
  if (!seen) return look_at_operation(session, operation);
  const Json& migration = *seen;
  const std::string name = text(migration, "vm") + " " + text(migration, "source") + " -> " +
                           text(migration, "destination");
  const double total = number(migration, "memory_total_bytes").value_or(0);
  const double remaining = number(migration, "remaining_bytes").value_or(0);
  const std::size_t rounds = member(migration, "rounds").size();
  const std::string state = text(operation, "state");
  const std::string round = rounds == 0 ? "" : ", round " + std::to_string(rounds - 1);
  Look look{name + "  " + state, name + ": " + state + round};
  if (const std::string waits = printable(text(operation, "reason")); !waits.empty()) {
    look = {name + "  " + waits, name + ": " + waits};
  }
  if (total > 0 && rounds > 0) {
    look.live = name + "  " + bar(1 - remaining / total, 20) + " " + state + round + "  " +
                human_bytes(remaining) + " left" + rate_and_eta(migration, remaining);
  }
  return look;
}

Result<WaitEnd> wait_for_operation(Session& session, const std::string& id, const Looker& look) {
  const auto ended = [](const Json& operation) { return text(operation, "outcome") != "pending"; };
  return wait_until(session, api({"operations", id}), ended, look);
}

Result<WaitEnd> wait_for_job(Session& session, const std::string& id) {
  const auto ended = [](const Json& job) {
    const std::string state = text(job, "state");
    return state == "succeeded" || state == "failed" || state == "cancelled";
  };
  const auto look = [](Session&, const Json& job) {
    const std::string line = text(job, "id") + " (" + text(job, "name") + ") " + text(job, "state");
    const auto output = number(job, "output_bytes").value_or(0);
    return Look{line + (output > 0 ? ", " + human_bytes(output) + " of output" : ""), line};
  };
  return wait_until(session, api({"jobs", id}), ended, look);
}

Error operation_error(const Json& operation) {
  const std::string outcome = text(operation, "outcome");
  const std::string reason = text(operation, "reason");
  Error error =
      make_error(Code::Internal, text(operation, "kind") + " " + text(operation, "target") +
                                     (outcome == "cancelled" ? " was cancelled" : " failed") +
                                     (reason.empty() ? "" : ": " + printable(reason)));
  error.remedy = "more: mare operation show " + text(operation, "id");
  if (outcome == "needs_operator") error.remedy = "it needs you; " + error.remedy;
  return error;
}

int finish(Session& session, const Json& operation, const Follow& follow) {
  const std::string id = text(operation, "id");
  if (!session.globals().wait.value_or(follow.wait_by_default)) {
    session.print_object(operation, operation_columns(session.clock().wall_now()));
    return kOk;
  }
  auto end = wait_for_operation(session, id, follow.look);
  if (!end) return session.fail(end.error());
  if (end->how != WaitEnd::How::Ended) {
    const bool timed_out = end->how == WaitEnd::How::TimedOut;
    session.say(std::string("mare: ") + (timed_out ? "timed out waiting" : "no longer waiting") +
                "; " + id + " goes on. Wait again: mare operation wait " + id +
                ", cancel: mare operation cancel " + id);
    return timed_out ? kTimedOut : kInterrupted;
  }
  const Json& last = end->last;
  const bool answered = follow.answer && text(last, "outcome") == "succeeded";
  if (session.wants(Output::JsonText) && !answered) session.print_json(last);
  if (text(last, "outcome") != "succeeded") {
    session.fail(operation_error(last));
    return kFailed;
  }
  if (!follow.done.empty()) session.say(follow.done);
  if (answered) {
    auto answer = follow.answer(session, last);
    if (!answer) return session.fail(answer.error());
    follow.show(session, *answer);
    return kOk;
  }
  if (follow.on_success && !session.wants(Output::JsonText)) follow.on_success(session, last);
  return kOk;
}

}  // namespace mare::cli
