// Numbers of as many bytes as they need, and packing by zstd.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mare::checkpointfile {

void put_number(std::string& to, std::uint64_t value);
void put_signed(std::string& to, std::int64_t value);
void put_fixed(std::string& to, std::uint64_t value);  // eight bytes
void put_text(std::string& to, std::string_view text);

/// Reads what the above wrote. After a read beyond the end everything is 0 or "" and ok() false.
class Decoder {
 public:
  explicit Decoder(std::string_view data) : data_(data) {}
  std::uint64_t number();
  std::int64_t signed_number();
  std::uint64_t fixed();
  std::string_view text();
  bool at_end() const { return data_.empty(); }
  bool ok() const { return ok_; }

 private:
  std::string_view take(std::uint64_t size);
  std::string_view data_;
  bool ok_ = true;
};

/// Packed, or as it is where that is no longer; the reader knows by the size.
std::string pack(std::string_view data, bool compress);
/// `size`: of the original. Nothing if it is not that.
std::optional<std::string> unpack(std::string_view packed, std::size_t size);

}  // namespace mare::checkpointfile
