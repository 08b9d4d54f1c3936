// Starting VMs as clones, and having hosts make what clones are made of.
//
// A template is wanted when a VM had to boot for want of one, and is made once that VM runs: a boot
// beside it would delay both. What is wanted is kept in memory only; the next VM that boots wants
// it again. The engine's thread only, but for start_warm().
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "orchestrator/engine/context.h"
#include "orchestrator/engine/spec.h"

namespace mare::engine {

/// How a VM came to run, or why it did not.
struct WarmStart {
  Status done;
  bool cloned = false;
  bool no_template = false;  // it was booted, and a template would have helped
  std::string why_booted;
  explicit WarmStart(Status status) : done(std::move(status)) {}
  explicit WarmStart(const Error& error) : done(error) {}
};

/// As a clone where that is possible, else by a boot. Idempotent as start() is. On any thread.
WarmStart start_warm(Driver& driver, const StartSpec& spec);
WarmStart start_cold(Driver& driver, const StartSpec& spec, const std::string& why);

class Templates : public std::enable_shared_from_this<Templates> {
 public:
  explicit Templates(Context& context) : context_(context) {}

  /// Has the host make one, unless it is being asked for it already.
  void want(const HostId& host, const TemplateSpec& what);
  /// A clone of it did not come up: for as long as this process runs, VMs boot there instead.
  void distrust(const HostId& host, const TemplateSpec& what, const std::string& why);
  bool trusts(const HostId& host, const TemplateSpec& what) const;

 private:
  struct Wanted {
    TemplateSpec what;
    int attempts = 0;  // that came to nothing: no memory, no answer
  };
  void ask(const HostId& host);
  void answered(const HostId& host, const Result<TemplateStatus>& status);
  void next(const HostId& host);
  void tell(const HostId& host, const std::string& phase, const std::string& why);

  Context& context_;
  std::map<HostId, std::deque<TemplateSpec>> distrusted_;
  std::map<HostId, std::deque<Wanted>> wanted_;  // the first of each is being made
};

}  // namespace mare::engine
