// The REST client: JSON in, JSON or an Error out, as if the engine were called directly.
//
// One thread per object. Reads are tried again when the connection was refused (mared restarts);
// writes never are: the caller can't know what the first one did.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"
#include "rest/client/sse.h"
#include "rest/wire/json.h"

namespace mare::rest {

struct ClientOptions {
  std::string url = "http://127.0.0.1:7410";
  std::string token;         // "" : none is sent
  std::string token_remedy;  // said when the server refuses the token
  Milliseconds connect_timeout{3000};
  Milliseconds timeout{30000};          // of one call; streams have none
  Milliseconds silence_timeout{45000};  // of an event stream, whose heartbeat comes every 10 s
  int read_attempts = 3;
  int interrupt_fd = -1;  // readable: break off, with Cancelled
};

struct Reply {
  long status = 0;
  wire::Json body;       // null when there was none
  std::string location;  // where the operation is found
};

class Client {
 public:
  /// InvalidArgument (field "url") when the URL can't be used. Connects to nothing yet.
  static Result<Client> make(ClientOptions options, Clock& clock);

  // `path` begins with a slash and is encoded already: "/api/v1/vms?pool=a".
  Result<Reply> get(const std::string& path) const;
  Result<Reply> post(const std::string& path, const wire::Json& body) const;
  Result<Reply> put(const std::string& path, const wire::Json& body) const;
  Result<Reply> patch(const std::string& path, const wire::Json& body) const;
  Result<Reply> remove(const std::string& path) const;

  /// Gives a plain body on as it comes, for as long as the server sends; `on_data` ends it by
  /// answering false.
  Status read(const std::string& path, const std::function<bool(std::string_view)>& on_data) const;
  /// Follows an event stream from after event `after` ("" : from now on). Ends with ok when
  /// `on_event` answers false, with Unavailable when the stream breaks: go on from the last id
  /// seen.
  Status follow(const std::string& path, const std::string& after,
                const SseParser::OnEvent& on_event) const;

  const std::string& url() const { return options_.url; }

 private:
  Client(ClientOptions options, Clock& clock) : options_(std::move(options)), clock_(&clock) {}
  Result<Reply> call(const std::string& method, const std::string& path,
                     const wire::Json* body) const;
  std::vector<std::string> headers(const char* accept) const;
  Error refused(long status, const std::string& body) const;

  ClientOptions options_;
  Clock* clock_;
};

}  // namespace mare::rest
