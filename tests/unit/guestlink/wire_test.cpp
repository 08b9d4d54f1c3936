#include "orchestrator/guestlink/wire.h"

#include <gtest/gtest.h>

#include "images/guest/protocol.h"
#include "orchestrator/core/rng.h"

namespace mare::guestlink {
namespace {

TEST(PercentTest, EncodesWhatWouldBreakALine) {
  EXPECT_EQ(percent_encode("a b\n%\x7f"), "a%20b%0A%25%7F");
  EXPECT_EQ(percent_encode("K=V/x~!"), "K=V/x~!");
  EXPECT_EQ(percent_encode("\xc3\xa9"), "%C3%A9");
  EXPECT_EQ(percent_encode(""), "");
}

TEST(PercentTest, DecodesBothCasesAndRefusesBrokenEscapes) {
  EXPECT_EQ(percent_decode("%c3%A9+x"), "\xc3\xa9+x");
  for (const char* broken : {"%", "%2", "a%", "%zz", "%-1", "%2g"}) {
    EXPECT_FALSE(percent_decode(broken)) << broken;
  }
}

TEST(PercentTest, AnyBytesComeBackAndFitOnALine) {
  SeededRng rng(1);
  for (int round = 0; round < 500; ++round) {
    std::string bytes(rng.below(64), '\0');
    for (char& c : bytes) c = static_cast<char>(rng.next());
    const std::string text = percent_encode(bytes);
    EXPECT_EQ(text.find_first_of(" \n"), std::string::npos);
    EXPECT_EQ(percent_decode(text), bytes);
  }
}

TEST(RequestTest, KeepsTheOrderOfRepeatedKeys) {
  const auto line =
      request_line("secret-token", "RUN", {{"id", "job-1"}, {"arg", "echo"}, {"arg", "a b"}});
  ASSERT_TRUE(line);
  EXPECT_EQ(*line, "MARE1 secret-token RUN id=job-1 arg=echo arg=a%20b\n");
}

TEST(RequestTest, TheLongestLineThatFitsIsTakenAndOneByteMoreIsNot) {
  const auto empty = request_line("secret-token", "RUN", {{"arg", ""}});
  ASSERT_TRUE(empty);
  const std::size_t room = MARE_GUEST_LINE_MAX - empty->size();
  const auto full = request_line("secret-token", "RUN", {{"arg", std::string(room, 'x')}});
  ASSERT_TRUE(full);
  EXPECT_EQ(full->size(), static_cast<std::size_t>(MARE_GUEST_LINE_MAX));
  const auto over = request_line("secret-token", "RUN", {{"arg", std::string(room + 1, 'x')}});
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Code::InvalidArgument);
  EXPECT_FALSE(over.error().remedy.empty());
}

TEST(AnswerTest, ReadsFieldsAndIgnoresWhatItDoesNotKnow) {
  const auto answer = parse_answer("OK state=exited exit=3 note=a%20b=c empty= later=?");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->text("state"), "exited");
  EXPECT_EQ(answer->number("exit"), 3);
  EXPECT_EQ(answer->text("note"), "a b=c");
  EXPECT_EQ(answer->text("empty"), "");
  EXPECT_EQ(answer->text("absent"), "");
  EXPECT_FALSE(answer->number("state"));
  EXPECT_EQ(answer->natural("absent"), 0U);
  EXPECT_TRUE(parse_answer("OK"));
}

TEST(AnswerTest, ErrorsKeepTheGuestsWordsAndGetTheirCode) {
  const std::pair<const char*, Code> table[] = {{"bad-request", Code::InvalidArgument},
                                                {"denied", Code::Unauthenticated},
                                                {"not-found", Code::NotFound},
                                                {"exists", Code::Conflict},
                                                {"busy", Code::Unavailable},
                                                {"failed", Code::Internal},
                                                {"from-a-later-version", Code::Internal}};
  for (const auto& [word, code] : table) {
    const auto answer = parse_answer(std::string("ERR ") + word + " no%20such%20thing");
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, code) << word;
    EXPECT_NE(answer.error().message.find("no such thing"), std::string::npos);
  }
}

TEST(AnswerTest, AnotherProtocolIsNamedAsSuch) {
  for (const char* line : {"HTTP/1.1 400 Bad Request", "", "OKAY a=b", "OK a", "OK a=%G0",
                           "ERR denied %", "SSH-2.0-OpenSSH_9.2"}) {
    const auto answer = parse_answer(line);
    ASSERT_FALSE(answer) << line;
    EXPECT_EQ(answer.error().code, Code::Internal) << line;
    EXPECT_NE(answer.error().message.find("not its protocol"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace mare::guestlink
