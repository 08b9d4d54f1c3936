// Memory of this process that nobody has touched yet, given back at the end.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace mare::dirtylog {

class OwnMemory {
 public:
  explicit OwnMemory(std::size_t size)
      : size_(size),
        at_(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  ~OwnMemory() {
    if (*this) munmap(at_, size_);
  }
  /// False: there was none to be had.
  explicit operator bool() const { return at_ != MAP_FAILED; }
  std::byte* data() const { return static_cast<std::byte*>(at_); }
  /// In large pages where the kernel gives those, as it does to QEMU.
  void prefer_large_pages() const { madvise(at_, size_, MADV_HUGEPAGE); }

 private:
  std::size_t size_;
  void* at_;
};

}  // namespace mare::dirtylog
