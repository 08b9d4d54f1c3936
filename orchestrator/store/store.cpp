#include "orchestrator/store/store.h"

#include "orchestrator/store/connection.h"
#include "orchestrator/store/schema.h"

namespace mare::store {
namespace {
constexpr const char* kPragmas =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;";
}

Store::Store(std::unique_ptr<Connection> writer, std::unique_ptr<Connection> reader)
    : writer_(std::move(writer)), reader_(std::move(reader)) {}

Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::open(const std::string& path) {
  auto writer = Connection::open(path, Connection::Mode::ReadWrite);
  if (!writer) return writer.error();
  if (auto done = (*writer)->execute(kPragmas); !done) return done.error();
  if (auto done = migrate_schema(**writer); !done) return done.error();
  // Read-write, though it only reads: a read-only connection can't use the WAL of a file that
  // nobody has open.
  auto reader = Connection::open(path, Connection::Mode::ReadWrite);
  if (!reader) return reader.error();
  if (auto done = (*reader)->execute("PRAGMA query_only = ON"); !done) return done.error();
  return std::unique_ptr<Store>(new Store(std::move(*writer), std::move(*reader)));
}

Status Store::write(const std::function<Status(Transaction&)>& change) {
  const std::lock_guard lock(writer_mutex_);
  if (stop_after_ && commits_ >= *stop_after_) {
    return make_error(Code::Unavailable, "the store was stopped");
  }
  if (auto begun = writer_->execute("BEGIN IMMEDIATE"); !begun) return begun.error();
  Transaction transaction(*writer_);
  auto done = change(transaction);
  if (done) {
    done = writer_->execute("COMMIT");
    if (done) {
      ++commits_;
      return ok_status();
    }
  }
  // After some failures (disk full) SQLite has rolled back by itself; then this is a harmless
  // error.
  (void)writer_->execute("ROLLBACK");
  return done.error();
}

Status Store::read(const std::function<Status(const Reader&)>& query) const {
  const std::lock_guard lock(reader_mutex_);
  if (auto begun = reader_->execute("BEGIN"); !begun) return begun.error();
  const Reader reader(*reader_);
  auto done = query(reader);
  (void)reader_->execute("ROLLBACK");
  return done;
}

std::uint64_t Store::commits() const {
  const std::lock_guard lock(writer_mutex_);
  return commits_;
}

void Store::stop_after_commits(std::uint64_t commits) {
  const std::lock_guard lock(writer_mutex_);
  stop_after_ = commits;
}

Status Store::prune(WallTime before) {
  return write([&](Transaction&) -> Status {
    const std::string limit = std::to_string(before.count());
    const std::string old = "SELECT id FROM operation WHERE outcome <> 'pending' AND ended_us < " +
                            limit + " AND id NOT IN (SELECT id FROM migration)";
    return writer_->execute("DELETE FROM event WHERE at_us < " + limit +
                            ";DELETE FROM operation_event WHERE operation IN (" + old + ")" +
                            ";DELETE FROM operation WHERE id IN (" + old + ")" +
                            ";DELETE FROM forecast WHERE made_us < " + limit +
                            " AND id NOT IN (SELECT id FROM migration);");
  });
}

}  // namespace mare::store
