#include "hypervisor/dirtylog/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

namespace mare::dirtylog {
namespace {

/// Files of /proc have no size: read to their end.
std::optional<std::string> read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

struct DirectoryClose {
  void operator()(DIR* directory) const noexcept { closedir(directory); }
};

/// The numbers among a directory's names, in order.
std::vector<int> numbers_in(const std::string& path) {
  std::vector<int> out;
  const std::unique_ptr<DIR, DirectoryClose> directory{opendir(path.c_str())};
  if (!directory) return out;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    int number = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
    if (read.ec == std::errc{} && read.ptr == name.data() + name.size()) out.push_back(number);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string link_of(const std::string& path) {
  std::array<char, 256> text{};
  const ssize_t length = readlink(path.c_str(), text.data(), text.size());
  return length <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(length));
}

/// "API:\taa:FEATURES:KERNEL" of a userfaultfd's fdinfo, in hex.
std::uint64_t features_in(const std::string& fdinfo) {
  const auto line = fdinfo.find("API:");
  const auto first = line == std::string::npos ? line : fdinfo.find(':', line + 4);
  if (first == std::string::npos) return 0;
  std::uint64_t features = 0;
  std::from_chars(fdinfo.data() + first + 1, fdinfo.data() + fdinfo.size(), features, 16);
  return features;
}

/// Anonymous memory, a memfd, or a template's file; [heap], [stack] and other files are not.
bool may_be_ram(const Mapping& mapping) {
  const bool kind = mapping.path.empty() || mapping.path.starts_with("/memfd:") ||
                    mapping.path.ends_with("/ram") || mapping.path.ends_with("/ram (deleted)");
  return kind && mapping.permissions.starts_with("rw-");
}

bool continues(const Mapping& before, const Mapping& next) {
  return before.end == next.start && before.permissions == next.permissions &&
         before.path == next.path;
}

}  // namespace

std::string system_text(std::string_view what) {
  std::array<char, 128> words{};
  return std::string(what) + ": " + strerror_r(errno, words.data(), words.size());
}

std::vector<Mapping> parse_maps(std::string_view text) {
  std::vector<Mapping> out;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    // 7f0e40000000-7f0e4c000000 rw-p 00000000 00:00 0    PATH
    std::istringstream fields(line);
    std::string range;
    std::string offset;
    std::string device;
    std::string inode;
    Mapping mapping;
    if (!(fields >> range >> mapping.permissions >> offset >> device >> inode)) continue;
    std::getline(fields >> std::ws, mapping.path);
    const char* end = range.data() + range.size();
    const auto start = std::from_chars(range.data(), end, mapping.start, 16);
    if (start.ptr == end || *start.ptr != '-') continue;
    if (std::from_chars(start.ptr + 1, end, mapping.end, 16).ptr != end) continue;
    if (mapping.end > mapping.start) out.push_back(mapping);
  }
  return out;
}

std::uint64_t resident_in(std::string_view smaps, const Mapping& mapping) {
  std::array<char, 40> head{};
  std::snprintf(head.data(), head.size(), "%llx-%llx ",
                static_cast<unsigned long long>(mapping.start),
                static_cast<unsigned long long>(mapping.end));
  const std::string_view wanted(head.data());
  auto at = smaps.find(wanted);
  // At the beginning of a line.
  while (at != std::string_view::npos && at > 0 && smaps[at - 1] != '\n') {
    at = smaps.find(wanted, at + 1);
  }
  constexpr std::string_view kRss = "\nRss:";
  const auto rss = at == std::string_view::npos ? at : smaps.find(kRss, at);
  if (rss == std::string_view::npos) return 0;
  const auto digits = smaps.find_first_not_of(' ', rss + kRss.size());
  std::uint64_t kib = 0;
  if (digits != std::string_view::npos) {
    std::from_chars(smaps.data() + digits, smaps.data() + smaps.size(), kib);
  }
  return kib * 1024;
}

Result<Mapping> find_guest_ram(const std::vector<Mapping>& maps, Bytes memory,
                               const Resident& resident) {
  std::vector<Mapping> whole;
  std::vector<Mapping> runs;
  for (const auto& mapping : maps) {
    if (!may_be_ram(mapping)) continue;
    // A piece of exactly the size is whole, whatever lies beside it.
    if (mapping.size() == memory.count) whole.push_back(mapping);
    if (!runs.empty() && continues(runs.back(), mapping)) {
      runs.back().end = mapping.end;
    } else {
      runs.push_back(mapping);
    }
  }
  if (whole.size() > 1 && resident) {
    return *std::max_element(whole.begin(), whole.end(), [&](const Mapping& a, const Mapping& b) {
      // Of a clone that has not run yet nothing is in memory: its file tells it then.
      return std::pair(resident(a), a.is_file()) < std::pair(resident(b), b.is_file());
    });
  }
  if (!whole.empty()) return whole.front();
  const Mapping* best = nullptr;
  for (const auto& run : runs) {
    if (run.size() < memory.count) continue;
    if (best == nullptr || run.size() < best->size()) best = &run;
  }
  if (best != nullptr) return *best;
  return make_error(Code::NotFound, "its process maps no " + std::to_string(memory.count >> 20U) +
                                        " MiB that could be the guest's RAM");
}

Result<Process> Process::open(pid_t pid) {
  Fd pidfd{static_cast<int>(syscall(SYS_pidfd_open, pid, 0))};
  if (pidfd) return Process(pid, std::move(pidfd));
  const Code code = errno == ESRCH || errno == EINVAL ? Code::NotFound : Code::Unavailable;
  return make_error(code, system_text("process " + std::to_string(pid)));
}

bool Process::lives() const {
  // Readable once the process has ended.
  pollfd ended{pidfd_.get(), POLLIN, 0};
  return poll(&ended, 1, 0) == 0;
}

std::string Process::path(std::string_view what) const {
  return "/proc/" + std::to_string(pid_) + "/" + std::string(what);
}

Result<std::vector<Mapping>> Process::maps() const {
  const auto text = read_whole(path("maps"));
  if (!lives()) return make_error(Code::NotFound, "its process has ended");
  if (text && !text->empty()) return parse_maps(*text);
  return make_error(Code::Unavailable, "the memory map " + path("maps") + " can't be read",
                    "the agent must run as root, or as QEMU's user");
}

Result<Mapping> Process::guest_ram(Bytes memory) const {
  auto mapped = maps();
  if (!mapped) return mapped.error();
  std::optional<std::string> smaps;
  return find_guest_ram(*mapped, memory, [&](const Mapping& mapping) {
    if (!smaps) smaps = read_whole(path("smaps")).value_or("");
    return resident_in(*smaps, mapping);
  });
}

Result<Fd> Process::pagemap() const {
  Fd file{::open(path("pagemap").c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file) return make_error(Code::Unavailable, system_text(path("pagemap")));
  // It is of whatever process had the pid when it was opened: only now is it known whose.
  if (!lives()) return make_error(Code::NotFound, "its process has ended");
  return file;
}

std::vector<Descriptor> Process::userfaultfds() const {
  std::vector<Descriptor> out;
  for (const int number : numbers_in(path("fd"))) {
    if (link_of(path("fd/" + std::to_string(number))) != "anon_inode:[userfaultfd]") continue;
    const auto info = read_whole(path("fdinfo/" + std::to_string(number)));
    if (info) out.push_back({number, features_in(*info)});
  }
  return out;
}

std::vector<std::pair<int, std::string>> Process::sockets() const {
  std::vector<std::pair<int, std::string>> out;
  for (const int number : numbers_in(path("fd"))) {
    std::string link = link_of(path("fd/" + std::to_string(number)));
    if (link.starts_with("socket:")) out.emplace_back(number, std::move(link));
  }
  return out;
}

Result<Fd> Process::take(int number) const {
  Fd taken{static_cast<int>(syscall(SYS_pidfd_getfd, pidfd_.get(), number, 0))};
  if (taken) return taken;
  const Code code = errno == ESRCH || errno == EBADF ? Code::NotFound : Code::Unavailable;
  return make_error(code, system_text("a descriptor of process " + std::to_string(pid_)),
                    "the agent needs CAP_SYS_PTRACE");
}

std::vector<pid_t> Process::vcpu_threads() const {
  std::vector<pid_t> out;
  for (const int thread : numbers_in(path("task"))) {
    const auto name = read_whole(path("task/" + std::to_string(thread) + "/comm"));
    if (name && name->starts_with("CPU ") && name->find('/') != std::string::npos) {
      out.push_back(thread);
    }
  }
  return out;
}

Microseconds Process::scheduled(const std::vector<pid_t>& threads, int column) const {
  std::chrono::nanoseconds sum{0};
  for (const pid_t thread : threads) {
    // "RUN WAIT SLICES": nanoseconds. A thread that has ended adds nothing.
    const auto text = read_whole(path("task/" + std::to_string(thread) + "/schedstat"));
    if (!text) continue;
    std::array<std::int64_t, 2> both{};
    const char* end = text->data() + text->size();
    const auto run = std::from_chars(text->data(), end, both[0]);
    if (run.ptr < end) std::from_chars(run.ptr + 1, end, both[1]);
    sum += std::chrono::nanoseconds{both.at(static_cast<std::size_t>(column))};
  }
  return std::chrono::duration_cast<Microseconds>(sum);
}

Microseconds Process::cpu_time(const std::vector<pid_t>& threads) const {
  return scheduled(threads, 0);
}

Microseconds Process::waiting_time(const std::vector<pid_t>& threads) const {
  return scheduled(threads, 1);
}

}  // namespace mare::dirtylog
