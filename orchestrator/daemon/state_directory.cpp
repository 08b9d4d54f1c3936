#include "orchestrator/daemon/state_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

namespace mare::daemon {
namespace {

Error os_error(const std::string& what, const std::string& remedy) {
  return make_error(Code::Unavailable, what + ": " + std::strerror(errno), remedy);
}

}  // namespace

Result<StateDirectory> StateDirectory::open(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed) {
    return make_error(Code::Unavailable,
                      "cannot make the state directory " + path + ": " + failed.message(),
                      "give another one with --state-dir");
  }
  const std::string file = path + "/mared.pid";
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return os_error("cannot open " + file, "give another --state-dir");
  StateDirectory directory(path, fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    std::array<char, 32> pid{};
    const auto got = read(fd, pid.data(), pid.size() - 1);
    std::string other(pid.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    while (!other.empty() && other.back() == '\n') other.pop_back();
    return make_error(Code::Conflict,
                      "another mared (process " + other + ") uses the state directory " + path,
                      "use that one, or give another --state-dir: two would run VMs twice");
  }
  // The lock is held through this descriptor; the number is for people and for `lab down`.
  const std::string mine = std::to_string(getpid()) + "\n";
  const bool kept = ftruncate(fd, 0) == 0 &&
                    write(fd, mine.data(), mine.size()) == static_cast<ssize_t>(mine.size());
  if (!kept) return os_error("cannot write " + file, "make room there");
  std::filesystem::create_directories(directory.jobs(), failed);
  if (failed) {
    return make_error(Code::Unavailable,
                      "cannot make " + directory.jobs() + ": " + failed.message());
  }
  return directory;
}

StateDirectory::StateDirectory(StateDirectory&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

StateDirectory::~StateDirectory() {
  if (lock_ >= 0) close(lock_);
}

Result<std::string> StateDirectory::token(Rng& rng) const {
  const std::string file = path_ + "/token";
  std::ifstream in(file);
  std::string token;
  if (in && std::getline(in, token) && token.size() >= 16) return token;
  token = make_hex(rng, 32);
  const std::string fresh = file + ".new";
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return os_error("cannot write " + fresh, "make the state directory writable");
  const std::string line = token + "\n";
  const bool kept =
      write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()) && fsync(fd) == 0;
  close(fd);
  if (!kept || rename(fresh.c_str(), file.c_str()) != 0) {
    return os_error("cannot write " + file, "make room there");
  }
  return token;
}

}  // namespace mare::daemon
