#include "orchestrator/engine/safe_point_search.h"

#include <algorithm>

namespace mare::engine {
namespace {

std::string in_ms(Milliseconds span) {
  return std::to_string(span.count()) + " ms";
}

bool is_safe(const SafePointView& view, Milliseconds window) {
  if (!view.status || view.status->ranks == 0 || view.age > window) return false;
  const bool all_inside = view.status->inside == view.status->ranks;
  return all_inside || view.status->outside + view.age <= window;
}

}  // namespace

SafePoint judge(const std::vector<SafePointView>& views, Milliseconds window) {
  const bool unable = std::any_of(views.begin(), views.end(), [](const auto& view) {
    return !view.status && view.status.error().code == Code::Unsupported;
  });
  const bool nobody = std::all_of(views.begin(), views.end(), [](const auto& view) {
    return view.status && view.status->ranks == 0;
  });
  if (unable || nobody) return SafePoint::Absent;
  const bool all_safe = std::all_of(views.begin(), views.end(),
                                    [&](const auto& view) { return is_safe(view, window); });
  return all_safe ? SafePoint::Hit : SafePoint::Missed;
}

SafePointSearch::SafePointSearch(Context& context, JobId job, std::vector<GuestAddress> guests,
                                 Seconds longest, std::function<void(const Found&)> then)
    : context_(context),
      job_(std::move(job)),
      guests_(std::move(guests)),
      longest_(longest),
      then_(std::move(then)) {}

void SafePointSearch::begin() {
  began_ = context_.ports.clock.now();
  const std::weak_ptr<SafePointSearch> self = weak_from_this();
  context_.after(std::chrono::duration_cast<std::chrono::nanoseconds>(longest_), [self] {
    const auto here = self.lock();
    if (!here || !here->then_) return;
    here->end(SafePoint::Missed,
              "no safe point within " + in_ms(here->waited()) + here->who_is_late());
  });
  ask();
}

/// In rounds, so that a guest which does not answer is not asked over and over.
void SafePointSearch::ask() {
  asked_ = context_.ports.clock.now();
  ++round_;
  open_ = guests_.size();
  const auto silent = make_error(Code::Unavailable, "no answer yet");
  views_.assign(guests_.size(), SafePointView{silent, Milliseconds{0}});
  for (std::size_t i = 0; i < guests_.size(); ++i) {
    const auto work = [&port = context_.ports.guests, inbox = context_.inbox, guest = guests_[i],
                       job = job_, self = weak_from_this(), i, round = round_] {
      auto status = port.safe_points(guest, job);
      inbox->post([self, i, round, status = std::move(status)] {
        if (const auto here = self.lock()) here->answered(i, round, status);
      });
    };
    context_.ports.executor.run("guest/" + guests_[i].vm.value, work);
  }
}

void SafePointSearch::answered(std::size_t which, int round, Result<SafePointStatus> status) {
  if (!then_ || round != round_) return;
  views_[which].status = std::move(status);
  if (--open_ == 0) all_answered();
}

void SafePointSearch::all_answered() {
  // Its answer may be as old as the question.
  const auto age = std::chrono::ceil<Milliseconds>(context_.ports.clock.now() - asked_);
  for (auto& view : views_) view.age = age;
  switch (judge(views_, context_.settings.safe_point_window)) {
    case SafePoint::Hit:
      return end(SafePoint::Hit, "at a safe point, after " + in_ms(waited()));
    case SafePoint::Absent:
      return end(SafePoint::Absent, "its programs announce no safe points");
    case SafePoint::Missed:
    case SafePoint::NotAsked:
      break;
  }
  context_.after(context_.settings.safe_point_poll, [self = weak_from_this()] {
    const auto here = self.lock();
    if (here && here->then_) here->ask();
  });
}

void SafePointSearch::end(SafePoint point, const std::string& words) {
  const auto then = std::move(then_);
  then_ = nullptr;
  then({point, words});
}

Milliseconds SafePointSearch::waited() const {
  return std::chrono::floor<Milliseconds>(context_.ports.clock.now() - began_);
}

std::string SafePointSearch::who_is_late() const {
  for (std::size_t i = 0; i < views_.size(); ++i) {
    const SafePointView& view = views_[i];
    const std::string name = ": " + guests_[i].vm.value;
    if (!view.status) return name + ": " + view.status.error().message;
    if (view.status->ranks == 0) return name + " has no rank that announces any";
    if (view.age > context_.settings.safe_point_window) {
      return ": guests take " + in_ms(view.age) + " to answer";
    }
    if (!is_safe(view, context_.settings.safe_point_window)) {
      return name + " was out of a collective for " + in_ms(view.status->outside + view.age);
    }
  }
  return {};
}

}  // namespace mare::engine
