// Certificates for tests, made by openssl.
#pragma once

#include <filesystem>
#include <string>

#include "hypervisor/agent/tls_files.h"

namespace mare::agent::test {

/// Files in a temporary directory that ends with it: two CAs, "main" and "other".
class Pki {
 public:
  Pki();
  ~Pki();
  Pki(const Pki&) = delete;
  Pki& operator=(const Pki&) = delete;

  /// A certificate with that common name and DNS name, valid from now for `days`.
  TlsPaths issue(const std::string& name, const std::string& ca = "main", int days = 2);
  std::string path(const std::string& file) const { return directory_ / file; }

 private:
  std::filesystem::path directory_;
};

/// One for the whole test program: making keys takes time.
Pki& pki();
std::string read_text(const std::string& path);

}  // namespace mare::agent::test
