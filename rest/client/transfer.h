// One HTTP exchange with libcurl. Alone in this room to see libcurl.
//
// One thread. The wait can be broken off from a signal handler through a descriptor that becomes
// readable, so that Ctrl-C takes effect at once and without polling.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"

namespace mare::rest {

struct Exchange {
  std::string method = "GET";
  std::string url;
  std::vector<std::string> headers;
  std::optional<std::string> body;
  Milliseconds connect_timeout{3000};
  Milliseconds timeout{30000};      // of the whole; 0: none
  Milliseconds silence_timeout{0};  // of a stream: no byte for so long; 0: none
  int interrupt_fd = -1;
  /// Of what is collected. A list of every VM of a large site is a few MB; this bounds what a wrong
  /// address can send us.
  std::size_t most_body = 256ULL * 1024 * 1024;
  std::string server = "mared";  // who is asked, for errors
  /// Called with parts of a successful body as they come; false ends the exchange. Without it the
  /// body is collected.
  std::function<bool(std::string_view)> on_data;
};

struct Answer {
  long status = 0;
  std::string body;      // of an error always, of a success unless on_data took it
  std::string location;  // header
  bool stopped = false;  // on_data wanted no more
};

/// Unavailable: nothing was sent. OutcomeUnknown: it was sent, the answer did not come.
/// Cancelled: interrupted.
Result<Answer> transfer(const Exchange& exchange, const Clock& clock);

/// For one segment of a path or one query value: "a b/c" -> "a%20b%2Fc".
std::string percent_encode(std::string_view text);

/// Is the URL one that we can use ("http://host:port")? The answer is it without a slash at the
/// end.
Result<std::string> check_url(const std::string& url);

}  // namespace mare::rest
