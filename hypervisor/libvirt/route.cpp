#include "hypervisor/libvirt/route.h"

#include <string_view>
#include <vector>

namespace mare::libvirt {
namespace {

constexpr std::string_view kKind = "libvirt-5";
constexpr char kBetween = '|';

/// A path may hold anything: '|' and '%' are written as %7C and %25.
std::string encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == kBetween) {
      out += "%7C";
    } else if (c == '%') {
      out += "%25";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view three = text.substr(i, 3);
    if (three != "%7C" && three != "%25") {
      out.push_back(text[i]);
      continue;
    }
    out.push_back(three == "%7C" ? kBetween : '%');
    i += 2;
  }
  return out;
}

std::vector<std::string> fields_of(std::string_view text) {
  std::vector<std::string> out;
  std::size_t from = 0;
  while (true) {
    const auto end = text.find(kBetween, from);
    out.push_back(decode(text.substr(from, end == std::string_view::npos ? end : end - from)));
    if (end == std::string_view::npos) return out;
    from = end + 1;
  }
}

std::string bracketed(const std::string& address) {
  const bool bare_v6 = address.find(':') != std::string::npos && !address.starts_with('[');
  return bare_v6 ? "[" + address + "]" : address;
}

}  // namespace

std::string Route::text() const {
  std::string out(kKind);
  for (const auto& field :
       {libvirt_uri, data_uri, bridge, console, std::string(accelerated ? "kvm" : "tcg"),
        preloads.dirty_log, std::string(tls ? "tls" : "plain"), preloads.deadman,
        preloads.deadman_file, notice}) {
    out += kBetween + encode(field);
  }
  return out;
}

Result<Route> Route::parse(const std::string& text) {
  const auto fields = fields_of(text);
  const bool good = fields.size() == 11 && fields[0] == kKind && !fields[1].empty() &&
                    !fields[2].empty() && (fields[5] == "kvm" || fields[5] == "tcg") &&
                    (fields[7] == "tls" || fields[7] == "plain");
  if (!good) {
    return make_error(Code::InvalidArgument, "'" + text + "' is not an endpoint of a libvirt host",
                      "both ends of a migration must be of the same kind and version");
  }
  return Route{fields[1],          fields[2],          fields[3],
               fields[4],          fields[5] == "kvm", {fields[6], fields[8], fields[9]},
               fields[7] == "tls", fields[10]};
}

std::string libvirt_uri_at(const std::string& address) {
  return "qemu+tcp://" + bracketed(address) + "/system";
}

std::string data_uri_at(const std::string& address) {
  return "tcp://" + bracketed(address);
}

Status check_encryption(const Route& to, bool here) {
  if (to.tls == here) return ok_status();
  return make_error(Code::FailedPrecondition,
                    here ? "this host encrypts migrations, the destination does not"
                         : "the destination encrypts migrations, this host does not",
                    "start both agents with --migration-tls, or both without");
}

}  // namespace mare::libvirt
