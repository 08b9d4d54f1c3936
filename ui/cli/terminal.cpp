#include "ui/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace mare::cli {
namespace {

std::size_t columns_of(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

bool is_dumb() {
  const char* term = std::getenv("TERM");
  return term == nullptr || std::string_view(term) == "dumb";
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = c == '\n' || c == '\t' ? ' ' : '?';
  }
  return out;
}

std::string coloured(std::string_view text, Colour colour, bool on) {
  if (!on || colour == Colour::None) return std::string(text);
  static constexpr std::array kCodes{"", "\033[32m", "\033[33m", "\033[31m", "\033[1m", "\033[2m"};
  return kCodes[static_cast<std::size_t>(colour)] + std::string(text) + "\033[0m";
}

bool wants_colour(int fd) {
  const char* no_colour = std::getenv("NO_COLOR");
  return (no_colour == nullptr || *no_colour == '\0') && isatty(fd) == 1 && !is_dumb();
}

Colour colour_of_state(std::string_view named) {
  std::string state(named);  // entities write "failed", operations "Failed"
  for (char& c : state) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  static constexpr std::array kGood{"running", "up", "active", "succeeded", "done"};
  static constexpr std::array kBad{"failed", "down", "lost", "needs_operator", "needsoperator"};
  if (std::find(kGood.begin(), kGood.end(), state) != kGood.end()) return Colour::Green;
  if (std::find(kBad.begin(), kBad.end(), state) != kBad.end()) return Colour::Red;
  return state == "stopped" || state == "cancelled" ? Colour::Dim : Colour::Yellow;
}

std::string bar(double fraction, int width) {
  const double held = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0;
  const auto full = static_cast<std::size_t>(std::lround(held * width));
  return "[" + std::string(full, '#') + std::string(static_cast<std::size_t>(width) - full, '-') +
         "]";
}

StatusLine::StatusLine(bool quiet) : quiet_(quiet), live_(isatty(2) == 1 && !is_dumb()) {}

void StatusLine::show(const std::string& live, const std::string& plain) {
  if (quiet_) return;
  if (live_) {
    // A line that wraps could not be rewritten.
    std::fprintf(stderr, "\r\033[K%s", live.substr(0, columns_of(2) - 1).c_str());
    std::fflush(stderr);
    drawn_ = true;
  } else if (!plain.empty() && plain != last_plain_) {
    std::fprintf(stderr, "%s\n", plain.c_str());
    last_plain_ = plain;
  }
}

void StatusLine::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

}  // namespace mare::cli
