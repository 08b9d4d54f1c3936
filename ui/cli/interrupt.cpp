#include "ui/cli/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace mare::cli {
namespace {

// A signal handler can reach nothing but globals.
int g_pipe[2] = {-1, -1};  // NOLINT

void on_signal(int) {
  const int saved = errno;
  const char byte = 1;
  [[maybe_unused]] const auto written = write(g_pipe[1], &byte, 1);
  errno = saved;
}

}  // namespace

Interrupt::Interrupt() {
  if (pipe2(g_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return;  // then Ctrl-C ends the program at once
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

Interrupt::~Interrupt() {
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  for (int& end : g_pipe) {
    if (end >= 0) close(end);
    end = -1;
  }
}

int Interrupt::fd() const {
  return g_pipe[0];
}

bool Interrupt::seen() const {
  return !wait(Milliseconds{0});
}

bool Interrupt::wait(Milliseconds duration) const {
  pollfd stop{g_pipe[0], POLLIN, 0};
  const int ready = poll(&stop, 1, static_cast<int>(duration.count()));
  // EINTR: the handler has run, so the pipe holds a byte; any other signal is told apart by it.
  if (ready < 0) return poll(&stop, 1, 0) <= 0;
  return ready == 0;
}

void Interrupt::clear() {
  char drop[16];
  while (read(g_pipe[0], drop, sizeof drop) > 0) {
  }
}

}  // namespace mare::cli
