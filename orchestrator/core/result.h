// Result<T>: a value or an Error. It mimics std::expected, which g++ 12 lacks in C++20.
// Errors are values because most failures here are expected and change what is done next.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace mare {

/// A code exists only where some caller reacts differently to it.
enum class Code : std::uint8_t {
  InvalidArgument,     // the request is wrong and will stay wrong
  Unauthenticated,     // no token, or a wrong one
  NotFound,            // the named object does not exist
  AlreadyExists,       // an object of that name exists
  Conflict,            // another operation holds the object
  FailedPrecondition,  // the object's state forbids it
  ResourceExhausted,   // no room: memory, disk, addresses, queue
  Unavailable,         // the other side can't be reached; nothing was done
  OutcomeUnknown,      // the call timed out or broke; it may have been done
  Cancelled,           // somebody asked to stop
  Unsupported,         // this backend or version can't
  Internal,            // a bug, or a library's failure that fits nowhere else
};

std::string_view to_string(Code code);
std::optional<Code> code_from_string(std::string_view text);

/// What went wrong, on which object, and what to do.
struct Error {
  Code code = Code::Internal;
  std::string message;  // one sentence, no trailing newline
  std::string field;    // the request's field at fault, "" if none
  std::string remedy;   // what the user can do, "" if nothing

  /// "message; remedy", for logs and terminals.
  std::string text() const;
  /// The same error with what was being tried in front.
  Error during(std::string_view what) const;
};

inline Error make_error(Code code, std::string message, std::string remedy = {}) {
  return Error{code, std::move(message), {}, std::move(remedy)};
}
inline Error field_error(std::string field, std::string message, std::string remedy = {}) {
  return Error{Code::InvalidArgument, std::move(message), std::move(field), std::move(remedy)};
}

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

// On in release builds: state is on disk, and a restart is recovery.
#define MARE_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::mare::assertion_failed(#condition, __FILE__, __LINE__))

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return content_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    MARE_ASSERT(ok());
    return std::get<0>(content_);
  }
  const T& value() const& {
    MARE_ASSERT(ok());
    return std::get<0>(content_);
  }
  T&& value() && {
    MARE_ASSERT(ok());
    return std::get<0>(std::move(content_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    MARE_ASSERT(!ok());
    return std::get<1>(content_);
  }

 private:
  std::variant<T, Error> content_;
};

struct Unit {};

class [[nodiscard]] Status : public Result<Unit> {
 public:
  Status() : Result<Unit>(Unit{}) {}
  Status(Error error) : Result<Unit>(std::move(error)) {}  // NOLINT: implicit
};

inline Status ok_status() {
  return {};
}

}  // namespace mare
