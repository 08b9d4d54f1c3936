#include "ui/cli/programs.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ui/cli/app.h"

namespace mare::cli {
namespace {

std::string self_path() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string{};
}

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

bool is_of_build_tree(const std::string& self) {
  return self.rfind(std::string(MARE_BUILD_DIR) + "/", 0) == 0;
}

/// The lab and the image of a build tree's `mare` are made of that tree's programs.
std::vector<std::string> with_build_tree(const std::string& program, const std::string& self,
                                         std::vector<std::string> words) {
  if (!is_of_build_tree(self) || words.empty()) return words;
  const bool lab = program == "mare-lab" && words.front() == "up";
  const bool image = program == "mare-image" && words.front() == "build";
  const std::string option = lab ? "--bin" : "--guest-bin";
  const bool given = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word == option || word.rfind(option + "=", 0) == 0;
  });
  if ((!lab && !image) || given) return words;
  const std::string stage = std::string(MARE_BUILD_DIR) + "/guest-stage";
  if (image && access(stage.c_str(), F_OK) != 0) return words;
  words.insert(words.begin() + 1, {option, lab ? std::string(MARE_BUILD_DIR) : stage});
  return words;
}

/// Replaces this process: the program has the terminal, the signals and the exit code to itself.
int run_program(const Session& session, const std::string& program,
                const std::vector<std::string>& arguments) {
  const std::string self = self_path();
  const auto path = find_program(program, self);
  if (!path) return session.fail(path.error());
  std::vector<char*> argv;
  std::string name = *path;
  argv.push_back(name.data());
  std::vector<std::string> words = with_build_tree(program, self, arguments);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(path->c_str(), argv.data());
  return session.fail(make_error(Code::Internal, "can't run " + *path + ": " + std::strerror(errno),
                                 "it needs /usr/bin/python3 (apt-get install python3)"));
}

int print_version(Session& session) {
  if (!session.wants(Output::JsonText)) std::printf("mare %s\n", MARE_VERSION);
  auto description = session.get(api({"openapi.json"}));
  const std::string server =
      description ? text(member(*description, "info"), "version") : std::string{};
  if (session.wants(Output::JsonText)) {
    session.print_json(
        Json{{"mare", MARE_VERSION}, {"mared", server.empty() ? Json() : Json(server)}});
  } else if (description) {
    std::printf("mared %s at %s\n", server.c_str(), (*session.client())->url().c_str());
  } else {
    session.say("mared: " + description.error().message);
  }
  return kOk;  // the client's version is told in any case
}

}  // namespace

std::vector<std::string> places_of(const std::string& program, const std::string& self) {
  const std::string own = directory_of(self);
  std::vector<std::string> places{own + "/" + program, own + "/../libexec/mare/" + program,
                                  std::string(MARE_LIBEXEC_DIR) + "/" + program};
  // Only the binary of a build tree may use that tree's sources: an installed one must not run
  // files from wherever it was built.
  if (is_of_build_tree(self)) {
    const std::string room = program == "mare-image" ? "/images/builder/" : "/hypervisor/lab/";
    places.insert(places.begin(), MARE_SOURCE_DIR + room + program);
  }
  return places;
}

Result<std::string> find_program(const std::string& program, const std::string& self) {
  std::string looked;
  for (const std::string& place : places_of(program, self)) {
    if (access(place.c_str(), X_OK) == 0) return place;
    looked += (looked.empty() ? "" : ", ") + place;
  }
  return make_error(Code::NotFound, program + " is not installed; looked at " + looked,
                    "install Maré with 'cmake --install', or run the mare of a build tree");
}

void add_program_commands(CLI::App& app, Action& action) {
  const auto pass = [&](const char* noun, const char* help, const std::string& program) {
    CLI::App* command = app.add_subcommand(noun, help)->group("This machine");
    command->fallthrough(false);
    command->prefix_command();
    command->set_help_flag();  // the program has its own --help
    command->callback([&action, command, program] {
      action = [words = command->remaining(), program](Session& session) {
        return run_program(session, program, words);
      };
    });
  };
  pass("lab", "A whole cluster on this machine, in network namespaces", "mare-lab");
  pass("image", "What VMs boot: build, list, show, delete", "mare-image");

  CLI::App* version =
      app.add_subcommand("version", "Of this program and of mared")->group("This machine");
  version->footer("Example: mare version");
  version->callback([&action] { action = print_version; });
}

}  // namespace mare::cli
