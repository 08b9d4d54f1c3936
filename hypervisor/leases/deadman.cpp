#include "hypervisor/leases/deadman.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "orchestrator/core/fd.h"

namespace mare::leases {
namespace {

constexpr std::uint64_t kMagic = 0x314e414d44414544ULL;  // "DEADMAN1"
constexpr std::uint64_t kNothing = 0;
constexpr std::uint64_t kForEver = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kSize = 3 * sizeof(std::uint64_t);
/// QEMU's user reads it, nobody but its owner writes.
constexpr mode_t kMode = 0644;

Error file_error(const std::string& path) {
  return make_error(Code::Unavailable,
                    "the switch file " + path + " can't be made: " + std::strerror(errno),
                    "give mare-agent --deadman-file, on a tmpfs, or --deadman-library none");
}

}  // namespace

void Deadman::Unmap::operator()(std::uint64_t* words) const {
  ::munmap(words, kSize);
}

Result<Deadman> Deadman::open(const std::string& path, DeadmanVoice voice) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const Fd file{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kMode)};
  if (!file) return file_error(path);
  // Whatever the umask is. Growing it to its size leaves what is in it.
  if (::fchmod(file.get(), kMode) != 0 || ::ftruncate(file.get(), kSize) != 0) {
    return file_error(path);
  }
  void* words = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (words == MAP_FAILED) return file_error(path);
  Deadman out(std::unique_ptr<std::uint64_t, Unmap>(static_cast<std::uint64_t*>(words)), voice);
  std::atomic_ref(*out.words_).store(kMagic);
  return out;
}

void Deadman::say(std::optional<MonotonicTime> lease) const {
  if (lease) return write(voice_, static_cast<std::uint64_t>((*lease + kDeadmanAfter).count()));
  write(voice_, voice_ == DeadmanVoice::Agent ? kForEver : kNothing);
}

void Deadman::forget(DeadmanVoice voice) const {
  write(voice, kNothing);
}

void Deadman::write(DeadmanVoice voice, std::uint64_t word) const {
  std::atomic_ref(words_.get()[static_cast<std::size_t>(voice)]).store(word);
}

std::optional<Deadman> deadman_at(const std::string& path, DeadmanVoice voice, Log& log) {
  if (path.empty()) return std::nullopt;
  auto opened = Deadman::open(path, voice);
  if (opened) return std::move(*opened);
  log.warn("lease", opened.error().text());
  return std::nullopt;
}

}  // namespace mare::leases
