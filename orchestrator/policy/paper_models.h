// The models of Neves 2009, chapter 5: what a process migration costs an MPI job. Kept as they were
// published, as baselines beside the replay (replay.h) and for the regressions of its chapter 7.
//
// Bytes, seconds, bytes per second. i is the source, j the destination; work (W) and speed (nu) are
// in any unit of work and that unit per second.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/core/result.h"

namespace mare::policy::neves {

/// What the migrating process exchanges with process k in blocking communication.
struct Peer {
  double bytes = 0;             // B_k
  double before = 1;            // alpha_k: share exchanged before the migration
  double source_rate = 0;       // V_ik
  double destination_rate = 0;  // V_jk
};

struct Work {
  double amount = 0;  // W
  double before = 1;  // gamma: share done before the migration
  double source_speed = 1;
  double destination_speed = 1;
  std::vector<Peer> peers;
};

/// T = T_w + T_c (Eq. 5.1).
double run_time(double working_s, double communicating_s);
/// Eq. 5.2: hosts and links of different speeds; cost_s is C_ij.
double run_time_heterogeneous(const Work& work, double cost_s);
/// Eq. 5.3: all hosts of `speed`, all links of `rate`; `bytes` is the sum of B_k.
double run_time_homogeneous(double amount, double speed, double bytes, double rate, double cost_s);

/// Overheads of the phases of checkpoint/restart: tau and beta in seconds a byte, psi without unit.
struct CheckpointFactors {
  double tau = 0;   // checkpoint
  double psi = 1;   // transfer
  double beta = 0;  // restart
};
/// C = Check + Trans + Restart (Eq. 5.4).
double checkpoint_cost(double check_s, double transfer_s, double restart_s);
/// C = tau S + psi S / V + beta S (Eq. 5.5); image_bytes is S, the process' image.
double checkpoint_cost(const CheckpointFactors& factors, double image_bytes, double rate);
/// Eq. 5.6: Eq. 5.2 with the cost of Eq. 5.5.
double checkpoint_run_time_heterogeneous(const Work& work, const CheckpointFactors& factors,
                                         double image_bytes, double rate);
/// Eq. 5.7: Eq. 5.3 with the cost of Eq. 5.5.
double checkpoint_run_time_homogeneous(double amount, double speed, double bytes, double rate,
                                       const CheckpointFactors& factors, double image_bytes);

/// What the job gets done while its VM moves: that much of the transfer does not cost it anything.
struct During {
  double work = 0;   // phi W
  double speed = 1;  // nu' (nu'' in Eq. 5.12 and 5.13): left to the job meanwhile
  double bytes = 0;  // sum of varphi B_k
  double rate = 1;   // V' (V''): left to the job meanwhile
};
/// phi W / nu' + sum of varphi B_k / V'.
double overlapped_s(const During& during);
/// Trans(M, WWS) (Eq. 5.9 and 5.10): the whole memory in round 1, the WWS in each later one;
/// `rates` are V_1 to V_R. Nothing is sent without a rate.
double vm_transfer_time(double memory_bytes, double wws_bytes, const std::vector<double>& rates);
/// C = Trans - what the job got done meanwhile (Eq. 5.8 and, with vm_transfer_time(), 5.11).
double vm_cost(double transfer_s, const During& during);
/// Eq. 5.12: Eq. 5.2 with speeds and rates under virtualisation, and the cost of Eq. 5.11.
double vm_run_time_heterogeneous(const Work& work, double transfer_s, const During& during);
/// Eq. 5.13: the same on equal hosts.
double vm_run_time_homogeneous(double amount, double speed, double bytes, double rate,
                               double transfer_s, const During& during);

/// V_r of Eq. 4.2 for 1 < r < last, from the round before it (Eq. 4.1), within V_min and V_max.
double next_rate(double last_rate, double gain, double dirtied_bytes, double duration_s,
                 double rate_min, double rate_max);

/// constant + slope * S.
struct Line {
  double constant_s = 0;
  double s_per_byte = 0;
};
// Fitted in chapter 7 on 100 Mbit/s Ethernet, Pentium III 1.1 GHz, Open MPI + BLCR and Xen 3.0.3.
inline constexpr Line kCheck{2.274, 2.514e-8};     // Eq. 7.1, printed e-7: only e-8 sums to Eq. 7.4
inline constexpr Line kTransfer{1.660, 8.825e-8};  // Eq. 7.2
inline constexpr Line kRestart{0.8503, 5.099e-9};  // Eq. 7.3
inline constexpr Line kCheckpoint{4.785, 1.185e-7};  // Eq. 7.4
inline constexpr double kVmConstant = 9.783;         // Eq. 7.5, s
inline constexpr double kVmPerMemory = 8.205e-8;     // s a byte of M
inline constexpr double kVmPerWws = 1.485e-7;        // s a byte of WWS

/// C(S) by Eq. 7.4, and its phases by 7.1 to 7.3.
double fitted(const Line& line, double image_bytes);
/// C(M, WWS) by Eq. 7.5.
double fitted_vm_cost(double memory_bytes, double wws_bytes);

struct Sample {
  std::vector<double> inputs;  // S; or M and WWS
  double output = 0;           // the cost that was measured, s
};
struct Fit {
  std::vector<double> coefficients;  // the constant, then one for each input
  double r2 = 0;                     // 1 - residual / total sum of squares
  int samples = 0;
  double predict(const std::vector<double>& inputs) const;
};
/// output = c_0 + c_1 input_1 + ... by least squares. InvalidArgument: fewer samples than
/// coefficients, samples of different width, or inputs that depend on each other.
Result<Fit> least_squares(const std::vector<Sample>& samples);

}  // namespace mare::policy::neves
