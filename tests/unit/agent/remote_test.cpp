// Both ends over loopback with mutual TLS: every method, every field, every refusal.
#include "hypervisor/remote/remote_driver.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "agent.grpc.pb.h"
#include "hypervisor/agent/convert.h"
#include "hypervisor/agent/server.h"
#include "tests/unit/agent/fake_driver.h"
#include "tests/unit/agent/pki.h"
#include "tests/unit/agent/samples.h"

namespace mare::agent::test {
namespace {

class Remote : public ::testing::Test {
 protected:
  void SetUp() override {
    // Made before the clock is read: else it may not be valid yet.
    const auto paths = pki().issue("h1");
    auto tls = load_tls(paths, "h1", clock_.wall_now());
    ASSERT_TRUE(tls.ok()) << tls.error().text();
    ServerOptions options;
    options.listen = {"127.0.0.1", 0};
    options.tls = *tls;
    auto server = start_server(options, fake_, log_);
    ASSERT_TRUE(server.ok()) << server.error().text();
    server_ = std::move(*server);
    driver_ = connect("h1", "controller");
  }

  std::unique_ptr<Driver> connect(const std::string& host, const std::string& as) {
    const auto paths = pki().issue(as);
    remote::RemoteOptions options;
    options.name = host;
    options.address = address();
    options.ca = paths.ca;
    options.certificate = paths.certificate;
    options.key = paths.key;
    auto driver = remote::make_remote_driver(options, clock_, log_);
    EXPECT_TRUE(driver.ok()) << driver.error().text();
    return driver ? std::move(*driver) : nullptr;
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(server_->port()); }

  /// A call by a client that is not ours, with whatever certificate.
  grpc::Status intrude(const grpc::SslCredentialsOptions& with) {
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride("h1");
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    auto stub = pb::Agent::NewStub(
        grpc::CreateCustomChannel(address(), grpc::SslCredentials(with), arguments));
    grpc::ClientContext context;
    pb::Empty reply;
    return stub->Destroy(&context, to_wire(full_key()), &reply);
  }

  SystemClock clock_;
  Log log_{clock_, LogLevel::Error};
  FakeDriver fake_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Driver> driver_;
};

TEST_F(Remote, EveryReadingCall) {
  fake_.facts_answer = full_facts();
  fake_.observe_answer = full_observation();
  fake_.list_answer = {full_observation(), full_observation(), VmObservation{}};
  fake_.statistics_answer = full_statistics();
  fake_.outgoing_answer = full_outgoing();
  fake_.arrival_answer = full_arrival();

  auto facts = driver_->facts();
  ASSERT_TRUE(facts.ok()) << facts.error().text();
  EXPECT_TRUE(same(*facts, full_facts()));
  auto list = driver_->list();
  ASSERT_TRUE(list.ok()) << list.error().text();
  ASSERT_EQ(list->size(), 3U);
  EXPECT_TRUE(same((*list)[1], full_observation()));
  EXPECT_TRUE(same((*list)[2], VmObservation{}));
  auto seen = driver_->observe(full_key());
  ASSERT_TRUE(seen.ok()) << seen.error().text();
  EXPECT_TRUE(same(*seen, full_observation()));
  EXPECT_TRUE(same(fake_.key, full_key()));
  auto statistics = driver_->statistics(full_key());
  ASSERT_TRUE(statistics.ok()) << statistics.error().text();
  EXPECT_TRUE(same(*statistics, full_statistics()));
  auto outgoing = driver_->outgoing(full_key());
  ASSERT_TRUE(outgoing.ok()) << outgoing.error().text();
  EXPECT_TRUE(same(*outgoing, full_outgoing()));
  auto arrival = driver_->arrival(full_key());
  ASSERT_TRUE(arrival.ok()) << arrival.error().text();
  EXPECT_TRUE(same(*arrival, full_arrival()));
  EXPECT_EQ(fake_.take_calls(), (std::vector<std::string>{"facts", "list", "observe", "statistics",
                                                          "outgoing", "arrival"}));
}

TEST_F(Remote, WhatAForecastNeeds) {
  fake_.profile_answer = full_profile();
  fake_.link_answer = full_link();
  fake_.endpoint_answer = {"mare-link://10.77.0.12:4000/word"};
  auto profile = driver_->memory_profile(full_key());
  ASSERT_TRUE(profile.ok()) << profile.error().text();
  EXPECT_TRUE(same(*profile, full_profile()));
  EXPECT_TRUE(same(fake_.key, full_key()));
  auto wait = driver_->look_anew(full_key());
  ASSERT_TRUE(wait.ok()) << wait.error().text();
  EXPECT_EQ(*wait, Milliseconds{1050});
  auto sink = driver_->open_link_sink();
  ASSERT_TRUE(sink.ok()) << sink.error().text();
  EXPECT_EQ(sink->uri, fake_.endpoint_answer.uri);
  auto link = driver_->measure_link({"mare-link://10.77.0.13:4001/other"});
  ASSERT_TRUE(link.ok()) << link.error().text();
  EXPECT_TRUE(same(*link, full_link()));
  EXPECT_EQ(fake_.endpoint.uri, "mare-link://10.77.0.13:4001/other");
  EXPECT_EQ(fake_.take_calls(), (std::vector<std::string>{"memory_profile", "look_anew",
                                                          "open_link_sink", "measure_link"}));
}

TEST_F(Remote, WhatACheckpointNeeds) {
  fake_.capture_answer = full_capture();
  fake_.load_answer = full_load();
  const CheckpointId id{"ck-8"};
  const auto ready = driver_->prepare_capture(full_capture_ticket());
  ASSERT_TRUE(ready.ok()) << ready.error().text();
  EXPECT_TRUE(same(*ready, full_capture()));
  EXPECT_TRUE(same(fake_.capture_ticket, full_capture_ticket()));
  fake_.capture_ticket = {};
  const auto begun = driver_->begin_capture(full_capture_ticket());
  ASSERT_TRUE(begun.ok()) << begun.error().text();
  EXPECT_TRUE(same(*begun, full_capture()));
  EXPECT_TRUE(same(fake_.capture_ticket, full_capture_ticket()));
  const auto status = driver_->capture(full_key());
  ASSERT_TRUE(status.ok()) << status.error().text();
  EXPECT_TRUE(same(*status, full_capture()));
  const auto released = driver_->release_capture(full_key(), id);
  ASSERT_TRUE(released.ok()) << released.error().text();
  EXPECT_TRUE(same(*released, full_capture()));
  EXPECT_EQ(fake_.checkpoint, id);
  fake_.key = {};
  fake_.checkpoint = {};
  EXPECT_TRUE(driver_->drop_capture(full_key(), id, "/store/x").ok());
  EXPECT_TRUE(same(fake_.key, full_key()));
  EXPECT_EQ(fake_.checkpoint, id);
  EXPECT_EQ(fake_.path, "/store/x");
  fake_.checkpoint = {};
  const auto loaded = driver_->load_capture(full_spec(), id, full_part());
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  EXPECT_TRUE(same(*loaded, full_load()));
  EXPECT_TRUE(same(fake_.spec, full_spec()));
  EXPECT_TRUE(same(fake_.part, full_part()));
  EXPECT_EQ(fake_.checkpoint, id);
  fake_.part = {};
  const auto merged = driver_->merge_capture(full_part(), true);
  ASSERT_TRUE(merged.ok()) << merged.error().text();
  EXPECT_EQ(merged->count, 91U);
  EXPECT_TRUE(same(fake_.part, full_part()));
  EXPECT_TRUE(fake_.flag);
  EXPECT_EQ(
      fake_.take_calls(),
      (std::vector<std::string>{"prepare_capture", "begin_capture", "capture", "release_capture",
                                "drop_capture", "load_capture", "merge_capture"}));
}

TEST_F(Remote, WhatIsKeptInMemory) {
  const StandbyAnswer refused{VmId{"demo-5"}, false, Bytes{}, "no room"};
  fake_.standby_answer = {full_standby(), refused};
  const auto kept = driver_->keep_standby({full_part(), CheckpointPart{}});
  ASSERT_TRUE(kept.ok()) << kept.error().text();
  ASSERT_EQ(kept->size(), 2U);
  EXPECT_TRUE(same((*kept)[0], full_standby()));
  EXPECT_TRUE(same((*kept)[1], refused));
  ASSERT_EQ(fake_.parts.size(), 2U);
  EXPECT_TRUE(same(fake_.parts[0], full_part()));
  EXPECT_TRUE(same(fake_.parts[1], CheckpointPart{}));
  fake_.standby_answer.clear();
  const auto none = driver_->keep_standby({});
  ASSERT_TRUE(none.ok()) << none.error().text();
  EXPECT_TRUE(none->empty());
  EXPECT_TRUE(fake_.parts.empty());
  fake_.error = Error{Code::Unsupported, "QEMU is too old \xff", "", "install a newer one"};
  const auto error = driver_->keep_standby({full_part()}).error();
  EXPECT_EQ(error.code, Code::Unsupported);
  EXPECT_EQ(error.message, fake_.error->message);
  EXPECT_EQ(error.remedy, "install a newer one");
  EXPECT_EQ(fake_.take_calls(), (std::vector<std::string>(3, "keep_standby")));
}

TEST_F(Remote, ACallThatAnOlderAgentDoesNotKnowIsUnsupported) {
  pb::Agent::Service older;  // knows none
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&older);
  const auto server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  remote::RemoteOptions options;
  options.name = "h1";
  options.address = "127.0.0.1:" + std::to_string(port);
  options.insecure = true;
  auto driver = remote::make_remote_driver(options, clock_, log_);
  ASSERT_TRUE(driver.ok()) << driver.error().text();
  for (const Error& error : {(*driver)->keep_standby({full_part()}).error(),
                             (*driver)->prepare_capture(full_capture_ticket()).error()}) {
    EXPECT_EQ(error.code, Code::Unsupported) << error.text();
    EXPECT_NE(error.message.find("does not know this call"), std::string::npos) << error.text();
  }
}

TEST_F(Remote, WhatALeaseNeeds) {
  fake_.lease_answer = full_lease_answer();
  const auto answer = driver_->renew_lease(full_lease_ticket());
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_TRUE(same(*answer, full_lease_answer()));
  EXPECT_TRUE(same(fake_.lease_ticket, full_lease_ticket()));
  EXPECT_TRUE(driver_->put_fence_note("/ck/fenced/h1-1-1").ok());
  EXPECT_EQ(fake_.path, "/ck/fenced/h1-1-1");
  EXPECT_TRUE(driver_->remove_fence_note("/ck/fenced/h1-1-2").ok());
  EXPECT_EQ(fake_.path, "/ck/fenced/h1-1-2");
  EXPECT_EQ(fake_.take_calls(),
            (std::vector<std::string>{"renew_lease", "put_fence_note", "remove_fence_note"}));
}

TEST_F(Remote, EveryCallWithAKey) {
  using Method = Status (Driver::*)(const VmKey&);
  const std::vector<std::pair<std::string, Method>> methods{
      {"destroy", &Driver::destroy},
      {"pause", &Driver::pause},
      {"resume", &Driver::resume},
      {"cancel_outgoing", &Driver::cancel_outgoing},
      {"release_outgoing", &Driver::release_outgoing},
      {"discard_incoming", &Driver::discard_incoming}};
  for (const auto& [name, method] : methods) {
    fake_.key = {};
    const auto done = (driver_.get()->*method)(full_key());
    EXPECT_TRUE(done.ok()) << name;
    EXPECT_TRUE(same(fake_.key, full_key())) << name;
    EXPECT_EQ(fake_.take_calls(), std::vector<std::string>{name});
  }
  for (const auto how : {LimitAction::Cancel, LimitAction::StopAndCopy, LimitAction::PostCopy}) {
    EXPECT_TRUE(driver_->force_outgoing(full_key(), how).ok());
    EXPECT_EQ(fake_.forced, how);
    EXPECT_EQ(fake_.take_calls(), std::vector<std::string>{"force_outgoing"});
  }
}

TEST_F(Remote, EveryCallWithMore) {
  EXPECT_TRUE(driver_->start(full_spec()).ok());
  EXPECT_TRUE(same(fake_.spec, full_spec()));
  fake_.spec = {};
  EXPECT_TRUE(driver_->start_clone(full_spec(), full_template()).ok());
  EXPECT_TRUE(same(fake_.spec, full_spec()));
  EXPECT_TRUE(same(fake_.template_spec, full_template()));
  fake_.template_spec = {};
  fake_.template_answer = {TemplatePhase::Failed, "no room\xff"};
  auto status = driver_->make_template(full_template());
  ASSERT_TRUE(status.ok()) << status.error().text();
  EXPECT_EQ(status->phase, TemplatePhase::Failed);
  EXPECT_EQ(status->why, "no room\xff");
  EXPECT_TRUE(same(fake_.template_spec, full_template()));
  fake_.spec = {};
  EXPECT_TRUE(driver_->announce(full_spec()).ok());
  EXPECT_TRUE(same(fake_.spec, full_spec()));
  EXPECT_TRUE(driver_->save(full_key(), "/saved/a \xff").ok());
  EXPECT_TRUE(same(fake_.key, full_key()));
  EXPECT_EQ(fake_.path, "/saved/a \xff");
  fake_.spec = {};
  EXPECT_TRUE(driver_->restore(full_spec(), "/saved/b").ok());
  EXPECT_TRUE(same(fake_.spec, full_spec()));
  EXPECT_EQ(fake_.path, "/saved/b");

  fake_.endpoint_answer = {"qemu+tcp://10.77.0.12/system"};
  auto endpoint = driver_->prepare_incoming(full_ticket());
  ASSERT_TRUE(endpoint.ok()) << endpoint.error().text();
  EXPECT_EQ(endpoint->uri, "qemu+tcp://10.77.0.12/system");
  EXPECT_TRUE(same(fake_.ticket, full_ticket()));
  fake_.ticket = {};
  EXPECT_TRUE(driver_->begin_outgoing(full_ticket(), {"tcp:10.77.0.12:49152"}).ok());
  EXPECT_TRUE(same(fake_.ticket, full_ticket()));
  EXPECT_EQ(fake_.endpoint.uri, "tcp:10.77.0.12:49152");
  EXPECT_EQ(fake_.take_calls(),
            (std::vector<std::string>{"start", "start_clone", "make_template", "announce", "save",
                                      "restore", "prepare_incoming", "begin_outgoing"}));
}

TEST_F(Remote, ErrorsTravelWhole) {
  for (int i = 0; i <= static_cast<int>(Code::Internal); ++i) {
    fake_.error = Error{static_cast<Code>(i), "VM 'demo-7': \xff\n no", "memory", "use less"};
    for (const Error& error : {driver_->destroy(full_key()).error(), driver_->facts().error(),
                               driver_->prepare_incoming(full_ticket()).error()}) {
      EXPECT_EQ(error.code, fake_.error->code);
      EXPECT_EQ(error.message, fake_.error->message);
      EXPECT_EQ(error.field, "memory");
      EXPECT_EQ(error.remedy, "use less");
    }
  }
}

TEST_F(Remote, LongErrorsStillArrive) {
  fake_.error = Error{Code::Conflict, std::string(100'000, 'm'), std::string(10'000, 'f'),
                      std::string(10'000, 'r')};
  const auto error = driver_->destroy(full_key()).error();
  EXPECT_EQ(error.code, Code::Conflict) << error.text();
  EXPECT_TRUE(error.message.starts_with("mmm"));
  fake_.error->message = std::string(100'000, '\xff');
  EXPECT_EQ(driver_->destroy(full_key()).error().code, Code::Conflict);
}

TEST_F(Remote, ManyCallsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) good += driver_->pause(full_key()).ok() ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 320);
}

TEST_F(Remote, OnlyTheControllerMayCommand) {
  auto driver = connect("h1", "h2");  // the certificate of another host, same CA
  for (const Error& error : {driver->destroy(full_key()).error(), driver->facts().error()}) {
    EXPECT_EQ(error.code, Code::Unauthenticated) << error.text();
    EXPECT_NE(error.message.find("controller"), std::string::npos) << error.text();
  }
  EXPECT_TRUE(fake_.take_calls().empty());
}

TEST_F(Remote, AnotherHostsCertificateIsRefused) {
  auto driver = connect("h2", "controller");  // expects h2, h1 answers
  const auto error = driver->destroy(full_key()).error();
  EXPECT_EQ(error.code, Code::Unavailable) << error.text();
  EXPECT_NE(error.text().find("'h2'"), std::string::npos);
  EXPECT_TRUE(fake_.take_calls().empty());
}

TEST_F(Remote, IntrudersAreRefused) {
  const std::string ca = read_text(pki().path("main-ca.pem"));
  const auto good = pki().issue("controller");
  const auto forged = pki().issue("controller", "other");
  // The control: the same client with the right files gets through.
  EXPECT_TRUE(intrude({ca, read_text(good.key), read_text(good.certificate)}).ok());
  EXPECT_EQ(fake_.take_calls().size(), 1U);
  EXPECT_FALSE(intrude({ca, "", ""}).ok()) << "no certificate";
  EXPECT_FALSE(intrude({ca, read_text(forged.key), read_text(forged.certificate)}).ok())
      << "a certificate of another CA";
  auto plain =
      pb::Agent::NewStub(grpc::CreateChannel(address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  pb::Empty reply;
  EXPECT_FALSE(plain->Destroy(&context, to_wire(full_key()), &reply).ok()) << "no TLS";
  EXPECT_TRUE(fake_.take_calls().empty());
}

TEST_F(Remote, AServerOfAnotherCaIsRefused) {
  const auto paths = pki().issue("controller", "other");
  remote::RemoteOptions options;
  options.name = "h1";
  options.address = address();
  options.ca = paths.ca;
  options.certificate = paths.certificate;
  options.key = paths.key;
  auto driver = remote::make_remote_driver(options, clock_, log_);
  ASSERT_TRUE(driver.ok()) << driver.error().text();
  EXPECT_EQ((*driver)->destroy(full_key()).error().code, Code::Unavailable);
  EXPECT_TRUE(fake_.take_calls().empty());
}

TEST_F(Remote, BadOptions) {
  remote::RemoteOptions options;
  options.name = "h1";
  options.address = "10.77.0.11";
  EXPECT_EQ(remote::make_remote_driver(options, clock_, log_).error().field, "address");
  options.address = "10.77.0.11:7412";
  options.ca = "/nowhere/ca.pem";
  auto missing = remote::make_remote_driver(options, clock_, log_);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Code::InvalidArgument);
  EXPECT_NE(missing.error().message.find("/nowhere/ca.pem"), std::string::npos);
}

TEST_F(Remote, TakenPortIsNamed) {
  ServerOptions options;
  options.listen = {"127.0.0.1", static_cast<std::uint16_t>(server_->port())};
  auto second = start_server(options, fake_, log_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::Unavailable);
  EXPECT_NE(second.error().message.find("port " + std::to_string(server_->port()) + " is taken"),
            std::string::npos)
      << second.error().text();
  options.listen = {"192.0.2.1", 0};
  auto foreign = start_server(options, fake_, log_);
  ASSERT_FALSE(foreign.ok());
  EXPECT_NE(foreign.error().message.find("192.0.2.1 is not an address of this host"),
            std::string::npos)
      << foreign.error().text();
}

}  // namespace
}  // namespace mare::agent::test
