#include "tests/unit/dirtylog/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "orchestrator/core/rng.h"

namespace mare::dirtylog::test {
namespace {

constexpr std::size_t kPageBytes = 4096;

void fill_page(char* page, Fill fill, SeededRng& rng) {
  static constexpr std::array<const char*, 4> kWords{"rank ", "round ", "page ", "host "};
  std::size_t at = 0;
  switch (fill) {
    case Fill::Zero:
      std::memset(page, 0, kPageBytes);
      return;
    case Fill::Random:
      for (; at < kPageBytes; at += sizeof(std::uint64_t)) {
        const std::uint64_t word = rng.next();
        std::memcpy(page + at, &word, sizeof word);
      }
      return;
    case Fill::Text:
      while (at < kPageBytes) {
        const char* word = kWords.at(rng.below(kWords.size()));
        const std::size_t length = std::min(std::strlen(word), kPageBytes - at);
        std::memcpy(page + at, word, length);
        at += length;
      }
      return;
  }
}

long used_ms() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
         (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
}

void use_cpu(std::size_t ms) {
  const long until = used_ms() + static_cast<long>(ms);
  while (used_ms() < until) {
  }
}

/// 'y' or 'n'.
char try_to_protect(void* memory, std::size_t size) {
  const auto uffd =
      static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
  uffdio_register with{};
  with.range = {reinterpret_cast<std::uintptr_t>(memory), size};
  with.mode = UFFDIO_REGISTER_MODE_WP;
  const bool done = ioctl(uffd, UFFDIO_API, &api) == 0 && ioctl(uffd, UFFDIO_REGISTER, &with) == 0;
  close(uffd);
  return done ? 'y' : 'n';
}

}  // namespace

Child::Child(Bytes ram, bool with_userfaultfd) {
  std::array<int, 2> orders{};
  std::array<int, 2> answers{};
  EXPECT_EQ(pipe(orders.data()), 0);
  EXPECT_EQ(pipe(answers.data()), 0);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(orders[1]);
    close(answers[0]);
    live(ram, with_userfaultfd, orders[0], answers[1]);
  }
  close(orders[0]);
  close(answers[1]);
  orders_ = orders[1];
  answers_ = answers[0];
  give({});  // it is up
}

Child::~Child() {
  kill();
  close(orders_);
  close(answers_);
}

void Child::kill() {
  const pid_t pid = std::exchange(pid_, -1);
  if (pid <= 0) return;
  ::kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

void Child::live(Bytes ram, bool with_userfaultfd, int orders, int answers) {
  prctl(PR_SET_NAME, "CPU 0/TCG");
  if (with_userfaultfd) {
    syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
  }
  void* at = mmap(nullptr, ram.count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) _exit(1);
  char* memory = static_cast<char*>(at);
  SeededRng rng(1);
  Order order;
  while (read(orders, &order, sizeof order) == static_cast<ssize_t>(sizeof order)) {
    for (std::size_t page = order.first; order.what == 'w' && page < order.first + order.count;
         ++page) {
      fill_page(memory + page * kPageBytes, order.fill, rng);
    }
    if (order.what == 'd') {
      madvise(memory + order.first * kPageBytes, order.count * kPageBytes, MADV_DONTNEED);
    }
    if (order.what == 'b') use_cpu(order.count);
    const char answer = order.what == 'p' ? try_to_protect(at, ram.count) : 'y';
    if (::write(answers, &answer, 1) != 1) break;
  }
  _exit(0);
}

char Child::give(const Order& order) {
  EXPECT_EQ(::write(orders_, &order, sizeof order), static_cast<ssize_t>(sizeof order));
  char answer = 0;
  EXPECT_EQ(read(answers_, &answer, 1), 1) << "the child has ended";
  return answer;
}

void Child::write(std::size_t first, std::size_t count, Fill fill) {
  give({'w', fill, first, count});
}
void Child::drop(std::size_t first, std::size_t count) {
  give({'d', Fill::Zero, first, count});
}
void Child::burn(Milliseconds cpu) {
  give({'b', Fill::Zero, 0, static_cast<std::size_t>(cpu.count())});
}
bool Child::can_protect_its_ram() {
  return give({'p', Fill::Zero, 0, 0}) == 'y';
}

}  // namespace mare::dirtylog::test
