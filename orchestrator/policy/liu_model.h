// The closed form of pre-copy of Liu et al., "Performance and energy modeling for live migration of
// virtual machines", HPDC 2011: one constant dirty rate, bounded by the WWS. A baseline.
#pragma once

namespace mare::policy::liu {

struct Input {
  double memory_bytes = 0;  // V_mem
  double rate = 0;          // R: bytes/s of the link
  double dirty_rate = 0;    // D: bytes/s that the guest dirties
  double wws_bytes = 0;     // a round never leaves more than this
  double stop_bytes = 0;    // V_thd: what is left is sent with the VM stopped
  double resume_s = 0.02;   // T_resume: to start the VM at the destination (20 ms in the paper)
  int most_rounds = 30;     // Xen's own limit
};

struct Output {
  bool converges = true;  // V_thd is reached before most_rounds
  int rounds = 0;         // before the VM stops
  double total_time_s = 0;
  double sent_bytes = 0;
  double downtime_s = 0;
};

///   lambda = D / R,  V_0 = V_mem,  V_1 = min(lambda V_mem, WWS),  V_i = V_1 lambda^(i-1)
///   n = ceil(log_lambda(V_thd / V_1)) + 1
///   V_mig = V_mem + V_1 (1 - lambda^n) / (1 - lambda),  T_mig = V_mig / R
///   T_down = V_n / R + T_resume
/// With lambda >= 1 every round leaves the WWS (or more and more up to it), so only most_rounds
/// ends it.
Output forecast(const Input& input);

}  // namespace mare::policy::liu
