// mare job checkpoint, checkpoints, restart; and the options of submit that ask for checkpoints.
#include "ui/cli/checkpoint_commands.h"

#include "ui/cli/app.h"
#include "ui/cli/views.h"
#include "ui/cli/waiting.h"

namespace mare::cli {
namespace {

constexpr const char* kOptimal = "optimal";

int take_checkpoint(Session& session, const std::string& id) {
  auto operation = session.post(api({"jobs", id}) + ":checkpoint");
  if (!operation) return session.fail(operation.error());
  Follow follow;
  follow.done = "a checkpoint of " + id + " is complete";
  follow.on_success = [](Session& with, const Json& ended) {
    with.say(printable(text(ended, "reason")));
  };
  return finish(session, *operation, follow);
}

int list_checkpoints(Session& session, const std::string& id) {
  auto all = session.list(api({"jobs", id, "checkpoints"}), "");
  if (!all) return session.fail(all.error());
  session.print_list(*all, checkpoint_columns(session.clock().wall_now()));
  return kOk;
}

struct RestartOptions {
  std::string job;
  std::string checkpoint;
  std::vector<std::string> hosts;
  bool eager = false;
};

int restart_job(Session& session, const RestartOptions& options) {
  wire::RestartBody body;
  if (!options.checkpoint.empty()) body.checkpoint = CheckpointId{options.checkpoint};
  for (const auto& host : options.hosts) body.hosts.emplace_back(host);
  body.eager = options.eager;
  auto operation = session.post(api({"jobs", options.job}) + ":restart", wire::to_json(body));
  if (!operation) return session.fail(operation.error());
  Follow follow;
  follow.done = options.job + " runs again";
  follow.on_success = [](Session& with, const Json& ended) {
    with.say(printable(text(ended, "reason")));
  };
  return finish(session, *operation, follow);
}

}  // namespace

void add_checkpoint_options(CLI::App& submit, CheckpointPlan& plan) {
  submit
      .add_option_function<std::string>(
          "--checkpoint-every",
          [&plan](const std::string& written) {
            if (written == kOptimal) {
              plan.rule = CheckpointRule::Optimal;
              return;
            }
            plan.rule = CheckpointRule::Every;
            plan.every = duration_of(written);
          },
          "Save its state so often (60s, 10m), or 'optimal': as costs least")
      ->check([](const std::string& written) {
        return written == kOptimal ? std::string{} : check_duration(written);
      })
      ->type_name("TIME");
  submit.add_option("--checkpoints-kept", plan.keep, "How many; older ones go")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  CLI::Option* announces =
      submit.add_flag("--safe-points", plan.safe_points,
                      "Ranks tell when they are in a collective; a checkpoint begins there");
  submit
      .add_option_function<std::string>(
          "--safe-point-wait",
          [&plan](const std::string& written) { plan.safe_point_wait = duration_of(written); },
          "How long it waits for that at most; else 1s")
      ->check(check_duration)
      ->needs(announces)
      ->type_name("TIME");
  submit
      .add_option_function<std::string>(
          "--checkpoints-max-age",
          [&plan](const std::string& written) { plan.max_age = duration_of(written); },
          "Older ones go (24h), but never the last one; else of any age")
      ->check(check_duration)
      ->type_name("TIME");
  submit
      .add_option_function<std::string>(
          "--checkpoint-mode",
          [&plan](const std::string& name) {
            plan.mode = checkpoint_mode_from(name).value_or(plan.mode);
          },
          "full: each holds all; incremental: what differs from the last one")
      ->check(CLI::IsMember({"full", "incremental"}))
      ->default_str("incremental");
  submit
      .add_option("--checkpoint-chain", plan.chain,
                  "So many incremental ones on a full one at most")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  submit.add_flag("--checkpoint-partner", plan.partner,
                  "Keep the newest checkpoint in the memory of partner hosts as well: a restart "
                  "there begins at once");
}

void add_checkpoint_commands(CLI::App& job, Action& action) {
  auto id = std::make_shared<std::string>();
  const auto named = [&](const char* verb, const char* help, const char* example, auto act) {
    CLI::App* command = job.add_subcommand(verb, help);
    command->add_option("job", *id, "Which")->required()->type_name("JOB");
    command->footer(std::string("Example: ") + example);
    command->callback(
        [&action, id, act] { action = [id, act](Session& session) { return act(session, *id); }; });
  };
  named("checkpoint", "Save the state of a running job", "mare job checkpoint job-1",
        take_checkpoint);
  named("checkpoints", "Its checkpoints, newest first", "mare job checkpoints job-1 -o wide",
        list_checkpoints);

  auto options = std::make_shared<RestartOptions>();
  CLI::App* restart =
      job.add_subcommand("restart", "Put a job back to a checkpoint, also one that has ended");
  restart->add_option("job", options->job, "Which")->required()->type_name("JOB");
  restart->add_option("--checkpoint", options->checkpoint, "Else the newest")->type_name("ID");
  restart->add_option("--hosts", options->hosts, "Only there; else where its pool may be")
      ->delimiter(',')
      ->type_name("HOST,...");
  restart->add_flag("--eager", options->eager,
                    "Read all memory from the files first, though a partner host may have it");
  restart->footer(
      "What the job did since is undone; files that it wrote stay as they are.\n"
      "On hosts that have it in their memory it goes on at once, unless --eager.\n"
      "Example: mare job restart job-1 --checkpoint ck-3 --hosts h2,h3");
  restart->callback([&action, options] {
    action = [options](Session& session) { return restart_job(session, *options); };
  });
}

}  // namespace mare::cli
