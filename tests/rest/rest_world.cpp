#include "tests/rest/rest_world.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>

#include "hypervisor/sim/sim_cluster.h"
#include "orchestrator/daemon/prometheus.h"

namespace mare::test {
namespace {

std::string scratch_directory() {
  std::string name = (std::filesystem::temp_directory_path() / "mare-rest-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no scratch directory " << name;
  return name;
}

engine::Settings quick_settings(const std::string& directory) {
  engine::Settings settings;
  settings.vm_subnet = *Ipv4Subnet::parse("10.77.1.0/24");
  settings.nfs_server = "10.77.0.1";
  settings.jobs_directory = directory + "/jobs";
  settings.poll = Milliseconds{20};
  settings.job_poll = Milliseconds{20};
  settings.heartbeat = Milliseconds{100};
  return settings;
}

}  // namespace

Result<std::shared_ptr<Driver>> SimDrivers::driver(const HostId& host, const std::string& address) {
  (void)host;
  auto made = registry.driver(address);
  if (!made) return made.error();
  return std::shared_ptr<Driver>(std::move(*made));
}

Result<engine::ImageFacts> FixedImages::find(const std::string& name, const std::string& version) {
  if ((name != "base" && name != "other") || (!version.empty() && version != "1")) {
    return make_error(Code::NotFound, "there is no image '" + name + "'",
                      "build it with 'mare image build'");
  }
  engine::ImageFacts facts;
  facts.name = name;
  facts.version = "1";
  facts.kernel = "/images/vmlinuz";
  facts.initrd = "/images/initrd.img";
  facts.root = "/images/root";
  facts.min_memory = mebibytes(128);
  facts.size_bytes = 1000;
  facts.created = WallTime{1'700'000'000'000'000};
  facts.packages = {"openmpi-bin"};
  return facts;
}

Result<std::vector<engine::ImageFacts>> FixedImages::list() {
  return std::vector<engine::ImageFacts>{*find("base", ""), *find("other", "")};
}

RestWorld::RestWorld(rest::RestOptions options)
    : log(clock, LogLevel::Error),
      directory(scratch_directory()),
      drivers(clock, rng),
      guests(drivers.registry.cluster()) {
  sim::VmModel model;
  model.boot = Seconds{0.1};
  model.shutdown = Seconds{0.05};
  drivers.registry.cluster().set_vm_model(model);
  std::filesystem::create_directories(directory + "/jobs");
  auto opened = store::Store::open(directory + "/mare.db");
  if (!opened) ADD_FAILURE() << opened.error().text();
  store = std::move(*opened);
  pool = std::make_unique<daemon::ThreadPool>(8, 3, 2);
  engine = std::make_unique<engine::Engine>(
      engine::Ports{
          *store, drivers, guests, images, *pool, clock, rng, log, policy::forecast,
          [this](const PrometheusQuery& query) { return daemon::ask_prometheus(query, clock); }},
      quick_settings(directory));
  if (auto done = engine->recover(); !done) ADD_FAILURE() << done.error().text();
  options.listen = Endpoint{"127.0.0.1", 0};
  options.token = kToken;
  auto started = rest::RestServer::start(options, *engine, *store, images, clock, log);
  if (!started) ADD_FAILURE() << started.error().text();
  server = std::move(*started);
  engine_thread_ = std::thread([this] { engine->run(); });
  // Its thread may not have had a CPU yet; until then the server says that it is not ready.
  for (int i = 0; i < 2000 && !engine->ready(); ++i) clock.sleep_for(std::chrono::milliseconds{5});
  if (auto ready = engine->ready(); !ready) ADD_FAILURE() << ready.error().text();
}

RestWorld::~RestWorld() {
  server->stop();
  engine->stop();
  engine_thread_.join();
  pool.reset();
  engine.reset();
  store.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
}

int RestWorld::port() const {
  const std::string url = server->url();
  return std::stoi(url.substr(url.rfind(':') + 1));
}

Got RestWorld::call(const std::string& method, const std::string& path) const {
  Sending sending;
  sending.method = method;
  sending.url = url(path);
  sending.headers = token_header();
  sending.with_body = method == "POST";
  return send(sending);
}

Got RestWorld::post(const std::string& path, const std::string& body) const {
  return with_json("POST", path, body);
}

Got RestWorld::put(const std::string& path, const std::string& body) const {
  return with_json("PUT", path, body);
}
Got RestWorld::patch(const std::string& path, const std::string& body) const {
  return with_json("PATCH", path, body);
}

Got RestWorld::with_json(const char* method, const std::string& path,
                         const std::string& body) const {
  Sending sending;
  sending.method = method;
  sending.url = url(path);
  sending.headers = token_header();
  sending.headers.emplace_back("Content-Type: application/json");
  sending.body = body;
  sending.with_body = true;
  return send(sending);
}

std::unique_ptr<Follow> RestWorld::follow(const std::string& path,
                                          std::vector<std::string> more_headers) const {
  auto headers = token_header();
  for (auto& header : more_headers) headers.push_back(std::move(header));
  return std::make_unique<Follow>(url(path), std::move(headers));
}

wire::Json RestWorld::finish(const Got& accepted, const std::string& outcome) const {
  EXPECT_EQ(accepted.status, 202) << accepted.body;
  if (accepted.status != 202) return {};
  const std::string location = accepted.header("location");
  EXPECT_EQ(location, "/api/v1/operations/" + accepted.json()["id"].get<std::string>());
  wire::Json operation = get(location + "?wait=60s").json();
  EXPECT_EQ(operation["outcome"], outcome) << operation.dump(1);
  return operation;
}

void RestWorld::add_hosts(int count) {
  for (int i = 1; i <= count; ++i) {
    const std::string name = "h" + std::to_string(i);
    finish(post("/api/v1/hosts",
                R"({"id":")" + name + R"(","address":"sim:///)" + name + R"(?memory_mib=2048"})"));
  }
}

void RestWorld::add_pool(const std::string& id, int size) {
  finish(post("/api/v1/pools", R"({"id":")" + id + R"(","size":)" + std::to_string(size) + "}"));
}

}  // namespace mare::test
