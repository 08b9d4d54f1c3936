// What is written where: data on stdout, talk on stderr. Colours and live lines only on terminals.
#pragma once

#include <string>
#include <string_view>

namespace mare::cli {

/// Text from a server, safe to print: control characters (a terminal would obey them) become '?'.
std::string printable(std::string_view text);

enum class Colour { None, Green, Yellow, Red, Bold, Dim };
/// `on` comes from wants_colour().
std::string coloured(std::string_view text, Colour colour, bool on);
/// A terminal, TERM is not dumb, NO_COLOR is not set (no-color.org).
bool wants_colour(int fd);
/// How good a state is: running green, failed red, others yellow.
Colour colour_of_state(std::string_view state);

/// "[######------]"
std::string bar(double fraction, int width);

/// Progress on stderr: one line that is rewritten on a terminal, else a line whenever it changes.
class StatusLine {
 public:
  explicit StatusLine(bool quiet);
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// `live` for a terminal; `plain` is printed when it differs from the last one, "" never.
  void show(const std::string& live, const std::string& plain);
  /// Takes the live line away, so that something else can be printed.
  void clear();
  bool is_live() const { return live_; }
  bool is_quiet() const { return quiet_; }

 private:
  bool quiet_;
  bool live_;
  bool drawn_ = false;
  std::string last_plain_;
};

}  // namespace mare::cli
