// What every command works with: the options that go anywhere on the line, the client, the
// terminal. And the one table of exit codes.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/result.h"
#include "rest/client/client.h"
#include "ui/cli/fields.h"
#include "ui/cli/interrupt.h"
#include "ui/cli/table.h"

namespace mare::cli {

// 128+signal and a program's own code come from jobs.
enum ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,
  kNotFound = 3,
  kConflict = 4,
  kUnreachable = 5,
  kTimedOut = 124,
  kInterrupted = 130,
};
int exit_code_of(Code code);

enum class Output { Table, Wide, JsonText, Name };

struct Globals {
  std::string url;         // "" : MARE_URL or the default
  std::string token_file;  // "" : MARE_TOKEN, MARE_TOKEN_FILE, the lab's or the system's
  Output output = Output::Table;
  std::optional<bool> wait;
  std::optional<Milliseconds> timeout;
  bool quiet = false;
};

/// Where the token comes from.
struct Token {
  std::string value;
  std::string source;  // in words, for error messages
};
Result<Token> find_token(const std::string& token_file_option);

class Session {
 public:
  Session(Globals globals, Clock& clock, Interrupt& interrupt)
      : globals_(std::move(globals)), clock_(clock), interrupt_(interrupt) {}

  const Globals& globals() const { return globals_; }
  Clock& clock() { return clock_; }
  Interrupt& interrupt() { return interrupt_; }
  /// Made at first use.
  Result<const rest::Client*> client();

  Result<Json> get(const std::string& path);
  Result<Json> post(const std::string& path, const Json& body = Json::object());
  Result<Json> put(const std::string& path, const Json& body);
  Result<Json> patch(const std::string& path, const Json& body);
  Result<Json> remove(const std::string& path);
  /// All pages of a list, at most `limit` items. `query` is "a=b&c=d" or "".
  Result<Json> list(const std::string& path, const std::string& query = {},
                    std::size_t limit = 100'000);

  /// Prints in the form that -o asks for.
  void print_list(const Json& items, const Columns& columns) const;
  void print_object(const Json& object, const Columns& columns) const;
  void print_json(const Json& value) const;
  bool wants(Output output) const { return globals_.output == output; }
  /// A line on stderr, unless --quiet.
  void say(const std::string& line) const;
  /// Says the error on stderr; answers the exit code.
  int fail(const Error& error) const;

 private:
  Globals globals_;
  Clock& clock_;
  Interrupt& interrupt_;
  std::optional<rest::Client> client_;
};

/// "/api/v1" with the parts, each encoded: api({"vms", id}).
std::string api(std::initializer_list<std::string> parts);
/// "&"-joined "name=value" with the empty ones left out.
std::string query(std::initializer_list<std::pair<const char*, std::string>> parts);

/// What the chosen subcommand does.
using Action = std::function<int(Session&)>;

}  // namespace mare::cli
