#include "orchestrator/engine/autoscaling.h"
#include "orchestrator/engine/layout_plan.h"
#include "orchestrator/engine/plan.h"

namespace mare::engine {
namespace {

constexpr int kMostHosts = 1'000'000;
constexpr double kMostRemaining_s = 1e9;

/// Its VMs can only be moved to somewhere better while they are there.
Status check_running(const store::Reader& reader, const JobId& id) {
  auto job = reader.job(id);
  if (!job) return job.error();
  if (job->state == JobState::Running) return ok_status();
  return make_error(Code::FailedPrecondition,
                    "job '" + id.value + "' is " + std::string(to_string(job->state)),
                    is_final(job->state) ? "it must be running" : "ask again when it runs");
}

Status check(const LayoutWish& wish) {
  if (wish.hosts < 0 || wish.hosts > kMostHosts) {
    return field_error("hosts", "a job can't be put on " + std::to_string(wish.hosts) + " hosts",
                       "give at least 1, or leave it out");
  }
  if (!wish.remaining) return ok_status();
  if (wish.remaining->count() > 0 && wish.remaining->count() <= kMostRemaining_s) {
    return ok_status();
  }
  return field_error("remaining_s", "a job can't run for this long",
                     "give more than 0, or leave it out");
}

Result<Operation> accept(store::Transaction& tx, Context& context, OperationKind kind,
                         const JobId& job, const LayoutWish& wish,
                         const std::optional<OperationId>& parent) {
  if (auto running = check_running(tx, job); !running) return running.error();
  if (auto good = check(wish); !good) return good.error();
  Operation draft;
  draft.kind = kind;
  draft.target = job.value;
  draft.parent = parent;
  draft.request = text_of(wish);
  return insert_operation(tx, context.ports.clock, draft);
}

}  // namespace

Result<Operation> plan(store::Transaction& tx, Context& context, const JobSubmitRequest& request) {
  auto pool = tx.pool(request.pool);
  if (!pool) {
    Error error = pool.error();
    if (error.code == Code::NotFound) error.field = "pool";
    return error;
  }
  if (request.command.empty() || request.command.front().empty()) {
    return field_error("command", "there is no program to run",
                       "give the program and its arguments");
  }
  std::size_t length = 0;
  for (const auto& word : request.command) length += word.size() + 1;
  for (const auto& word : request.environment) length += word.size() + 1;
  if (length > 32768) {
    return field_error(
        "command",
        "command and environment have " + std::to_string(length) + " bytes, 32768 is the limit",
        "put long input into a file under /jobs");
  }
  for (const auto& variable : request.environment) {
    const auto equals = variable.find('=');
    if (equals != std::string::npos && equals > 0) continue;
    return field_error("environment", "'" + variable + "' is not NAME=VALUE",
                       "write it as NAME=VALUE");
  }
  if (request.ranks < 1) {
    return field_error("ranks", std::to_string(request.ranks) + " ranks can't run",
                       "give at least 1");
  }
  auto most = size_for_jobs(tx, *pool);
  if (!most) return most.error();
  if (request.ranks > *most) {
    return field_error(
        "ranks",
        "the job has " + std::to_string(request.ranks) + " ranks, pool '" + pool->id.value +
            "' has " + std::to_string(*most) + " VMs and a rank takes one",
        "give at most " + std::to_string(*most) + ", make the pool larger ('mare pool scale " +
            pool->id.value + " N'), or use another");
  }
  if (auto good = check(request.checkpoints); !good) return good.error();
  auto holder = tx.unfinished("pool", request.pool.value);
  if (!holder) return holder.error();
  if (*holder && (*holder)->kind == OperationKind::PoolDelete) {
    return make_error(
        Code::Conflict,
        "pool '" + request.pool.value + "' is being deleted by " + (*holder)->id.value,
        "use another pool");
  }
  auto number = tx.next_number("job");
  if (!number) return number.error();
  Job job;
  job.id = JobId{"job-" + std::to_string(*number)};
  const auto& program = request.command.front();
  job.name = request.name.empty() ? program.substr(program.rfind('/') + 1) : request.name;
  job.pool = request.pool;
  job.command = request.command;
  job.environment = request.environment;
  job.ranks = request.ranks;
  job.checkpoints = request.checkpoints;
  job.tightness = request.tightness;
  job.created = context.ports.clock.wall_now();
  if (auto done = put_job(tx, context.ports.clock, job); !done) return done.error();
  Operation draft;
  draft.kind = OperationKind::JobRun;
  draft.target = job.id.value;
  return insert_operation(tx, context.ports.clock, draft);
}

Result<Operation> plan(store::Transaction& tx, Context& context,
                       const LayoutForecastRequest& request,
                       const std::optional<OperationId>& parent) {
  return accept(tx, context, OperationKind::PlanLayout, request.job, request.wish, parent);
}

Result<Operation> plan(store::Transaction& tx, Context& context,
                       const LayoutChangeRequest& request) {
  return accept(tx, context, OperationKind::LayoutChange, request.job, request.wish, {});
}

}  // namespace mare::engine
