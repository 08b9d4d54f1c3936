#include "orchestrator/engine/job_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace mare::engine {
namespace {

constexpr std::size_t kChunk = 256 * 1024;
constexpr int kMostChunks = 32;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Error os_error(const std::string& what) {
  return make_error(Code::ResourceExhausted, what + ": " + std::strerror(errno));
}

Status write_all(int fd, const std::string& data, const std::string& path) {
  std::size_t done = 0;
  while (done < data.size()) {
    const auto wrote = write(fd, data.data() + done, data.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return os_error("cannot write " + path);
    done += static_cast<std::size_t>(wrote);
  }
  return ok_status();
}

}  // namespace

std::string job_output_path(const std::string& jobs_directory, const JobId& job) {
  return jobs_directory + "/" + job.value + "/output";
}

Result<std::uint64_t> fetch_output(GuestPort& guests, const GuestAddress& guest,
                                   const GuestRun& run, const std::string& jobs_directory,
                                   bool anew) {
  const std::string path = job_output_path(jobs_directory, run.id);
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  if (failed) {
    return make_error(Code::ResourceExhausted,
                      "cannot make the directory of " + path + ": " + failed.message());
  }
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
  if (file.get() < 0) return os_error("cannot open " + path);
  if (anew && ftruncate(file.get(), 0) != 0) return os_error("cannot empty " + path);
  struct stat facts {};
  if (fstat(file.get(), &facts) != 0) return os_error("cannot look at " + path);
  auto size = static_cast<std::uint64_t>(facts.st_size);
  for (int i = 0; i < kMostChunks; ++i) {
    auto more = guests.output(guest, run, size, kChunk);
    if (!more) return more.error();
    if (auto wrote = write_all(file.get(), *more, path); !wrote) return wrote.error();
    size += more->size();
    if (more->size() < kChunk) break;  // there was no more
  }
  return size;
}

}  // namespace mare::engine
