#include "ui/cli/programs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ui/cli/app.h"

namespace mare::cli {
namespace {

TEST(Programs, AnInstalledBinaryNeverRunsSources) {
  for (const std::string& place : places_of("mare-lab", "/opt/mare/bin/mare")) {
    EXPECT_EQ(place.find("hypervisor/lab"), std::string::npos) << place;
  }
  EXPECT_EQ(places_of("mare-lab", "/opt/mare/bin/mare").front(), "/opt/mare/bin/mare-lab");
}

TEST(Programs, AMissingOneIsNamedWithItsPlaces) {
  const auto found = find_program("mare-nonesuch", "/nowhere/bin/mare");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, Code::NotFound);
  EXPECT_NE(found.error().message.find("/nowhere/bin/mare-nonesuch"), std::string::npos);
}

TEST(App, GuessesWhatWasMeant) {
  EXPECT_EQ(nearest("vms", {"host", "vm", "job"}), "vm");
  EXPECT_EQ(nearest("lsit", {"list", "show"}), "list");
  EXPECT_EQ(nearest("frobnicate", {"list", "show"}), "");
}

TEST(ExitCodes, AreWhatTheDocumentSays) {
  EXPECT_EQ(exit_code_of(Code::InvalidArgument), 2);
  EXPECT_EQ(exit_code_of(Code::NotFound), 3);
  EXPECT_EQ(exit_code_of(Code::AlreadyExists), 4);
  EXPECT_EQ(exit_code_of(Code::Conflict), 4);
  EXPECT_EQ(exit_code_of(Code::FailedPrecondition), 4);
  EXPECT_EQ(exit_code_of(Code::ResourceExhausted), 4);
  EXPECT_EQ(exit_code_of(Code::Unavailable), 5);
  EXPECT_EQ(exit_code_of(Code::Internal), 1);
}

}  // namespace
}  // namespace mare::cli
