#include "orchestrator/policy/paper_models.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace mare::policy::neves {
namespace {

using Row = std::vector<double>;

struct Scales {
  Row mean;
  Row width;  // standard deviation; never 0
  double output_mean = 0;
};

// Inputs are bytes, around 1e8, beside a constant of 1: centred and scaled, the normal equations
// lose no digits that matter.
Result<Scales> scales_of(const std::vector<Sample>& samples, std::size_t inputs) {
  const double n = static_cast<double>(samples.size());
  Scales out{Row(inputs, 0), Row(inputs, 0), 0};
  for (const auto& sample : samples) {
    out.output_mean += sample.output / n;
    for (std::size_t i = 0; i < inputs; ++i) out.mean[i] += sample.inputs[i] / n;
  }
  for (std::size_t i = 0; i < inputs; ++i) {
    double squares = 0;
    for (const auto& sample : samples) squares += std::pow(sample.inputs[i] - out.mean[i], 2);
    out.width[i] = std::sqrt(squares / n);
    if (!(out.width[i] > 1e-12 * std::max(1.0, std::abs(out.mean[i])))) {
      return make_error(Code::InvalidArgument, "an input is the same in all samples");
    }
  }
  return out;
}

/// Gauss elimination with pivoting of the augmented matrix; the columns' number is rows + 1.
Result<Row> solve(std::vector<Row> a) {
  const std::size_t n = a.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < n; ++i) {
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    }
    // The scaled matrix has ones on its diagonal: this is 1 - R2 of one input by the others.
    if (std::abs(a[pivot][k]) < 1e-9) {
      return make_error(Code::InvalidArgument, "the inputs depend on each other");
    }
    std::swap(a[k], a[pivot]);
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = k; j <= n; ++j) a[i][j] -= factor * a[k][j];
    }
  }
  Row x(n, 0);
  for (std::size_t k = n; k-- > 0;) {
    double rest = a[k][n];
    for (std::size_t j = k + 1; j < n; ++j) rest -= a[k][j] * x[j];
    x[k] = rest / a[k][k];
  }
  return x;
}

std::vector<Row> normal_equations(const std::vector<Sample>& samples, const Scales& scales) {
  const std::size_t inputs = scales.mean.size();
  std::vector<Row> out(inputs, Row(inputs + 1, 0));
  Row scaled(inputs, 0);
  for (const auto& sample : samples) {
    for (std::size_t i = 0; i < inputs; ++i) {
      scaled[i] = (sample.inputs[i] - scales.mean[i]) / scales.width[i];
    }
    const double n = static_cast<double>(samples.size());
    for (std::size_t i = 0; i < inputs; ++i) {
      for (std::size_t j = 0; j < inputs; ++j) out[i][j] += scaled[i] * scaled[j] / n;
      out[i][inputs] += scaled[i] * (sample.output - scales.output_mean) / n;
    }
  }
  return out;
}

double r_squared(const std::vector<Sample>& samples, const Fit& fit, double mean) {
  double residual = 0;
  double total = 0;
  for (const auto& sample : samples) {
    residual += std::pow(sample.output - fit.predict(sample.inputs), 2);
    total += std::pow(sample.output - mean, 2);
  }
  return total > 0 ? 1 - residual / total : 1;
}

}  // namespace

double run_time(double working_s, double communicating_s) {
  return working_s + communicating_s;
}

double run_time_heterogeneous(const Work& work, double cost_s) {
  const double working = work.before * work.amount / work.source_speed +
                         (1 - work.before) * work.amount / work.destination_speed;
  double communicating = 0;
  for (const auto& peer : work.peers) {
    communicating += peer.before * peer.bytes / peer.source_rate +
                     (1 - peer.before) * peer.bytes / peer.destination_rate;
  }
  return run_time(working, communicating) + cost_s;
}

double run_time_homogeneous(double amount, double speed, double bytes, double rate, double cost_s) {
  return run_time(amount / speed, bytes / rate) + cost_s;
}

double checkpoint_cost(double check_s, double transfer_s, double restart_s) {
  return check_s + transfer_s + restart_s;
}

double checkpoint_cost(const CheckpointFactors& factors, double image_bytes, double rate) {
  return checkpoint_cost(factors.tau * image_bytes, factors.psi * image_bytes / rate,
                         factors.beta * image_bytes);
}

double checkpoint_run_time_heterogeneous(const Work& work, const CheckpointFactors& factors,
                                         double image_bytes, double rate) {
  return run_time_heterogeneous(work, checkpoint_cost(factors, image_bytes, rate));
}

double checkpoint_run_time_homogeneous(double amount, double speed, double bytes, double rate,
                                       const CheckpointFactors& factors, double image_bytes) {
  return run_time_homogeneous(amount, speed, bytes, rate,
                              checkpoint_cost(factors, image_bytes, rate));
}

double overlapped_s(const During& during) {
  return during.work / during.speed + during.bytes / during.rate;
}

double vm_transfer_time(double memory_bytes, double wws_bytes, const std::vector<double>& rates) {
  double out = 0;
  for (std::size_t round = 0; round < rates.size(); ++round) {
    out += (round == 0 ? memory_bytes : wws_bytes) / rates[round];
  }
  return out;
}

double vm_cost(double transfer_s, const During& during) {
  return transfer_s - overlapped_s(during);
}

double vm_run_time_heterogeneous(const Work& work, double transfer_s, const During& during) {
  return run_time_heterogeneous(work, vm_cost(transfer_s, during));
}

double vm_run_time_homogeneous(double amount, double speed, double bytes, double rate,
                               double transfer_s, const During& during) {
  return run_time_homogeneous(amount, speed, bytes, rate, vm_cost(transfer_s, during));
}

double next_rate(double last_rate, double gain, double dirtied_bytes, double duration_s,
                 double rate_min, double rate_max) {
  if (!(duration_s > 0)) return last_rate;
  const double next = last_rate + gain * dirtied_bytes / duration_s;
  return std::clamp(next, rate_min, std::max(rate_min, rate_max));
}

double fitted(const Line& line, double image_bytes) {
  return line.constant_s + line.s_per_byte * image_bytes;
}

double fitted_vm_cost(double memory_bytes, double wws_bytes) {
  return kVmConstant + kVmPerMemory * memory_bytes + kVmPerWws * wws_bytes;
}

double Fit::predict(const std::vector<double>& inputs) const {
  if (coefficients.empty()) return 0;
  double out = coefficients[0];
  for (std::size_t i = 0; i + 1 < coefficients.size() && i < inputs.size(); ++i) {
    out += coefficients[i + 1] * inputs[i];
  }
  return out;
}

Result<Fit> least_squares(const std::vector<Sample>& samples) {
  const std::size_t inputs = samples.empty() ? 0 : samples.front().inputs.size();
  const bool same = std::all_of(samples.begin(), samples.end(), [inputs](const Sample& sample) {
    return sample.inputs.size() == inputs;
  });
  if (inputs == 0 || !same || samples.size() < inputs + 1) {
    return make_error(Code::InvalidArgument,
                      "a fit needs samples of one width, at least one more than inputs");
  }
  const auto scales = scales_of(samples, inputs);
  if (!scales) return scales.error();
  const auto slopes = solve(normal_equations(samples, *scales));
  if (!slopes) return slopes.error();
  Fit out;
  out.samples = static_cast<int>(samples.size());
  out.coefficients.push_back(scales->output_mean);
  for (std::size_t i = 0; i < inputs; ++i) {
    const double slope = (*slopes)[i] / scales->width[i];
    out.coefficients.push_back(slope);
    out.coefficients[0] -= slope * scales->mean[i];
  }
  out.r2 = r_squared(samples, out, scales->output_mean);
  return out;
}

}  // namespace mare::policy::neves
