#include "orchestrator/daemon/image_catalog.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace mare::daemon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Result<std::string> read_file(const fs::path& path) {
  const std::ifstream in(path);
  if (!in) return make_error(Code::NotFound, "cannot read " + path.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos &&
         name.find(' ') == std::string::npos && name.find('\n') == std::string::npos;
}

Error no_image(const std::string& name, const std::string& directory) {
  Error error = make_error(Code::NotFound, "there is no image '" + name + "' in " + directory,
                           "build it with 'mare image build --name " + name + "'");
  error.field = "image";
  return error;
}

std::string text_member(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::uint64_t number_member(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

WallTime parse_time(const std::string& text) {
  std::tm parts{};
  if (strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return WallTime{0};
  return std::chrono::duration_cast<WallTime>(std::chrono::seconds{timegm(&parts)});
}

}  // namespace

Result<engine::ImageFacts> DirectoryCatalog::find(const std::string& name,
                                                  const std::string& version) {
  if (!is_plain_name(name)) return no_image(name, directory_);
  const fs::path home = fs::path(directory_) / name;
  std::string chosen = version;
  if (chosen.empty()) {
    auto current = read_file(home / "current");
    if (!current) return no_image(name, directory_);
    chosen = current->substr(0, current->find_first_of(" \n"));
  }
  if (!is_plain_name(chosen)) return no_image(name, directory_);
  const fs::path here = home / chosen;
  auto text = read_file(here / "manifest.json");
  if (!text) {
    return make_error(Code::NotFound,
                      "version '" + chosen + "' of image '" + name + "' is not in " + home.string(),
                      "build it again with 'mare image build --name " + name + "'");
  }
  const json manifest = json::parse(*text, nullptr, false);
  if (!manifest.is_object()) {
    return make_error(Code::FailedPrecondition, (here / "manifest.json").string() + " is not JSON",
                      "build the image again with 'mare image build --force --name " + name + "'");
  }
  engine::ImageFacts facts;
  facts.name = name;
  facts.version = chosen;
  facts.kernel = (here / "vmlinuz").string();
  facts.initrd = (here / "initrd.img").string();
  facts.root = exported_ + "/" + name + "/" + chosen + "/root";
  facts.kernel_args = text_member(manifest, "kernel_args");
  facts.min_memory = mebibytes(number_member(manifest, "min_memory_mib"));
  facts.created = parse_time(text_member(manifest, "created"));
  facts.size_bytes = number_member(manifest, "size_bytes");
  if (const auto packages = manifest.find("packages");
      packages != manifest.end() && packages->is_array()) {
    for (const auto& package : *packages) {
      if (package.is_string()) facts.packages.push_back(package.get<std::string>());
    }
  }
  return facts;
}

Result<std::vector<engine::ImageFacts>> DirectoryCatalog::list() {
  std::vector<engine::ImageFacts> out;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(directory_, failed)) {
    const std::string name = entry.path().filename().string();
    auto facts = find(name, "");
    if (facts) out.push_back(std::move(*facts));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

Result<engine::ImageFacts> SimCatalog::find(const std::string& name, const std::string& version) {
  if (name != "sim") return real_.find(name, version);
  engine::ImageFacts facts;
  facts.name = "sim";
  facts.version = "1";
  facts.kernel = "/sim/vmlinuz";
  facts.initrd = "/sim/initrd.img";
  facts.root = "/sim/root";
  facts.min_memory = mebibytes(1);
  return facts;
}

}  // namespace mare::daemon
