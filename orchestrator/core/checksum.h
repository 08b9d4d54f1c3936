// XXH64 (Collet, xxHash specification 0.1.1): finds what disks and networks damage, at memory
// speed. Not for secrets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mare {

class Checksum {
 public:
  Checksum() : Checksum(0) {}
  explicit Checksum(std::uint64_t seed);
  void add(const void* data, std::size_t size);
  void add(std::string_view text) { add(text.data(), text.size()); }
  /// Of all that was added so far.
  std::uint64_t value() const;

 private:
  std::uint64_t seed_;
  std::array<std::uint64_t, 4> lanes_;
  std::array<unsigned char, 32> rest_{};  // what does not fill a stripe yet
  std::size_t kept_ = 0;
  std::uint64_t total_ = 0;
};

/// 16 hexadecimal digits, and back; nothing if it is no such text.
std::string checksum_text(std::uint64_t checksum);
bool checksum_from(std::string_view text, std::uint64_t& checksum);

}  // namespace mare
