#include "hypervisor/sim/registry.h"

#include <charconv>
#include <cmath>

namespace mare::sim {
namespace {

constexpr std::string_view kHostScheme = "sim:///";

Error bad(std::string_view address, const std::string& what) {
  return field_error("address", "'" + std::string(address) + "': " + what,
                     "write sim:///NAME?memory_mib=4096&cpus=4&rate_mbps=1000");
}

Result<double> positive(std::string_view address, std::string_view key, std::string_view text) {
  constexpr double kLargest = 1e12;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || !std::isfinite(value) || value <= 0 || value > kLargest) {
    return bad(address, std::string(key) + " is not a number above 0");
  }
  return value;
}

Status apply(std::string_view address, std::string_view setting, HostModel& model) {
  const auto equals = setting.find('=');
  if (equals == std::string_view::npos) {
    return bad(address, "'" + std::string(setting) + "' has no value");
  }
  const auto key = setting.substr(0, equals);
  auto value = positive(address, key, setting.substr(equals + 1));
  if (key == "memory_mib") {
    if (!value) return value.error();
    model.memory = mebibytes(static_cast<std::uint64_t>(*value));
  } else if (key == "cpus") {
    if (!value) return value.error();
    constexpr double kMostCpus = 1e6;
    if (*value < 1 || *value > kMostCpus) return bad(address, "cpus is not from 1 to 1000000");
    model.cpus = static_cast<int>(*value);
  } else if (key == "rate_mbps") {
    if (!value) return value.error();
    model.uplink = BytesPerSecond{*value * 1e6 / 8};
  } else if (key == "speed") {
    if (!value) return value.error();
    model.speed = *value;
  } else {
    return bad(address, "'" + std::string(key) + "' is none of memory_mib, cpus, rate_mbps, speed");
  }
  return ok_status();
}

}  // namespace

bool is_sim_address(std::string_view address) {
  return address.starts_with("sim:");
}

Result<SimAddress> parse_sim_address(std::string_view address) {
  if (!address.starts_with(kHostScheme)) return bad(address, "does not begin with sim:///");
  std::string_view rest = address.substr(kHostScheme.size());
  const auto question = rest.find('?');
  SimAddress parsed;
  parsed.host = HostId{std::string(rest.substr(0, question))};
  if (parsed.host.empty() || parsed.host.value.find('/') != std::string::npos) {
    return bad(address, "has no host name");
  }
  rest = question == std::string_view::npos ? std::string_view{} : rest.substr(question + 1);
  while (!rest.empty()) {
    const auto ampersand = std::min(rest.find('&'), rest.size());
    if (auto done = apply(address, rest.substr(0, ampersand), parsed.model); !done) {
      return done.error();
    }
    rest.remove_prefix(std::min(ampersand + 1, rest.size()));
  }
  return parsed;
}

Result<std::unique_ptr<Driver>> SimRegistry::driver(std::string_view address) {
  auto parsed = parse_sim_address(address);
  if (!parsed) return parsed.error();
  auto added = cluster_.add_host(parsed->host, parsed->model);
  if (!added && added.error().code != Code::AlreadyExists) return added.error();
  return make_sim_driver(cluster_, parsed->host);
}

}  // namespace mare::sim
