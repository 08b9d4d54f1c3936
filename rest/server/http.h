// The seam in front of the HTTP library: everything but one translation unit works on these types.
// Another library can take over by implementing start_http_server().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orchestrator/core/log.h"
#include "orchestrator/core/net.h"
#include "orchestrator/core/result.h"

namespace mare::rest {

struct Request {
  std::string method;                          // "GET"
  std::string path;                            // still percent-encoded, without the query
  std::string query;                           // still percent-encoded, without the '?'
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  /// "" when absent.
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string{} : found->second;
  }
};

struct Response {
  int status = 200;
  std::string content_type;  // "" with an empty body
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

/// A reply whose body grows as long as both sides want. Thread-safe.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Bytes given but not yet taken by the network: the writer waits when this grows.
  virtual std::size_t pending() const = 0;
  /// False when the client has gone (which shows only some writes later).
  virtual bool write(std::string_view bytes) = 0;
  /// The end, properly marked; what is pending is still sent.
  virtual void close() = 0;
  /// Breaks off: the client sees that something is missing.
  virtual void abort() = 0;
  virtual bool alive() const = 0;
};

/// One request and its one reply, given now or later, from any thread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;
  virtual void reply(Response response) = 0;
  /// Instead of reply(): sends status and headers of `head`, the body follows through the stream.
  virtual std::shared_ptr<ByteStream> stream(Response head) = 0;
};

using Handler = std::function<void(std::shared_ptr<Exchange>)>;

/// A request that the server itself refuses before the handler sees it.
using Refusal = std::function<Response(int status, const std::string& path, const Error& error)>;

struct HttpLimits {
  std::size_t body_bytes = 1024 * 1024;
  std::size_t header_bytes = 32 * 1024;
  std::size_t target_bytes = 8 * 1024;
  /// A body longer than this is not even read to its end.
  std::size_t hopeless_body_bytes = 8 * 1024 * 1024;
  int threads = 8;
};

class HttpServer {
 public:
  virtual ~HttpServer() = default;
  virtual std::uint16_t port() const = 0;
  /// Refuses new requests, waits a little for replies under way, closes all connections.
  /// Streams must have been closed by their writers.
  virtual void stop() = 0;
};

/// `listen.host` is an IPv4 address; port 0 takes a free one. FailedPrecondition: the port is
/// taken. `handler` runs on the server's few threads and must not block.
Result<std::unique_ptr<HttpServer>> start_http_server(const Endpoint& listen,
                                                      const HttpLimits& limits, Handler handler,
                                                      Refusal refusal, Log& log);

}  // namespace mare::rest
