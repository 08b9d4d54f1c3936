#include "orchestrator/store/connection.h"

#include <gtest/gtest.h>

namespace mare::store {
namespace {

std::unique_ptr<Connection> in_memory() {
  auto connection = Connection::open(":memory:", Connection::Mode::ReadWrite);
  EXPECT_TRUE(connection);
  return connection ? std::move(*connection) : nullptr;
}

TEST(Statements, OneThatIsUsedAgainHasNothingOfTheLastUse) {
  const auto connection = in_memory();
  {
    auto first = connection->prepare("SELECT ? UNION ALL SELECT 2");
    ASSERT_TRUE(first);
    first->bind("bound");
    ASSERT_TRUE(first->step());
    EXPECT_EQ(first->text(), "bound");  // and is left in the middle
  }
  auto again = connection->prepare("SELECT ? UNION ALL SELECT 2");
  ASSERT_TRUE(again);
  ASSERT_TRUE(again->step());
  EXPECT_EQ(again->maybe_integer(), std::nullopt) << "begins anew, unbound";
}

TEST(Statements, TwoOfOneTextAtOnceAreTwo) {
  const auto connection = in_memory();
  auto one = connection->prepare("SELECT ?");
  auto other = connection->prepare("SELECT ?");
  ASSERT_TRUE(one && other);
  one->bind(1);
  other->bind(2);
  ASSERT_TRUE(one->step() && other->step());
  EXPECT_EQ(one->integer(), 1);
  EXPECT_EQ(other->integer(), 2);
}

TEST(Statements, OneThatFailedIsOfUseAgainAndMayOutliveItsConnection) {
  auto connection = in_memory();
  ASSERT_TRUE(connection->execute("CREATE TABLE t (id TEXT UNIQUE)"));
  const auto insert = [&](const char* id) {
    auto statement = connection->prepare("INSERT INTO t VALUES (?)");
    return statement ? statement->bind(id).run() : Status(statement.error());
  };
  EXPECT_TRUE(insert("a"));
  EXPECT_FALSE(insert("a"));
  EXPECT_TRUE(insert("b"));
  auto last = connection->prepare("SELECT count(*) FROM t");
  ASSERT_TRUE(last);
  connection.reset();
  const auto row = last->step();
  ASSERT_TRUE(row && *row);
  EXPECT_EQ(last->integer(), 2);
}

}  // namespace
}  // namespace mare::store
