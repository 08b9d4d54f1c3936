// mare-announce: tells the network where a VM's addresses are, by hand or from a script.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "netarp/sender.h"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

struct Options {
  std::string interface;
  std::string mac;
  std::string ip;
  std::string ip6;
  std::size_t count = 0;
  std::string gaps;
  std::string output = "text";
};

int report(const mare::Error& error, const Options& options) {
  const int code = error.code == mare::Code::InvalidArgument ? kUsage : kFailed;
  if (options.output == "json") {
    const nlohmann::json problem{{"error", mare::to_string(error.code)},
                                 {"message", error.message},
                                 {"field", error.field},
                                 {"remedy", error.remedy}};
    std::puts(problem.dump().c_str());
  }
  std::fprintf(stderr, "mare-announce: %s\n", error.text().c_str());
  return code;
}

mare::Result<mare::netarp::Subject> subject_of(const Options& options) {
  mare::netarp::Subject subject;
  auto mac = mare::MacAddress::parse(options.mac);
  if (!mac) return mac.error();
  subject.mac = *mac;
  if (!options.ip.empty()) {
    auto ip = mare::Ipv4Address::parse(options.ip);
    if (!ip) return ip.error();
    subject.ip = *ip;
  }
  if (!options.ip6.empty()) {
    auto ip6 = mare::Ipv6Address::parse(options.ip6);
    if (!ip6) return ip6.error();
    subject.ip6 = *ip6;
  }
  if (!subject.ip && !subject.ip6) {
    return mare::field_error("ip", "nothing to announce", "give --ip, --ip6 or both");
  }
  return subject;
}

mare::Result<mare::netarp::Schedule> schedule_of(const Options& options) {
  mare::netarp::Schedule schedule;
  if (!options.gaps.empty()) {
    auto parsed = mare::netarp::parse_schedule(options.gaps);
    if (!parsed) return parsed.error();
    schedule = *parsed;
  }
  if (options.count == 0) return schedule;
  return mare::netarp::with_count(std::move(schedule), options.count);
}

int announce(const Options& options) {
  auto subject = subject_of(options);
  if (!subject) return report(subject.error(), options);
  auto schedule = schedule_of(options);
  if (!schedule) return report(schedule.error(), options);

  mare::SystemClock clock;
  mare::Log log(clock, mare::LogLevel::Warning);
  auto sender = mare::netarp::Sender::open(options.interface, *schedule, clock, log);
  if (!sender) return report(sender.error(), options);
  auto first = (*sender)->announce(*subject);
  if (!first) return report(first.error(), options);
  (*sender)->wait_finished(subject->mac);

  const auto progress = (*sender)->progress(subject->mac);
  if (!progress->last_error.empty()) {
    return report(mare::make_error(mare::Code::Internal, progress->last_error), options);
  }
  const std::string at = mare::format_rfc3339(*first);
  if (options.output == "json") {
    const nlohmann::json answer{{"interface", options.interface},
                                {"mac", subject->mac.text()},
                                {"first_frame_at", at},
                                {"first_frame_us", first->count()},
                                {"frames", progress->frames},
                                {"rounds", progress->rounds},
                                {"fdb_cleared", progress->fdb_cleared}};
    std::puts(answer.dump().c_str());
    return 0;
  }
  std::printf("%s announced on %s: %d frames in %zu rounds, the first at %s%s\n",
              subject->mac.text().c_str(), options.interface.c_str(), progress->frames,
              progress->rounds, at.c_str(),
              progress->fdb_cleared ? "; an old entry of the bridge was removed" : "");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Announces a VM's addresses on a network: gratuitous ARP in request and reply form and\n"
      "unsolicited neighbour advertisements, repeated with growing gaps, with the VM's MAC as\n"
      "Ethernet source. Needs CAP_NET_RAW, and CAP_NET_ADMIN to correct the bridge's own table.\n"
      "Exit codes: 0 announced, 1 failed, 2 wrong usage.",
      "mare-announce"};
  Options options;
  app.add_option("--interface", options.interface, "bridge or other Ethernet interface, as br0")
      ->required();
  app.add_option("--mac", options.mac, "the VM's MAC, as 52:54:00:12:34:56")->required();
  app.add_option("--ip", options.ip, "its IPv4 address");
  app.add_option("--ip6", options.ip6, "its IPv6 address");
  app.add_option("--count", options.count, "rounds; each sends every form once")
      ->check(CLI::Range(std::size_t{1}, mare::netarp::kMaxRounds));
  app.add_option("--gaps", options.gaps,
                 "milliseconds to wait before each round; 0,50,150,400,1000,2000 if not given");
  app.add_option("-o,--output", options.output, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  return announce(options);
}
