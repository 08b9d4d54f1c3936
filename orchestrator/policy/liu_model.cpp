#include "orchestrator/policy/liu_model.h"

#include <algorithm>
#include <cmath>

namespace mare::policy::liu {
namespace {

/// Sum of V_1 to V_n and V_n, where V_i = V_1 lambda^(i-1), bounded by the WWS.
struct Series {
  double sum = 0;
  double last = 0;
};

Series geometric(double first, double lambda, int n) {
  if (n <= 0) return {};
  const double last = first * std::pow(lambda, n - 1);
  if (std::abs(lambda - 1) < 1e-12) return {first * n, first};
  return {first * (1 - std::pow(lambda, n)) / (1 - lambda), last};
}

/// Grows until it meets the WWS, then stays.
Series growing(double first, double lambda, double wws, int n) {
  int free = n;
  if (lambda > 1 && first > 0) {
    free = first >= wws ? 0 : static_cast<int>(std::ceil(std::log(wws / first) / std::log(lambda)));
    free = std::clamp(free, 0, n);
  }
  Series out = geometric(first, lambda, free);
  out.sum += wws * (n - free);
  if (n > free) out.last = wws;
  return out;
}

}  // namespace

Output forecast(const Input& input) {
  Output out;
  if (!(input.rate > 0)) {
    out.converges = false;
    return out;
  }
  const double lambda = input.dirty_rate / input.rate;
  const double wws = std::min(input.wws_bytes, input.memory_bytes);
  const double first = std::min(lambda * input.memory_bytes, wws);
  int n = 1;  // rounds sent after round 0, the last of them with the VM stopped
  if (first > input.stop_bytes) {
    out.converges = lambda < 1 && input.stop_bytes > 0;
    const double more =
        out.converges ? std::ceil(std::log(input.stop_bytes / first) / std::log(lambda)) : 0;
    out.converges = out.converges && more < input.most_rounds;
    n = out.converges ? 1 + static_cast<int>(more) : input.most_rounds;
  }
  const Series later = lambda < 1 ? geometric(first, lambda, n) : growing(first, lambda, wws, n);
  out.rounds = n;
  out.sent_bytes = input.memory_bytes + later.sum;
  out.total_time_s = out.sent_bytes / input.rate + input.resume_s;
  out.downtime_s = later.last / input.rate + input.resume_s;
  return out;
}

}  // namespace mare::policy::liu
