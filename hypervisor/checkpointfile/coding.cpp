#include "hypervisor/checkpointfile/coding.h"

#include <zstd.h>

#include <cstring>

namespace mare::checkpointfile {
namespace {
// The quickest of the usual ones: pages of numbers are packed little better by the others.
constexpr int kLevel = 1;
}  // namespace

void put_number(std::string& to, std::uint64_t value) {
  for (; value >= 0x80U; value >>= 7U) to.push_back(static_cast<char>((value & 0x7fU) | 0x80U));
  to.push_back(static_cast<char>(value));
}

void put_signed(std::string& to, std::int64_t value) {
  const auto plain = static_cast<std::uint64_t>(value);
  put_number(to, value < 0 ? ~(plain << 1U) : plain << 1U);
}

void put_fixed(std::string& to, std::uint64_t value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  to.append(raw, sizeof raw);
}

void put_text(std::string& to, std::string_view text) {
  put_number(to, text.size());
  to.append(text);
}

std::string_view Decoder::take(std::uint64_t size) {
  if (size > data_.size()) {
    ok_ = false;
    data_ = {};
    return {};
  }
  const std::string_view taken = data_.substr(0, size);
  data_.remove_prefix(size);
  return taken;
}

std::uint64_t Decoder::number() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::string_view byte = take(1);
    if (byte.empty()) return 0;
    const auto bits = static_cast<unsigned char>(byte[0]);
    value |= static_cast<std::uint64_t>(bits & 0x7fU) << shift;
    if (bits < 0x80U) return value;
  }
  ok_ = false;
  return 0;
}

std::int64_t Decoder::signed_number() {
  const std::uint64_t value = number();
  return static_cast<std::int64_t>((value & 1U) != 0 ? ~(value >> 1U) : value >> 1U);
}

std::uint64_t Decoder::fixed() {
  const std::string_view raw = take(sizeof(std::uint64_t));
  std::uint64_t value = 0;
  if (!raw.empty()) std::memcpy(&value, raw.data(), sizeof value);
  return value;
}

std::string_view Decoder::text() {
  return take(number());
}

std::string pack(std::string_view data, bool compress) {
  if (!compress) return std::string(data);
  std::string out(ZSTD_compressBound(data.size()), '\0');
  const std::size_t size = ZSTD_compress(out.data(), out.size(), data.data(), data.size(), kLevel);
  if (ZSTD_isError(size) != 0 || size >= data.size()) return std::string(data);
  out.resize(size);
  return out;
}

std::optional<std::string> unpack(std::string_view packed, std::size_t size) {
  if (packed.size() == size) return std::string(packed);
  std::string out(size, '\0');
  const std::size_t got = ZSTD_decompress(out.data(), out.size(), packed.data(), packed.size());
  if (ZSTD_isError(got) != 0 || got != size) return std::nullopt;
  return out;
}

}  // namespace mare::checkpointfile
