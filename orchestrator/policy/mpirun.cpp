#include "orchestrator/policy/mpirun.h"

namespace mare::policy {

std::vector<std::string> mpirun_command(const std::vector<Ipv4Address>& guests,
                                        const std::vector<std::string>& program,
                                        const std::vector<std::string>& environment) {
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
  for (const auto& variable : environment) {
    command.emplace_back("-x");
    command.push_back(variable);
  }
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

}  // namespace mare::policy
