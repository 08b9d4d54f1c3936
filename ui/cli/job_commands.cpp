#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "rest/wire/bodies.h"
#include "ui/cli/app.h"
#include "ui/cli/checkpoint_commands.h"
#include "ui/cli/layout_commands.h"
#include "ui/cli/terminal.h"
#include "ui/cli/views.h"
#include "ui/cli/waiting.h"

namespace mare::cli {
namespace {

struct JobFilter {
  std::string pool;
  std::string state;
};

int list_jobs(Session& session, const JobFilter& filter) {
  auto jobs = session.list(api({"jobs"}), query({{"pool", filter.pool}, {"state", filter.state}}));
  if (!jobs) return session.fail(jobs.error());
  session.print_list(*jobs, job_columns(session.clock().wall_now()));
  return kOk;
}

int show_job(Session& session, const std::string& id) {
  auto job = session.get(api({"jobs", id}));
  if (!job) return session.fail(job.error());
  session.print_object(*job, job_columns(session.clock().wall_now()));
  return kOk;
}

int cancel_job(Session& session, const std::string& id) {
  auto operation = session.post(api({"jobs", id}) + ":cancel");
  if (!operation) return session.fail(operation.error());
  session.say("asked " + id + " to stop");
  if (session.wants(Output::JsonText)) session.print_json(*operation);
  return kOk;
}

/// The exit code that an ended job stands for.
int code_of_job(const Json& job) {
  if (const auto code = number(job, "exit_code")) return static_cast<int>(*code);
  return text(job, "state") == "succeeded" ? kOk : kFailed;
}

int report_ended(Session& session, const Json& job) {
  if (session.wants(Output::JsonText)) session.print_json(job);
  const std::string state = text(job, "state");
  const std::string reason = printable(text(job, "reason"));
  std::string line = text(job, "id") + " " + state;
  if (const std::string code = text(job, "exit_code"); !code.empty()) line += ", exit code " + code;
  session.say(line + (reason.empty() ? "" : ": " + reason));
  return code_of_job(job);
}

/// Ctrl-C or --timeout: the job goes on unless the user asked for its end.
int stopped_waiting(Session& session, const std::string& id, WaitEnd::How how, bool cancel) {
  if (how == WaitEnd::How::TimedOut) {
    session.say("mare: timed out waiting; " + id + " goes on. Wait again: mare job wait " + id +
                ", cancel: mare job cancel " + id);
    return kTimedOut;
  }
  if (!cancel) {
    session.say("mare: no longer waiting; " + id + " goes on. Wait again: mare job wait " + id +
                ", cancel: mare job cancel " + id);
    return kInterrupted;
  }
  session.interrupt().clear();
  if (const int code = cancel_job(session, id); code != kOk) return code;
  auto end = wait_for_job(session, id);
  if (!end) return session.fail(end.error());
  if (end->how == WaitEnd::How::Ended) report_ended(session, end->last);
  return kInterrupted;
}

int wait_job(Session& session, const std::string& id, bool cancel_on_interrupt) {
  auto end = wait_for_job(session, id);
  if (!end) return session.fail(end.error());
  if (end->how != WaitEnd::How::Ended) {
    return stopped_waiting(session, id, end->how, cancel_on_interrupt);
  }
  return report_ended(session, end->last);
}

/// Copies output to stdout as it is: it is the program's, byte by byte.
bool write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Streams the output from `offset` on; a broken stream is taken up again where it broke.
Status copy_output(Session& session, const std::string& id, std::uint64_t offset, bool follow) {
  auto client = session.client();
  if (!client) return client.error();
  bool disk_full = false;
  constexpr int kMostFailures = 60;  // with a second between: mared is gone, not restarting
  for (int failures = 0;;) {
    const std::string path = api({"jobs", id, "output"}) + "?offset=" + std::to_string(offset) +
                             (follow ? "&follow=true" : "");
    Status ended = (*client)->read(path, [&](std::string_view bytes) {
      failures = 0;
      offset += bytes.size();
      disk_full = !write_all(bytes);
      return !disk_full;
    });
    if (disk_full) {
      return make_error(Code::Internal, "could not write the output of " + id,
                        "is the disk full? The output is kept: mare job output " + id);
    }
    if (ended.ok() || !follow || ended.error().code != Code::Unavailable ||
        ++failures > kMostFailures) {
      return ended;
    }
    if (failures == 1) session.say("mare: the stream broke; following again");
    if (!session.interrupt().wait(Milliseconds{1000})) {
      return make_error(Code::Cancelled, "interrupted");
    }
  }
}

int follow_job(Session& session, const std::string& id, bool cancel_on_interrupt) {
  const Status copied = copy_output(session, id, 0, true);
  if (!copied && copied.error().code == Code::Cancelled) {
    return stopped_waiting(session, id, WaitEnd::How::Interrupted, cancel_on_interrupt);
  }
  if (!copied) return session.fail(copied.error());
  return wait_job(session, id, cancel_on_interrupt);
}

struct SubmitOptions {
  wire::JobBody body;
  bool follow = false;
  bool cancel_on_interrupt = false;
};

int submit_job(Session& session, const SubmitOptions& options) {
  if (options.body.command.empty()) {
    std::fputs("mare: no program given\n  write: mare job submit POOL -n 2 -- PROGRAM ARGUMENTS\n",
               stderr);
    return kUsage;
  }
  auto operation = session.post(api({"jobs"}), wire::to_json(options.body));
  if (!operation) return session.fail(operation.error());
  const std::string id = text(*operation, "target");
  const bool wait = session.globals().wait.value_or(options.follow);
  if (options.follow && wait) {
    session.say(id + " submitted");  // stdout is the program's
    return follow_job(session, id, options.cancel_on_interrupt);
  }
  if (session.wants(Output::JsonText)) {
    if (!wait) return show_job(session, id);
  } else {
    std::printf("%s\n", id.c_str());
    std::fflush(stdout);
  }
  return wait ? wait_job(session, id, options.cancel_on_interrupt) : kOk;
}

void add_submit(CLI::App& job, Action& action, const Trailing& trailing) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* submit = job.add_subcommand("submit", "Run an MPI program, one rank in each VM");
  submit->add_option("pool", options->body.pool.value, "Where")->required()->type_name("POOL");
  submit->add_option("program", options->body.command, "And its arguments; put '--' before them")
      ->type_name("PROGRAM");
  submit->add_option("-n,--ranks", options->body.ranks, "How many")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  submit->add_option("--name", options->body.name, "Else the program's name")->type_name("NAME");
  submit->add_option("-e,--env", options->body.environment, "Set in every rank: NAME=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME=VALUE");
  submit
      ->add_option("--tightness", options->body.tightness,
                   "Share of one rank's stall that the whole job feels: 1 if all wait for the "
                   "slowest, 0 if none does; forecasts of moves go by it")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  add_checkpoint_options(*submit, options->body.checkpoints);
  submit->add_flag("-f,--follow", options->follow, "Show its output as it comes, then its end");
  submit->add_flag("--cancel-on-interrupt", options->cancel_on_interrupt,
                   "Ctrl-C while waiting cancels the job");
  submit->footer(
      "Prints the job's id. With --wait or --follow the exit code is the program's, 128+signal if\n"
      "it was killed.\n"
      "Examples:\n  mare job submit demo -n 3 -- migtest --iterations 100\n"
      "  mare job submit demo -n 2 --follow -e OMP_NUM_THREADS=1 -- heat --steps 500\n"
      "  id=$(mare job submit demo -- matmul); mare migrate demo-0; mare job wait $id");
  submit->callback([&action, &trailing, options] {
    auto& command = options->body.command;
    command.insert(command.end(), trailing.begin(), trailing.end());
    action = [options](Session& session) { return submit_job(session, *options); };
  });
}

void add_output(CLI::App& job, Action& action) {
  struct OutputOptions {
    std::string id;
    std::uint64_t offset = 0;
    bool follow = false;
  };
  auto options = std::make_shared<OutputOptions>();
  CLI::App* output = job.add_subcommand("output", "What it wrote (stdout and stderr)");
  output->add_option("job", options->id, "Which")->required()->type_name("JOB");
  output->add_flag("-f,--follow", options->follow, "Go on until the job ends");
  output->add_option("--offset", options->offset, "From this byte on")->type_name("BYTES");
  output->footer("Example: mare job output -f job-1");
  output->callback([&action, options] {
    action = [options](Session& session) {
      const Status copied = copy_output(session, options->id, options->offset, options->follow);
      return copied ? static_cast<int>(kOk) : session.fail(copied.error());
    };
  });
}

}  // namespace

void add_job_commands(CLI::App& app, Action& action, const Trailing& trailing) {
  CLI::App* job = app.add_subcommand("job", "MPI programs")->group("Work");
  job->require_subcommand(1);
  job->footer(
      "Examples:\n  mare job submit demo -n 3 --follow -- migtest\n"
      "  mare job list\n  mare job output -f job-1\n  mare job cancel job-1");
  add_submit(*job, action, trailing);

  CLI::App* list = job->add_subcommand("list", "Newest first");
  auto filter = std::make_shared<JobFilter>();
  list->add_option("--pool", filter->pool, "Of this pool")->type_name("POOL");
  list->add_option("--state", filter->state, "queued, starting, running, succeeded...")
      ->type_name("STATE");
  list->footer("Example: mare job list --state running -o wide");
  list->callback([&action, filter] {
    action = [filter](Session& session) { return list_jobs(session, *filter); };
  });

  auto id = std::make_shared<std::string>();
  const auto named = [&](const char* verb, const char* help, const char* example, auto act) {
    CLI::App* command = job->add_subcommand(verb, help);
    command->add_option("job", *id, "Which")->required()->type_name("JOB");
    command->footer(std::string("Example: ") + example);
    command->callback(
        [&action, id, act] { action = [id, act](Session& session) { return act(session, *id); }; });
  };
  named("show", "One job", "mare job show job-1", show_job);
  named("cancel", "End one", "mare job cancel job-1", cancel_job);
  add_layout_commands(*job, action);
  add_output(*job, action);
  add_checkpoint_commands(*job, action);
  named(
      "wait", "Wait for its end; exit code as the program's", "mare job wait job-1 --timeout 5m",
      [](Session& session, const std::string& job_id) { return wait_job(session, job_id, false); });
}

}  // namespace mare::cli
