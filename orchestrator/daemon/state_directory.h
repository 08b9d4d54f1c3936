// The daemon's directory: one process at a time, a token that only its owner reads.
#pragma once

#include <string>

#include "orchestrator/core/result.h"
#include "orchestrator/core/rng.h"

namespace mare::daemon {

class StateDirectory {
 public:
  /// Makes the directory if need be and takes its lock. Conflict names the process that has it.
  static Result<StateDirectory> open(const std::string& path);
  ~StateDirectory();
  StateDirectory(StateDirectory&& other) noexcept;
  StateDirectory& operator=(StateDirectory&&) = delete;
  StateDirectory(const StateDirectory&) = delete;

  std::string database() const { return path_ + "/mare.db"; }
  std::string jobs() const { return path_ + "/jobs"; }
  const std::string& path() const { return path_; }
  /// The API's token; made at the first start, readable by the owner only.
  Result<std::string> token(Rng& rng) const;

 private:
  StateDirectory(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::string path_;
  int lock_ = -1;
};

}  // namespace mare::daemon
