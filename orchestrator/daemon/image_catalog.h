// Images as the builder leaves them: IMAGES/NAME/current names a version,
// IMAGES/NAME/VERSION/manifest.json describes it. Read anew at each call, because builds happen
// while the daemon runs.
#pragma once

#include <string>

#include "orchestrator/engine/engine.h"

namespace mare::daemon {

class DirectoryCatalog final : public engine::ImageCatalog {
 public:
  /// `directory` is the path on this machine and on the hosts, `exported` the NFS server's name for
  /// it.
  DirectoryCatalog(std::string directory, std::string exported)
      : directory_(std::move(directory)), exported_(std::move(exported)) {}

  Result<engine::ImageFacts> find(const std::string& name, const std::string& version) override;
  Result<std::vector<engine::ImageFacts>> list() override;

 private:
  std::string directory_;
  std::string exported_;
};

/// The one image of simulated hosts: named "sim", with no files.
class SimCatalog final : public engine::ImageCatalog {
 public:
  explicit SimCatalog(engine::ImageCatalog& real) : real_(real) {}
  Result<engine::ImageFacts> find(const std::string& name, const std::string& version) override;
  Result<std::vector<engine::ImageFacts>> list() override { return real_.list(); }

 private:
  engine::ImageCatalog& real_;
};

}  // namespace mare::daemon
