#include "hypervisor/dirtylog/cpu_meter.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace mare::dirtylog {
namespace {

double seconds(std::chrono::nanoseconds span) {
  return std::chrono::duration<double>(span).count();
}

}  // namespace

std::optional<CpuTimes> cpu_times_from(const std::string& text, double ticks_per_s) {
  std::istringstream lines(text);
  std::string line;
  CpuTimes out;
  bool all = false;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name.rfind("cpu", 0) != 0) continue;
    if (name != "cpu") {
      out.cpus += 1;
      continue;
    }
    double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft_irq = 0, stolen = 0;
    words >> user >> nice >> system >> idle >> wait >> irq >> soft_irq >> stolen;
    all = !words.fail();
    out.busy_s = (user + nice + system + irq + soft_irq + stolen) / ticks_per_s;
  }
  if (!all || out.cpus < 1) return std::nullopt;
  return out;
}

std::optional<CpuTimes> CpuMeter::read() const {
  std::ifstream file(file_);
  std::ostringstream text;
  text << file.rdbuf();
  return cpu_times_from(text.str(), static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

void CpuMeter::begin(std::chrono::nanoseconds now) {
  const std::lock_guard lock(mutex_);
  if (from_ && seconds(now - began_) < kLeast) return;
  from_ = read();
  began_ = now;
}

CpuMeter::Use CpuMeter::look(std::chrono::nanoseconds now) {
  const std::lock_guard lock(mutex_);
  const double span = seconds(now - began_);
  const auto here = from_ && span >= kLeast ? read() : std::nullopt;
  if (here) {
    last_ = {here->cpus, std::clamp((here->busy_s - from_->busy_s) / span, 0.0, here->cpus)};
  }
  return last_;
}

}  // namespace mare::dirtylog
