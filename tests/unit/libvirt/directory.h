// A directory of a test's own, gone with it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace mare::libvirt {

class TestDirectory {
 public:
  TestDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "mare-test-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TestDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  std::string path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace mare::libvirt
