// Chance is a parameter: the same seed gives the same run.
#pragma once

#include <cstdint>
#include <string>

namespace mare {

class Rng {
 public:
  virtual ~Rng() = default;
  virtual std::uint64_t next() = 0;

  /// Uniform in [0, bound); bound must be > 0. The modulo bias is below 2^-32 for small bounds.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  /// Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }
  bool chance(double probability) { return unit() < probability; }
};

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): small, good enough for simulation, not for
/// secrets.
class SeededRng final : public Rng {
 public:
  explicit SeededRng(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() override;

 private:
  std::uint64_t state_;
};

/// From the kernel's generator; for ids, tokens and MAC addresses.
class SystemRng final : public Rng {
 public:
  std::uint64_t next() override;
};

/// A random (version 4) UUID, RFC 9562.
std::string make_uuid(Rng& rng);
/// `bytes` random bytes as lower-case hex.
std::string make_hex(Rng& rng, std::size_t bytes);

}  // namespace mare
