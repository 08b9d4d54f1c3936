#include "tests/unit/agent/pki.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace mare::agent::test {
namespace {

void shell(const std::string& command) {
  ASSERT_EQ(std::system((command + " >/dev/null 2>&1").c_str()), 0) << command;
}

}  // namespace

Pki::Pki() {
  std::array<char, 64> name{"/tmp/mare-pki-XXXXXX"};
  EXPECT_NE(::mkdtemp(name.data()), nullptr);
  directory_ = name.data();
  for (const char* ca : {"main", "other"}) {
    shell(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=" +
        std::string(ca) + "-ca -keyout " + path(ca) + "-ca.key -out " + path(ca) + "-ca.pem");
  }
}

Pki::~Pki() {
  std::filesystem::remove_all(directory_);
}

TlsPaths Pki::issue(const std::string& name, const std::string& ca, int days) {
  const std::string base = path(ca + "-" + name);
  const TlsPaths paths{path(ca + "-ca.pem"), base + ".pem", base + ".key"};
  if (std::filesystem::exists(paths.certificate)) return paths;
  shell("openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + name +
        " -keyout " + base + ".key -out " + base + ".csr");
  std::ofstream(base + ".ext") << "subjectAltName=DNS:" << name << "\n";
  shell("openssl x509 -req -in " + base + ".csr -CA " + paths.ca + " -CAkey " + path(ca) +
        "-ca.key -CAcreateserial -days " + std::to_string(days) + " -extfile " + base +
        ".ext -out " + base + ".pem");
  return paths;
}

Pki& pki() {
  static Pki one;
  return one;
}

std::string read_text(const std::string& path) {
  const std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace mare::agent::test
