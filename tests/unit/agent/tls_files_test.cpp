#include "hypervisor/agent/tls_files.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/agent/pki.h"

namespace mare::agent::test {
namespace {

WallTime now() {
  return SystemClock{}.wall_now();
}

/// What it says of files that are wrong; each must name the file.
std::string complaint(const TlsPaths& paths, const std::string& name, WallTime when,
                      const std::string& file) {
  auto loaded = load_tls(paths, name, when);
  if (loaded) return "no complaint";
  EXPECT_EQ(loaded.error().code, Code::InvalidArgument);
  EXPECT_FALSE(loaded.error().remedy.empty());
  EXPECT_NE(loaded.error().message.find("'" + file + "'"), std::string::npos)
      << loaded.error().message << " does not name " << file;
  return loaded.error().message;
}

TEST(TlsFiles, GoodOnesAreReadAsTheyAre) {
  const auto paths = pki().issue("h1");
  auto loaded = load_tls(paths, "h1", now());
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  EXPECT_EQ(loaded->ca, read_text(paths.ca));
  EXPECT_EQ(loaded->certificate, read_text(paths.certificate));
  EXPECT_EQ(loaded->key, read_text(paths.key));
  EXPECT_TRUE(load_tls(paths, "", now()).ok());
}

TEST(TlsFiles, MissingOrNotPem) {
  const auto good = pki().issue("h1");
  const std::string nowhere = pki().path("nowhere");
  const std::string junk = pki().path("junk");
  std::ofstream(junk) << "-----BEGIN CERTIFICATE-----\nnot base64\n-----END CERTIFICATE-----\n";
  for (const auto& [file, words] :
       {std::pair(nowhere, "No such file"), std::pair(junk, "holds no PEM")}) {
    auto paths = good;
    paths.ca = file;
    EXPECT_NE(complaint(paths, "", now(), file).find(words), std::string::npos);
    paths = good;
    paths.certificate = file;
    EXPECT_NE(complaint(paths, "", now(), file).find(words), std::string::npos);
    paths = good;
    paths.key = file;
    EXPECT_NE(complaint(paths, "", now(), file).find(words), std::string::npos);
  }
  auto paths = good;
  paths.key = "";
  EXPECT_NE(complaint(paths, "", now(), "").find("was not given"), std::string::npos);
}

TEST(TlsFiles, BelongTogether) {
  auto paths = pki().issue("h1");
  paths.key = pki().issue("h2").key;
  EXPECT_NE(complaint(paths, "", now(), paths.key).find("does not belong"), std::string::npos);
  paths = pki().issue("h1", "other");
  paths.ca = pki().issue("h1").ca;
  EXPECT_NE(complaint(paths, "", now(), paths.certificate).find("is not one of the CA"),
            std::string::npos);
}

TEST(TlsFiles, OutOfDate) {
  const auto paths = pki().issue("h1");
  const auto day = std::chrono::hours(24);
  EXPECT_TRUE(load_tls(paths, "", now() + day).ok());
  EXPECT_NE(complaint(paths, "", now() + 3 * day, paths.certificate).find("expired at"),
            std::string::npos);
  EXPECT_NE(complaint(paths, "", now() + 40 * day, paths.ca).find("expired at"), std::string::npos);
  EXPECT_NE(complaint(paths, "", now() - day, paths.ca).find("valid only from"), std::string::npos);
}

TEST(TlsFiles, CarryTheName) {
  const auto paths = pki().issue("h1");
  EXPECT_NE(complaint(paths, "h2", now(), paths.certificate).find("'h2'"), std::string::npos);
}

}  // namespace
}  // namespace mare::agent::test
