// A thin, throwing-free wrapper of SQLite's C interface: a connection, a statement, nothing else.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "orchestrator/core/result.h"

namespace mare::store {

class Statement;

struct Finalize {
  void operator()(sqlite3_stmt* raw) const noexcept { sqlite3_finalize(raw); }
};
using RawStatement = std::unique_ptr<sqlite3_stmt, Finalize>;

/// Statements that nobody uses at the moment, ready to be bound again: most of a short statement's
/// time goes into compiling it. Thread-safe.
class IdleStatements {
 public:
  /// Null: none with this text.
  RawStatement take(const std::string& sql);
  void keep(RawStatement statement);

 private:
  std::mutex mutex_;
  std::unordered_multimap<std::string, RawStatement> statements_;
};

class Connection {
 public:
  enum class Mode { ReadWrite, ReadOnly };
  static Result<std::unique_ptr<Connection>> open(const std::string& path, Mode mode);

  Status execute(const std::string& sql);
  Result<Statement> prepare(std::string_view sql);
  /// The last failure as ours: full disk and I/O errors name the file.
  Error failure(std::string_view what) const;
  int changes() const { return sqlite3_changes(db_.get()); }

 private:
  struct Close {
    void operator()(sqlite3* db) const noexcept { sqlite3_close_v2(db); }
  };
  Connection(sqlite3* db, std::string path) : db_(db), path_(std::move(path)) {}

  std::unique_ptr<sqlite3, Close> db_;
  std::string path_;
  std::shared_ptr<IdleStatements> idle_ = std::make_shared<IdleStatements>();  // before db_ closes
};

/// Parameters are bound in order with bind(), columns are read in order with the typed getters.
class Statement {
 public:
  Statement(Connection& connection, std::weak_ptr<IdleStatements> idle, RawStatement raw)
      : connection_(&connection), idle_(std::move(idle)), raw_(std::move(raw)) {}
  ~Statement();
  Statement(Statement&&) = default;
  Statement& operator=(Statement&&) = delete;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(std::string_view text);
  Statement& bind(const char* text) { return bind(std::string_view(text)); }
  Statement& bind(std::int64_t number);
  Statement& bind(int number) { return bind(static_cast<std::int64_t>(number)); }
  Statement& bind(std::uint64_t number) { return bind(static_cast<std::int64_t>(number)); }
  Statement& bind(bool flag) { return bind(static_cast<std::int64_t>(flag ? 1 : 0)); }
  Statement& bind(double number);
  Statement& bind_null();
  template <typename T>
  Statement& bind(const std::optional<T>& value) {
    return value ? bind(*value) : bind_null();
  }

  /// true: a row is there.
  Result<bool> step();
  /// For statements without rows.
  Status run();

  std::string text();
  std::int64_t integer();
  std::uint64_t natural() { return static_cast<std::uint64_t>(integer()); }
  int number() { return static_cast<int>(integer()); }
  bool flag() { return integer() != 0; }
  double real();
  std::optional<std::int64_t> maybe_integer();

 private:
  Connection* connection_;
  std::weak_ptr<IdleStatements> idle_;
  RawStatement raw_;
  int next_parameter_ = 1;
  int next_column_ = 0;
};

}  // namespace mare::store
