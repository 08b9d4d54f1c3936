// Jobs and their outputs.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "rest/server/api.h"
#include "rest/wire/checkpoints.h"

namespace mare::rest {
namespace {

constexpr std::uint64_t kMostOutput = 1024 * 1024;  // in one answer; more by asking again

JobId job_id(const Call& call) {
  return JobId{call.captures.at("id")};
}

Result<Job> find_job(const Api& api, const Call& call) {
  return ask<Job>(api.store, [&](const auto& r) { return r.job(job_id(call)); });
}

Response list_jobs(const Api& api, const Call& call) {
  wire::Faults faults;
  QueryReader query(call, faults);
  const auto page = read_page(query);
  const auto pool = query.text("pool");
  const auto state = query.name_of<JobState>(
      "state", job_state_from, "queued, starting, running, succeeded, failed, cancelled");
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  return page_of<Job>(
      call, page, 256,
      [&](std::size_t n) {
        return ask<std::vector<Job>>(api.store, [n](const auto& r) { return r.jobs(n); });
      },
      [&](const Job& job) {
        return (!pool || job.pool.value == *pool) && (!state || job.state == *state);
      },
      [](const Job& job) { return job.id.value; },
      [](const Job& job) { return wire::to_json(job); });
}

Response submit_job(Api& api, const Call& call) {
  wire::JobBody body;
  if (auto refused = read_body(call, body)) return *refused;
  return accepted(call, api.engine.submit(engine::JobSubmitRequest{
                            body.pool, body.name, body.command, body.environment, body.ranks,
                            body.checkpoints, body.tightness}));
}

Response take_checkpoint(Api& api, const Call& call) {
  wire::EmptyBody body;
  if (auto refused = read_body(call, body)) return *refused;
  return accepted(call, api.engine.submit(engine::CheckpointRequest{job_id(call)}));
}

Response restart_job(Api& api, const Call& call) {
  wire::RestartBody body;
  if (auto refused = read_body(call, body)) return *refused;
  return accepted(call, api.engine.submit(engine::RestartRequest{job_id(call), body.checkpoint,
                                                                 body.hosts, body.eager}));
}

Response list_checkpoints(const Api& api, const Call& call) {
  wire::Faults faults;
  QueryReader query(call, faults);
  const auto page = read_page(query);
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  const auto job = find_job(api, call);
  if (!job) return refuse(call, job.error());
  return page_of<Checkpoint>(
      call, page, kAllRows,
      [&](std::size_t) {
        return ask<std::vector<Checkpoint>>(
            api.store, [&](const auto& r) { return r.checkpoints_of(job->id); });
      },
      [](const Checkpoint&) { return true; }, [](const Checkpoint& one) { return one.id.value; },
      [](const Checkpoint& one) { return wire::to_json(one); });
}

Response cancel_job(Api& api, const Call& call) {
  wire::EmptyBody body;
  if (auto refused = read_body(call, body)) return *refused;
  const auto job = find_job(api, call);
  if (!job) return refuse(call, job.error());
  const auto running = ask<std::optional<Operation>>(
      api.store, [&](const auto& r) { return r.unfinished("job", job->id.value); });
  if (!running) return refuse(call, running.error());
  if (!*running) {
    return refuse(call, make_error(Code::FailedPrecondition,
                                   "job '" + job->id.value + "' has ended (" +
                                       std::string(to_string(job->state)) + ")",
                                   "there is nothing left to cancel"));
  }
  return accepted(call, api.engine.cancel((*running)->id));
}

Response lay_out(Api& api, const Call& call, policy::Layout layout) {
  wire::LayoutBody body;
  if (auto refused = read_body(call, body)) return *refused;
  wire::Faults faults;
  const bool dry = dry_run(call, faults);
  if (!faults.empty()) return refuse(call, faults);
  const engine::LayoutWish wish{layout, body.hosts.value_or(0), body.remaining, body.force};
  if (dry)
    return accepted(call, api.engine.submit(engine::LayoutForecastRequest{job_id(call), wish}));
  return accepted(call, api.engine.submit(engine::LayoutChangeRequest{job_id(call), wish}));
}

/// One piece, with where to go on in a header.
Response output_part(const Job& job, const std::string& path, std::uint64_t offset) {
  std::string bytes;
  std::ifstream file(path, std::ios::binary);
  if (file) {
    file.seekg(static_cast<std::streamoff>(offset));
    bytes.resize(kMostOutput);
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  }
  const bool complete = is_final(job.state) && bytes.size() < kMostOutput;
  Response out{200, "text/plain; charset=utf-8", std::move(bytes), {}};
  out.headers.emplace_back("Mare-Next-Offset", std::to_string(offset + out.body.size()));
  out.headers.emplace_back("Mare-Complete", complete ? "true" : "false");
  if (out.body.empty()) out.headers.emplace_back("Content-Type", out.content_type);
  return out;
}

Answer job_output(Api& api, const Call& call, const std::shared_ptr<Exchange>& exchange) {
  wire::Faults faults;
  QueryReader query(call, faults);
  const auto offset = query.natural("offset", 0, 1ULL << 50U).value_or(0);
  const bool follow = query.flag("follow");
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  // The state first: a job that has ended has written everything.
  const auto job = find_job(api, call);
  if (!job) return refuse(call, job.error());
  const std::string path = api.engine.output_file(job->id);
  if (!follow) return output_part(*job, path, offset);
  if (api.followers.add(exchange, OutputFollow{job->id, path, offset})) return Later{};
  return refuse(call, make_error(Code::Unavailable, "too many streams are open",
                                 "end some, or read the output without follow=true"));
}

}  // namespace

void add_job_routes(Router& router, Api& api) {
  add(router, "GET", "/api/v1/jobs", "listJobs",
      [&api](const Call& call) { return list_jobs(api, call); });
  add(router, "POST", "/api/v1/jobs", "submitJob",
      [&api](const Call& call) { return submit_job(api, call); });
  add(router, "GET", "/api/v1/jobs/{id}", "getJob", [&api](const Call& call) {
    if (auto refused = no_parameters(call)) return *refused;
    return entity(call, find_job(api, call));
  });
  add(router, "POST", "/api/v1/jobs/{id}:cancel", "cancelJob",
      [&api](const Call& call) { return cancel_job(api, call); });
  add(router, "POST", "/api/v1/jobs/{id}:checkpoint", "checkpointJob",
      [&api](const Call& call) { return take_checkpoint(api, call); });
  add(router, "POST", "/api/v1/jobs/{id}:restart", "restartJob",
      [&api](const Call& call) { return restart_job(api, call); });
  add(router, "GET", "/api/v1/jobs/{id}/checkpoints", "listCheckpoints",
      [&api](const Call& call) { return list_checkpoints(api, call); });
  add(router, "POST", "/api/v1/jobs/{id}:spread", "spreadJob",
      [&api](const Call& call) { return lay_out(api, call, policy::Layout::Spread); });
  add(router, "POST", "/api/v1/jobs/{id}:pack", "packJob",
      [&api](const Call& call) { return lay_out(api, call, policy::Layout::Pack); });
  router.add({"GET", "/api/v1/jobs/{id}/output", "getJobOutput", false,
              [&api](const Call& call, const std::shared_ptr<Exchange>& exchange) {
                return job_output(api, call, exchange);
              }});
}

}  // namespace mare::rest
