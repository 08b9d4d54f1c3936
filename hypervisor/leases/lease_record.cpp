#include "hypervisor/leases/lease_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>

#include "orchestrator/core/checksum.h"
#include "orchestrator/core/fd.h"

namespace mare::leases {
namespace {

constexpr std::size_t kFileSize = 2048;
/// A write takes microseconds; whoever meets one reads again.
constexpr int kReadings = 20;

std::uint64_t checksum_of(const std::string& text) {
  Checksum sum;
  sum.add(text);
  return sum.value();
}

template <typename Number>
std::optional<Number> number_in(const std::string& line) {
  Number out = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), out);
  if (error != std::errc{} || end != line.data() + line.size()) return std::nullopt;
  return out;
}

Error file_error(const std::string& what, const std::string& path) {
  return make_error(Code::Unavailable, what + " " + path + ": " + std::strerror(errno));
}

}  // namespace

std::string record_text(const LeaseRecord& record, const std::string& boot) {
  std::string text = boot + "\n" + (record.enforced ? "enforced" : "none") + "\n" +
                     std::to_string(record.term.count()) + "\n" +
                     std::to_string(record.said_until.count()) + "\n" + record.note + "\n";
  text += checksum_text(checksum_of(text)) + "\n";
  text.resize(kFileSize, ' ');
  return text;
}

std::optional<LeaseRecord> record_from(const std::string& text, const std::string& boot) {
  std::istringstream in(text);
  std::array<std::string, 6> lines;  // boot, whether, term, until, note, checksum
  std::size_t length = 0;
  for (auto& line : lines) {
    if (!std::getline(in, line)) return std::nullopt;
    length += line.size() + 1;
  }
  std::uint64_t sum = 0;
  if (!checksum_from(lines[5], sum)) return std::nullopt;
  if (checksum_of(text.substr(0, length - lines[5].size() - 1)) != sum) return std::nullopt;
  const auto term = number_in<Milliseconds::rep>(lines[2]);
  const auto until = number_in<MonotonicTime::rep>(lines[3]);
  if (lines[0] != boot || !term || !until) return std::nullopt;
  return LeaseRecord{lines[1] == "enforced", Milliseconds{*term}, MonotonicTime{*until}, lines[4]};
}

Status RecordFile::write(const LeaseRecord& record) const {
  if (record.note.size() > kLongestNote || record.note.find('\n') != std::string::npos) {
    return make_error(Code::InvalidArgument, "no path for a fence note: '" + record.note + "'");
  }
  const Fd file{::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  if (!file) return file_error("can't write", path_);
  const std::string text = record_text(record, boot_);
  if (::pwrite(file.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) {
    return ok_status();
  }
  return file_error("can't write", path_);
}

Result<LeaseRecord> RecordFile::read() const {
  const Fd file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file && errno == ENOENT) return LeaseRecord{};
  if (!file) return file_error("can't read", path_);
  std::array<char, kFileSize> bytes{};
  for (int i = 0; i < kReadings; ++i) {
    const ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), 0);
    if (got < 0) return file_error("can't read", path_);
    const std::string text(bytes.data(), static_cast<std::size_t>(got));
    if (auto record = record_from(text, boot_)) return *record;
    if (!text.starts_with(boot_ + "\n")) return LeaseRecord{};  // of another boot
  }
  return make_error(Code::Unavailable, path_ + " is damaged");
}

}  // namespace mare::leases
