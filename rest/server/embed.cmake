cmake_minimum_required(VERSION 3.25)
# Turns INPUT into a C++ file that holds its text. A string literal may be 65536 characters long at least
# (C++ standard, annex B), so the text is given in pieces.
file(READ "${INPUT}" text)
string(REPLACE "@VERSION@" "${VERSION}" text "${text}")
string(LENGTH "${text}" left)
set(pieces "")
set(at 0)
while(left GREATER 0)
  string(SUBSTRING "${text}" ${at} 8000 piece)
  string(APPEND pieces "  R\"~~(${piece})~~\",\n")
  math(EXPR at "${at} + 8000")
  math(EXPR left "${left} - 8000")
endwhile()
file(WRITE "${OUTPUT}"
"// Made by embed.cmake from the API's description.
#include <string>

namespace mare::rest {
namespace {
constexpr const char* kPieces[] = {
${pieces}};
}  // namespace

std::string openapi_text() {
  std::string out;
  for (const char* piece : kPieces) out += piece;
  return out;
}
}  // namespace mare::rest
")
