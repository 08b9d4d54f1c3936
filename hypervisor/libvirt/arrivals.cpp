#include "hypervisor/libvirt/arrivals.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace mare::libvirt {
namespace {

// No migration takes a day; a file so old is of a VM that came, and ended by itself.
constexpr auto kReportKept = std::chrono::hours{24};

Error can_not(const std::string& what, const std::string& why) {
  return make_error(Code::Unavailable, "cannot " + what + ": " + why,
                    "the agent's --state-dir must be writable and not full");
}

/// Whole or not at all: a kill in the middle must not leave half a file.
Status write_whole(const std::string& path, const std::string& text) {
  const std::string draft = path + ".new";
  {
    std::ofstream out(draft, std::ios::trunc);
    out << text << std::flush;
    if (!out) return can_not("write " + draft, "it can't be written");
  }
  std::error_code failed;
  std::filesystem::rename(draft, path, failed);
  return failed ? Status(can_not("write " + path, failed.message())) : ok_status();
}

}  // namespace

std::string to_text(const Arrival& arrival) {
  return "arrival-1 " + arrival.key.uuid + " " + arrival.key.id.value + " " +
         arrival.operation.value + " " + arrival.mac.text() + " " + arrival.ip.text() + " " +
         std::to_string(arrival.prepared_at.count()) + "\n";
}

std::optional<Arrival> arrival_from(const std::string& text) {
  std::istringstream words(text);
  std::string kind;
  std::string mac;
  std::string ip;
  Arrival out;
  std::int64_t prepared_us = 0;
  words >> kind >> out.key.uuid >> out.key.id.value >> out.operation.value >> mac >> ip >>
      prepared_us;
  if (!words || kind != "arrival-1") return std::nullopt;
  const auto parsed_mac = MacAddress::parse(mac);
  const auto parsed_ip = Ipv4Address::parse(ip);
  if (!parsed_mac || !parsed_ip) return std::nullopt;
  out.mac = *parsed_mac;
  out.ip = *parsed_ip;
  out.prepared_at = WallTime{prepared_us};
  out.expected = true;
  return out;
}

Arrivals::Arrivals(std::string directory, Announcer& announcer, Clock& clock, Log& log)
    : directory_(std::move(directory)), announcer_(announcer), clock_(clock), log_(log) {}

Status Arrivals::load() {
  std::error_code failed;
  std::filesystem::create_directories(directory_, failed);
  if (failed) return can_not("make " + directory_, failed.message());
  std::filesystem::directory_iterator files(directory_, failed);
  if (failed) return can_not("read " + directory_, failed.message());
  const std::lock_guard lock(mutex_);
  for (const auto& file : files) {
    const std::ifstream in(file.path());
    std::ostringstream text;
    text << in.rdbuf();
    auto arrival = arrival_from(text.str());
    if (arrival && clock_.wall_now() - arrival->prepared_at < kReportKept) {
      arrivals_[arrival->key.uuid] = *arrival;
    } else {
      std::filesystem::remove(file.path(), failed);
    }
  }
  return ok_status();
}

Status Arrivals::expect(const MigrationTicket& ticket) {
  Arrival arrival;
  arrival.operation = ticket.operation;
  arrival.key = ticket.vm.key();
  arrival.mac = ticket.vm.mac;
  arrival.ip = ticket.vm.ip;
  arrival.prepared_at = clock_.wall_now();
  arrival.expected = true;
  auto written = write_whole(path_of(ticket.vm.uuid), to_text(arrival));
  if (!written) return written;
  const std::lock_guard lock(mutex_);
  arrivals_[ticket.vm.uuid] = arrival;
  return ok_status();
}

std::optional<Arrival> Arrivals::find(const std::string& uuid) const {
  const std::lock_guard lock(mutex_);
  const auto known = arrivals_.find(uuid);
  return known == arrivals_.end() ? std::nullopt : std::optional<Arrival>(known->second);
}

bool Arrivals::expected(const std::string& uuid) const {
  const auto known = find(uuid);
  return known && known->expected;
}

std::vector<Arrival> Arrivals::all_expected() const {
  const std::lock_guard lock(mutex_);
  std::vector<Arrival> out;
  for (const auto& [uuid, arrival] : arrivals_) {
    if (arrival.expected) out.push_back(arrival);
  }
  return out;
}

void Arrivals::forget(const std::string& uuid) {
  {
    const std::lock_guard lock(mutex_);
    if (arrivals_.erase(uuid) == 0) return;
  }
  std::error_code ignored;  // a file that stays is looked at when the agent starts
  std::filesystem::remove(path_of(uuid), ignored);
}

void Arrivals::on_standing_still(const std::string& uuid) {
  Arrival arrival;
  {
    const std::lock_guard lock(mutex_);
    const auto known = arrivals_.find(uuid);
    if (known == arrivals_.end() || !known->second.expected || known->second.drawn) return;
    known->second.drawn = true;
    arrival = known->second;
  }
  const auto sent = announcer_.announce_once(arrival.mac, arrival.ip);
  log_.info("libvirt", "VM '" + arrival.key.id.value + "' stands still on its way here; " +
                           (sent ? std::string("its frames come here now")
                                 : "its frames are not drawn here: " + sent.error().text()));
}

void Arrivals::on_resumed(const std::string& uuid, WallTime at) {
  Arrival arrival;
  {
    const std::lock_guard lock(mutex_);
    const auto known = arrivals_.find(uuid);
    if (known == arrivals_.end() || !known->second.expected) return;
    known->second.expected = false;
    known->second.resumed_at = at;
    arrival = known->second;
  }
  auto sent = announcer_.announce(arrival.mac, arrival.ip);
  if (!sent) {
    log_.warn("libvirt",
              "VM '" + arrival.key.id.value + "' is not announced: " + sent.error().text());
    return;
  }
  const std::lock_guard lock(mutex_);
  const auto known = arrivals_.find(uuid);
  if (known != arrivals_.end()) known->second.announced_at = *sent;
}

Status Arrivals::announce(const VmSpec& vm) {
  auto sent = announcer_.announce(vm.mac, vm.ip);
  if (!sent) return sent.error();
  const std::lock_guard lock(mutex_);
  Arrival& arrival = arrivals_[vm.uuid];
  arrival.key = vm.key();
  arrival.mac = vm.mac;
  arrival.ip = vm.ip;
  // The first announcement is the one whose time counts.
  if (arrival.announced_at.count() == 0) arrival.announced_at = *sent;
  return ok_status();
}

}  // namespace mare::libvirt
