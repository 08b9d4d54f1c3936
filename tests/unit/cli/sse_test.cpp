#include "rest/client/sse.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rest/client/problem.h"
#include "rest/client/transfer.h"

namespace mare::rest {
namespace {

std::vector<ServerEvent> parse(const std::string& bytes, std::size_t step) {
  std::vector<ServerEvent> events;
  SseParser parser{[&](const ServerEvent& event) {
    events.push_back(event);
    return true;
  }};
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    EXPECT_TRUE(parser.feed(std::string_view(bytes).substr(at, step)));
  }
  return events;
}

TEST(Sse, SameEventsWhereverTheBytesAreCut) {
  const std::string stream =
      ": hello\n\nid: 7\nevent: vm.state\ndata: {\"a\":\ndata: 1}\n\n"
      ":heartbeat\r\n\r\nid:8\r\ndata:x\r\n\r\ndata\n\nid: 9\n\n";
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    const auto events = parse(stream, step);
    ASSERT_EQ(events.size(), 3U) << "step " << step;
    EXPECT_EQ(events[0].id, "7");
    EXPECT_EQ(events[0].name, "vm.state");
    EXPECT_EQ(events[0].data, "{\"a\":\n1}");
    EXPECT_EQ(events[1].id, "8");
    EXPECT_EQ(events[1].name, "message");
    EXPECT_EQ(events[1].data, "x");
    EXPECT_EQ(events[2].data, "");
  }
}

TEST(Sse, HalfAnEventIsNone) {
  EXPECT_TRUE(parse("id: 1\ndata: x\n", 3).empty());
}

TEST(Sse, StopsWhenTheReceiverHasEnough) {
  int seen = 0;
  SseParser parser{[&](const ServerEvent&) { return ++seen < 2; }};
  EXPECT_FALSE(parser.feed("data: 1\n\ndata: 2\n\ndata: 3\n\n"));
  EXPECT_EQ(seen, 2);
}

TEST(Sse, AnEndlessLineIsGivenUp) {
  SseParser parser{[](const ServerEvent&) { return true; }};
  const std::string block(1024 * 1024, 'x');
  bool ok = true;
  for (int i = 0; i < 8 && ok; ++i) ok = parser.feed(block);
  EXPECT_FALSE(ok);
  EXPECT_TRUE(parser.too_long());
}

TEST(Problem, KeepsCodeRemedyFieldAndAllFaults) {
  const Error error = problem_error(
      400,
      R"({"type":"about:blank","title":"Bad Request","status":400,"code":"invalid_argument",
          "detail":"2 faults; correct them","remedy":"correct them",
          "errors":[{"pointer":"/size","detail":"must be at least 1"},
                    {"pointer":"/memory_mib","detail":"must be a number"}]})",
      "http://x");
  EXPECT_EQ(error.code, Code::InvalidArgument);
  EXPECT_EQ(error.field, "size");
  EXPECT_EQ(error.remedy, "correct them");
  EXPECT_NE(error.message.find("size: must be at least 1"), std::string::npos);
  EXPECT_NE(error.message.find("memory_mib: must be a number"), std::string::npos);
}

TEST(Problem, APageOfAnotherProgramSaysSo) {
  const Error error = problem_error(502, "<html>\nBad gateway</html>", "http://x:1");
  EXPECT_EQ(error.code, Code::Unavailable);
  EXPECT_NE(error.message.find("http://x:1"), std::string::npos);
  EXPECT_NE(error.message.find("502"), std::string::npos);
  EXPECT_NE(error.remedy.find("proxy"), std::string::npos);
}

TEST(Transfer, EncodesWhatWouldBreakAPath) {
  EXPECT_EQ(percent_encode("demo-0"), "demo-0");
  EXPECT_EQ(percent_encode("a b/../c?d\xc3\xa9"), "a%20b%2F..%2Fc%3Fd%C3%A9");
}

TEST(Transfer, ChecksUrls) {
  EXPECT_EQ(check_url("http://127.0.0.1:7410//").value(), "http://127.0.0.1:7410");
  for (const char* url : {"", "127.0.0.1:7410", "ftp://x", "file:///etc/passwd", "http://"}) {
    EXPECT_FALSE(check_url(url).ok()) << url;
  }
}

}  // namespace
}  // namespace mare::rest
