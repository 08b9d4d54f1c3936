#include "orchestrator/engine/prometheus_figure.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace mare::engine {
namespace {
using nlohmann::json;

constexpr double kMostFigure = 1e15;
constexpr double kLeastTimeout_s = 0.1;
constexpr double kMostTimeout_s = 10;
constexpr std::size_t kMostUrl = 2048;
constexpr std::size_t kMostQuery = 4096;
constexpr std::size_t kMostQuoted = 200;

/// Of a text that anybody may have written: short, in one line.
std::string quoted(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  if (text.size() <= kMostQuoted) return text;
  std::size_t end = kMostQuoted;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "...";
}

std::string text_at(const json& from, const char* name) {
  if (!from.is_object()) return "";
  const auto found = from.find(name);
  return found != from.end() && found->is_string() ? found->get<std::string>() : "";
}

Error no_figure(const std::string& what, const std::string& remedy = "") {
  return make_error(Code::FailedPrecondition, "Prometheus: " + what, remedy);
}

/// [time, "value"] as scalars and samples have it.
Result<double> value_of(const json& pair) {
  if (!pair.is_array() || pair.size() != 2 || !pair[1].is_string()) {
    return no_figure("a sample that is no pair of a time and a value");
  }
  const auto text = pair[1].get<std::string>();
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value)) {
    return no_figure(
        "the value is '" + quoted(text) + "', which is no figure",
        "a division by 0 gives NaN: 'QUERY > 0' leaves it out, 'or vector(0)' gives 0");
  }
  if (value < 0 || value > kMostFigure) {
    return no_figure("the value is " + quoted(text) + "; a figure is 0 to 1e15");
  }
  return value;
}

Result<double> only_sample(const json& result) {
  if (!result.is_array()) return no_figure("a vector without samples");
  if (result.empty()) {
    return no_figure("the query has no sample", "'QUERY or vector(0)' gives 0 then");
  }
  if (result.size() > 1) {
    return no_figure("the query has " + std::to_string(result.size()) + " samples, one is needed",
                     "wrap it in sum(), max() or avg()");
  }
  const json& sample = result.front();
  return value_of(sample.is_object() ? sample.value("value", json()) : json());
}

bool plain(const std::string& text, bool spaces) {
  return std::all_of(text.begin(), text.end(), [spaces](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte != 0x7F && (byte > 0x20 || (spaces && (c == ' ' || c == '\n' || c == '\t')));
  });
}

}  // namespace

Result<double> prometheus_figure(const HttpAnswer& answer) {
  const json body = json::parse(answer.body, nullptr, false);
  if (answer.status < 200 || answer.status > 299 || text_at(body, "status") == "error") {
    std::string why = text_at(body, "error");
    if (why.empty()) why = answer.body.empty() ? "no reason given" : answer.body;
    return no_figure("HTTP " + std::to_string(answer.status) + ": " + quoted(why));
  }
  const bool whole = text_at(body, "status") == "success" && body.contains("data");
  const json data = whole ? body["data"] : json();
  const std::string type = text_at(data, "resultType");
  if (type.empty() || !data.contains("result")) {
    return no_figure("this is no answer of its API: " + quoted(answer.body),
                     "is the url that of the server, without /api/v1?");
  }
  if (type == "scalar") return value_of(data["result"]);
  if (type == "vector") return only_sample(data["result"]);
  return no_figure("the query gives a " + quoted(type) + ", not a scalar or a vector of one",
                   "leave out the range, or wrap it in rate() or avg_over_time()");
}

Status check(const PrometheusQuery& query) {
  const std::string& url = query.url;
  const std::size_t host = url.rfind("http://", 0) == 0 ? 7 : url.rfind("https://", 0) == 0 ? 8 : 0;
  const bool good_url = host > 0 && url.size() > host && url.size() <= kMostUrl &&
                        url[host] != '/' && plain(url, false) &&
                        url.find_first_of("?#") == std::string::npos;
  if (!good_url) {
    return field_error("url", "'" + quoted(url) + "' is not the URL of a Prometheus server",
                       "write it like http://prometheus:9090, without /api/v1 and parameters");
  }
  if (url.substr(host, url.find('/', host) - host).find('@') != std::string::npos) {
    return field_error("url", "the URL has a user in it, and whoever reads the rule would see it",
                       "give one without, of a server or a proxy that lets this machine in");
  }
  if (query.query.empty() || query.query.size() > kMostQuery || !plain(query.query, true)) {
    return field_error("query", "this is no query", "give 1 to 4096 characters of PromQL");
  }
  if (!(query.timeout.count() >= kLeastTimeout_s && query.timeout.count() <= kMostTimeout_s)) {
    return field_error("query_timeout_s", "so long an answer can't be waited for",
                       "give 0.1 to 10 s");
  }
  return ok_status();
}

}  // namespace mare::engine
