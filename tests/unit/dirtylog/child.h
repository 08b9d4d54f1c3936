// A process that stands in for a QEMU: it has a userfaultfd, guest RAM, a thread with a vCPU's
// name, and writes to the RAM when told.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "hypervisor/dirtylog/process.h"
#include "orchestrator/core/units.h"

namespace mare::dirtylog::test {

/// What most tests give it.
constexpr Bytes kRam = mebibytes(64);
constexpr std::size_t kPages = kRam.count / kPage;

enum class Fill : std::uint8_t { Zero, Random, Text };

class Child {
 public:
  /// Forks. Without a userfaultfd if so told, or where the kernel has none.
  explicit Child(Bytes ram, bool with_userfaultfd = true);
  /// Ends it.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  /// Writes to `count` pages from page `first` on; returns when it is done.
  void write(std::size_t first, std::size_t count, Fill fill = Fill::Random);
  /// Gives pages back to the kernel, as a balloon does.
  void drop(std::size_t first, std::size_t count);
  /// Uses its CPU until it has used that much more.
  void burn(Milliseconds cpu);
  /// By a userfaultfd of its own, as QEMU does for a background-snapshot; only tried.
  bool can_protect_its_ram();
  void kill();

 private:
  struct Order {
    char what = 0;
    Fill fill = Fill::Zero;
    std::size_t first = 0;
    std::size_t count = 0;
  };
  [[noreturn]] static void live(Bytes ram, bool with_userfaultfd, int orders, int answers);
  char give(const Order& order);

  pid_t pid_ = -1;
  int orders_ = -1;
  int answers_ = -1;
};

}  // namespace mare::dirtylog::test
