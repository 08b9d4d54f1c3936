#include "orchestrator/policy/mpirun.h"

#include <string_view>

namespace mare::policy {
namespace {

constexpr std::string_view kPreload = "LD_PRELOAD=";
constexpr std::string_view kJob = "MARE_SAFE_POINTS=";
constexpr std::string_view kLibrary = "/usr/local/lib/libmare-safepoint.so";

/// The ranks' alone: mpirun and its daemons are no MPI programs.
std::vector<std::string> announcing(std::vector<std::string> environment, const JobId& job) {
  std::string preload = std::string(kPreload) + std::string(kLibrary);
  // mpirun takes each name once.
  std::erase_if(environment, [&](const std::string& variable) {
    const bool theirs = variable.starts_with(kPreload);
    if (theirs) preload += ":" + variable.substr(kPreload.size());
    return theirs || variable.starts_with(kJob);
  });
  environment.push_back(preload);
  environment.push_back(std::string(kJob) + job.value);
  return environment;
}

}  // namespace

std::vector<std::string> mpirun_command(const std::vector<Ipv4Address>& guests,
                                        const std::vector<std::string>& program,
                                        const std::vector<std::string>& environment,
                                        const JobId& announces) {
  std::string hosts;
  for (const auto& guest : guests) {
    hosts += (hosts.empty() ? "" : ",") + guest.text() + ":1";
  }
  std::vector<std::string> command{
      "mpirun", "--allow-run-as-root", "-np", std::to_string(guests.size()), "--host", hosts,
      "--map-by", "node",
      // Guests have one vCPU mostly; binding it would only cost time at start.
      "--bind-to", "none", "--mca", "plm_rsh_agent", "/usr/local/bin/mare-rsh",
      // With the default launch tree, the VMs start each other's daemons; flat is faster at this
      // size.
      "--mca", "plm_rsh_no_tree_spawn", "1",
      // Named, so that Open MPI does not even look at PSM2: Debian's library for it uses AVX, which
      // the plain emulated CPU lacks, and programs would die of SIGILL at random.
      "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0",
      "--mca", "oob_tcp_if_include", "eth0"};
  for (const auto& variable :
       announces.empty() ? environment : announcing(environment, announces)) {
    command.emplace_back("-x");
    command.push_back(variable);
  }
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

}  // namespace mare::policy
