// Turns samples of a migration's statistics into rounds. Pure.
#pragma once

#include <vector>

#include "hypervisor/driver.h"

namespace mare::libvirt {

/// QEMU tells totals, and which iteration it is in; a round is what lies between two iterations.
/// Rounds shorter than the time between samples are lost in the next one's figures: the sums stay
/// right.
class RoundKeeper {
 public:
  struct Sample {
    unsigned long long iteration = 0;  // from 1, as QEMU counts; 0: not sending yet
    Bytes transferred;                 // in all
    Bytes remaining;
    double dirty_bytes_per_s = 0;  // 0: not known yet
    Microseconds elapsed{0};       // since the migration's start
  };
  void add(const Sample& sample);
  /// No more samples: the last round ended.
  void close(Bytes transferred, Microseconds elapsed);
  const std::vector<Round>& rounds() const { return rounds_; }

 private:
  std::vector<Round> rounds_;
  Bytes began_with_;
  unsigned long long iteration_ = 0;
  bool closed_ = false;
};

}  // namespace mare::libvirt
