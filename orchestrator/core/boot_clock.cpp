#include "orchestrator/core/boot_clock.h"

#include <ctime>
#include <fstream>

namespace mare {

MonotonicTime BootClock::now() const {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

WallTime BootClock::wall_now() const {
  return SystemClock{}.wall_now();
}

void BootClock::sleep_for(std::chrono::nanoseconds duration) {
  SystemClock{}.sleep_for(duration);
}

std::string boot_id() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(in, id);
  return id;
}

}  // namespace mare
