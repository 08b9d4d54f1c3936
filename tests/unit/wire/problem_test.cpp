#include "rest/wire/problem.h"

#include <gtest/gtest.h>

namespace mare::wire {
namespace {

TEST(Problem, CarriesAnErrorThereAndBack) {
  for (int i = 0; i <= static_cast<int>(Code::Internal); ++i) {
    const Error error{static_cast<Code>(i), "VM 'demo-0' is away", "destination", "name another"};
    const int status = status_of(error.code);
    EXPECT_GE(status, 400);
    const Error back =
        error_from_problem(status, to_text(problem_json(error, status, "/api/v1/vms/demo-0")));
    EXPECT_EQ(back.code, error.code);
    EXPECT_EQ(back.message, error.message);
    EXPECT_EQ(back.field, error.field);
    EXPECT_EQ(back.remedy, error.remedy);
  }
}

TEST(Problem, WithoutRemedyOrField) {
  const Error error = make_error(Code::NotFound, "there is no host 'h9'");
  const Json json = problem_json(error, 404, "/api/v1/hosts/h9");
  EXPECT_FALSE(json.contains("errors"));
  EXPECT_FALSE(json.contains("remedy"));
  EXPECT_EQ(json["detail"], "there is no host 'h9'");
  EXPECT_EQ(error_from_problem(404, to_text(json)).text(), error.text());
}

TEST(Problem, FaultsBecomeErrors) {
  const Json json = problem_json(make_error(Code::InvalidArgument, "bad"), 400, "/x",
                                 {{"/size", "is 0; write more"}, {"?limit", "is 'a'; write 5"}});
  ASSERT_EQ(json["errors"].size(), 2U);
  EXPECT_EQ(json["errors"][1]["pointer"], "?limit");
}

TEST(Problem, ForeignAnswersStillMakeErrors) {
  EXPECT_EQ(error_from_problem(502, "<html>nginx</html>").code, Code::Unavailable);
  EXPECT_EQ(error_from_problem(404, "").code, Code::NotFound);
  EXPECT_EQ(error_from_problem(401, "[]").code, Code::Unauthenticated);
  EXPECT_EQ(error_from_problem(418, "{}").code, Code::InvalidArgument);
  EXPECT_EQ(error_from_problem(500, R"({"detail":7})").code, Code::Internal);
  EXPECT_EQ(error_from_problem(409, R"({"detail":"x","code":"brand_new"})").code, Code::Conflict);
}

}  // namespace
}  // namespace mare::wire
