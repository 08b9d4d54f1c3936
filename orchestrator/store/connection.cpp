#include "orchestrator/store/connection.h"

namespace mare::store {
namespace {
// Beyond it some text must differ each time: none of these would be asked for again.
constexpr std::size_t kMostIdle = 256;
}  // namespace

RawStatement IdleStatements::take(const std::string& sql) {
  const std::lock_guard lock(mutex_);
  const auto found = statements_.find(sql);
  if (found == statements_.end()) return nullptr;
  RawStatement out = std::move(found->second);
  statements_.erase(found);
  return out;
}

void IdleStatements::keep(RawStatement statement) {
  // Reset, it holds no lock and no snapshot; its error was told when it came.
  sqlite3_reset(statement.get());
  sqlite3_clear_bindings(statement.get());
  const std::lock_guard lock(mutex_);
  if (statements_.size() >= kMostIdle) statements_.clear();
  std::string sql = sqlite3_sql(statement.get());
  statements_.emplace(std::move(sql), std::move(statement));
}

Result<std::unique_ptr<Connection>> Connection::open(const std::string& path, Mode mode) {
  const int flags =
      mode == Mode::ReadWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags | SQLITE_OPEN_FULLMUTEX, nullptr);
  std::unique_ptr<Connection> connection(new Connection(raw, path));
  if (code != SQLITE_OK) {
    return make_error(Code::Unavailable,
                      "cannot open the database " + path + ": " +
                          (raw != nullptr ? sqlite3_errmsg(raw) : "out of memory"),
                      "check that its directory exists and is writable");
  }
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, 5000);
  return connection;
}

Error Connection::failure(std::string_view what) const {
  const int code = sqlite3_extended_errcode(db_.get());
  const std::string text = std::string(what) + " in " + path_ + ": " + sqlite3_errmsg(db_.get());
  switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_IOERR:
      // Not ResourceExhausted: that is a pool that does not fit; this passes when there is room
      // again.
      return make_error(Code::Unavailable, text,
                        "make room on the file system that holds it; nothing was changed");
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return make_error(Code::Unavailable, text, "nothing was changed");
    case SQLITE_CONSTRAINT:
      return make_error(Code::Conflict, text);
    default:
      return make_error(Code::Internal, text);
  }
}

Status Connection::execute(const std::string& sql) {
  if (sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return failure("statement failed");
  }
  return ok_status();
}

Result<Statement> Connection::prepare(std::string_view sql) {
  if (auto idle = idle_->take(std::string(sql))) return Statement(*this, idle_, std::move(idle));
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v3(db_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  RawStatement fresh(raw);
  if (code != SQLITE_OK) return failure("statement '" + std::string(sql) + "' failed");
  return Statement(*this, idle_, std::move(fresh));
}

Statement::~Statement() {
  if (raw_ == nullptr) return;  // moved from
  if (const auto idle = idle_.lock()) idle->keep(std::move(raw_));
}

Statement& Statement::bind(std::string_view text) {
  sqlite3_bind_text(raw_.get(), next_parameter_++, text.data(), static_cast<int>(text.size()),
                    SQLITE_TRANSIENT);
  return *this;
}

Statement& Statement::bind(std::int64_t number) {
  sqlite3_bind_int64(raw_.get(), next_parameter_++, number);
  return *this;
}

Statement& Statement::bind(double number) {
  sqlite3_bind_double(raw_.get(), next_parameter_++, number);
  return *this;
}

Statement& Statement::bind_null() {
  sqlite3_bind_null(raw_.get(), next_parameter_++);
  return *this;
}

Result<bool> Statement::step() {
  next_column_ = 0;
  const int code = sqlite3_step(raw_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return connection_->failure("statement failed");
}

Status Statement::run() {
  auto row = step();
  if (!row) return row.error();
  return ok_status();
}

std::string Statement::text() {
  const int column = next_column_++;
  const auto* raw = reinterpret_cast<const char*>(sqlite3_column_text(raw_.get(), column));
  if (raw == nullptr) return {};
  return {raw, static_cast<std::size_t>(sqlite3_column_bytes(raw_.get(), column))};
}

std::int64_t Statement::integer() {
  return sqlite3_column_int64(raw_.get(), next_column_++);
}

double Statement::real() {
  return sqlite3_column_double(raw_.get(), next_column_++);
}

std::optional<std::int64_t> Statement::maybe_integer() {
  const int column = next_column_++;
  if (sqlite3_column_type(raw_.get(), column) == SQLITE_NULL) return std::nullopt;
  return sqlite3_column_int64(raw_.get(), column);
}

}  // namespace mare::store
