// The contract on libvirt, straight: two drivers in this process, each at one lab host's libvirtd.
// And what is libvirt's own and no part of the port's text.
#include <libvirt/libvirt.h>

#include <atomic>
#include <filesystem>
#include <map>

#include "hypervisor/libvirt/libvirt_driver.h"
#include "tests/contract/driver_contract.h"
#include "tests/contract/lab.h"
#include "tests/contract/lease_contract.h"

namespace mare::contract {
namespace {

/// Of each host: several tests at once have VMs there.
constexpr Bytes kHostMemory = mebibytes(2048);

/// Counts instead of sending: netarp has tests of its own.
class CountingAnnouncer final : public Announcer {
 public:
  explicit CountingAnnouncer(Clock& clock) : clock_(clock) {}
  Result<WallTime> announce(const MacAddress& mac, Ipv4Address) override {
    const std::lock_guard lock(mutex_);
    ++sent_[mac];
    return clock_.wall_now();
  }
  Status announce_once(const MacAddress&, Ipv4Address) override { return ok_status(); }
  int frames_sent(const MacAddress& mac) const override {
    const std::lock_guard lock(mutex_);
    const auto known = sent_.find(mac);
    return known == sent_.end() ? 0 : known->second;
  }

 private:
  Clock& clock_;
  mutable std::mutex mutex_;
  std::map<MacAddress, int> sent_;
};

class LibvirtHosts : public LabHosts {
 public:
  using LabHosts::LabHosts;
  ~LibvirtHosts() override {
    drivers_ = {};
    std::error_code ignored;
    std::filesystem::remove_all(memory_of_templates(), ignored);
  }

  Status open() {
    for (const int host : {0, 1}) {
      if (auto opened = open(host); !opened) return opened;
    }
    return ok_status();
  }
  Driver& driver(int host) override { return *drivers_.at(static_cast<std::size_t>(host)); }
  void restart_agent(int host) override {
    drivers_.at(static_cast<std::size_t>(host)).reset();
    ASSERT_TRUE(is_ok(open(host)));
  }
  std::string uri_of(int index) const {
    return "qemu+unix:///system?socket=" + host(index).libvirt_socket;
  }

 protected:
  std::string state_of(int index) const override { return (files() / host(index).name).string(); }

 private:
  std::string memory_of_templates() const {
    return "/dev/shm/mare-contract-" + files().filename().string();
  }
  Status open(int index) {
    libvirt::LibvirtOptions options;
    options.host_name = host(index).name;
    options.uri = uri_of(index);
    options.migration_address = host(index).address;
    options.memory = kHostMemory;
    options.state_dir = state_of(index);
    options.dirty_log_library = MARE_DIRTY_LOG_LIBRARY;
    options.watched_names = names();  // other tests have VMs on the same libvirtd
    options.watchdog = MARE_WATCHDOG;
    options.deadman_library = MARE_DEADMAN_LIBRARY;
    options.deadman_file = memory_of_templates() + "/" + options.host_name + ".deadman";
    options.emulator = MARE_EMULATOR;
    options.template_memory = memory_of_templates() + "/" + options.host_name;
    options.standby_memory = options.template_memory + "-standbys";
    auto& announcer = announcers_.at(static_cast<std::size_t>(index));
    announcer = std::make_unique<CountingAnnouncer>(clock());
    auto made = libvirt::make_driver(options, *announcer, clock(), log());
    if (!made) return made.error();
    drivers_.at(static_cast<std::size_t>(index)) = std::move(*made);
    return ok_status();
  }

  std::array<std::unique_ptr<CountingAnnouncer>, 2> announcers_;
  std::array<std::unique_ptr<Driver>, 2> drivers_;
};

Result<std::unique_ptr<LibvirtHosts>> make_hosts() {
  auto lab = find_lab();
  if (!lab) return lab.error();
  auto kernel = find_kernel(*lab);
  if (!kernel) return kernel.error();
  auto hosts = std::make_unique<LibvirtHosts>(*lab, *kernel);
  if (auto opened = hosts->open(); !opened) return opened.error();
  return hosts;
}

Result<std::unique_ptr<Hosts>> make_libvirt_hosts() {
  auto hosts = make_hosts();
  if (!hosts) return hosts.error();
  return std::unique_ptr<Hosts>(std::move(*hosts));
}

INSTANTIATE_TEST_SUITE_P(Libvirt, DriverContract,
                         testing::Values(Backend{"libvirt", make_libvirt_hosts}), backend_name);
INSTANTIATE_TEST_SUITE_P(LibvirtOnly, HostLeases,
                         testing::Values(Backend{"libvirt", make_libvirt_hosts}), backend_name);

/// A VM made by somebody else, behind the driver's back.
class ForeignDomain {
 public:
  ForeignDomain(const std::string& uri, const std::string& name) {
    connection_ = virConnectOpen(uri.c_str());
    const std::string xml = "<domain type='qemu'><name>" + name +
                            "</name><memory unit='MiB'>32</memory><os><type "
                            "arch='x86_64' machine='q35'>hvm</type></os></domain>";
    if (connection_ != nullptr) {
      domain_ = virDomainCreateXML(connection_, xml.c_str(), VIR_DOMAIN_START_PAUSED);
    }
  }
  ~ForeignDomain() {
    if (domain_ != nullptr) {
      virDomainDestroy(domain_);
      virDomainFree(domain_);
    }
    if (connection_ != nullptr) virConnectClose(connection_);
  }
  ForeignDomain(const ForeignDomain&) = delete;
  ForeignDomain& operator=(const ForeignDomain&) = delete;
  bool lives() const { return domain_ != nullptr && virDomainIsActive(domain_) == 1; }

 private:
  virConnectPtr connection_ = nullptr;
  virDomainPtr domain_ = nullptr;
};

class LibvirtOnly : public testing::Test {
 protected:
  void SetUp() override {
    auto made = make_hosts();
    if (!made && made.error().code == Code::Unsupported) GTEST_SKIP() << made.error().text();
    ASSERT_TRUE(is_ok(made));
    hosts_ = std::move(*made);
  }
  std::unique_ptr<LibvirtHosts> hosts_;
};

TEST_F(LibvirtOnly, ForeignVmsAreNeitherListedNorTouched) {
  const VmSpec made = hosts_->vm({});
  const ForeignDomain foreign(hosts_->uri_of(0), made.id.value);
  ASSERT_TRUE(foreign.lives());
  auto all = hosts_->driver(0).list();
  ASSERT_TRUE(is_ok(all));
  for (const auto& seen : *all) EXPECT_NE(seen.key.id, made.id);
  EXPECT_TRUE(fails_with(hosts_->driver(0).start(made), Code::AlreadyExists));
  EXPECT_TRUE(fails_with(hosts_->driver(0).prepare_incoming(
                             {OperationId{"op-1"}, made, std::nullopt, std::nullopt, {}}),
                         Code::AlreadyExists));
  EXPECT_TRUE(is_ok(hosts_->driver(0).destroy(made.key())));
  EXPECT_TRUE(foreign.lives());
}

TEST_F(LibvirtOnly, MemoryPromisedToAnArrivalIsNotGivenAway) {
  VmSpec first = hosts_->vm({});
  VmSpec second = hosts_->vm({});
  first.memory = second.memory = Bytes{kHostMemory.count / 2};
  Driver& driver = hosts_->driver(0);
  const OperationId operation{"op-1"};
  ASSERT_TRUE(is_ok(driver.prepare_incoming({operation, first, std::nullopt, std::nullopt, {}})));
  EXPECT_TRUE(fails_with(driver.start(second), Code::ResourceExhausted));
  ASSERT_TRUE(is_ok(driver.discard_incoming(first.key())));
  EXPECT_TRUE(is_ok(driver.start(second)));
  EXPECT_TRUE(is_ok(driver.destroy(second.key())));
}

TEST_F(LibvirtOnly, AnImageThatIsNotHereIsNamed) {
  VmSpec made = hosts_->vm({});
  made.kernel = "/none/vmlinuz";
  auto started = hosts_->driver(0).start(made);
  ASSERT_TRUE(fails_with(started, Code::FailedPrecondition));
  EXPECT_NE(started.error().message.find("/none/vmlinuz"), std::string::npos);
}

}  // namespace
}  // namespace mare::contract
