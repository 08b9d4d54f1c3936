// Where a job's output is kept on this machine, and how more of it is fetched. Runs on the
// executor.
#pragma once

#include <string>

#include "hypervisor/guest_port.h"
#include "orchestrator/core/result.h"

namespace mare::engine {

std::string job_output_path(const std::string& jobs_directory, const JobId& job);

/// Appends what the guest has beyond the local file's end, at most about 8 MiB a call; answers the
/// file's new size. The file's size is the only bookmark, so a crash neither loses nor repeats a
/// byte. `anew`: what the local file has is of a life that was undone, it begins with nothing.
Result<std::uint64_t> fetch_output(GuestPort& guests, const GuestAddress& guest,
                                   const GuestRun& run, const std::string& jobs_directory,
                                   bool anew = false);

}  // namespace mare::engine
