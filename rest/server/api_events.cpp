// Events: a stream for those who follow (server-sent events), pages for those who ask.
#include <algorithm>
#include <array>
#include <charconv>

#include "rest/server/api.h"

namespace mare::rest {
namespace {

constexpr std::uint64_t kMostSeq = 1ULL << 62U;
constexpr std::size_t kMostScanned = 10'000;
constexpr std::array<std::string_view, 7> kTopics{"host",      "pool",      "vm",     "job",
                                                  "operation", "migration", "cluster"};

std::set<std::string> topics_of(QueryReader& query) {
  std::set<std::string> out;
  const auto written = query.text("topics");
  if (!written) return out;
  std::string_view left = *written;
  while (!left.empty()) {
    const auto comma = left.find(',');
    const std::string topic{left.substr(0, comma)};
    left = comma == std::string_view::npos ? "" : left.substr(comma + 1);
    if (std::find(kTopics.begin(), kTopics.end(), topic) == kTopics.end()) {
      query.fault("topics", "'" + topic + "' is no topic; give some of host, pool, vm, job, " +
                                "operation, migration, cluster, with commas between");
    }
    out.insert(topic);
  }
  return out;
}

struct Page {
  std::vector<Event> events;
  std::uint64_t next_after = 0;
};

/// Up to `limit` events of these topics; looks at a bounded number of others on the way.
Result<Page> find_page(const store::Reader& reader, std::uint64_t after, std::size_t limit,
                       const std::set<std::string>& topics) {
  Page page;
  page.next_after = after;
  std::size_t scanned = 0;
  while (page.events.size() < limit && scanned < kMostScanned) {
    auto rows = reader.events_after(page.next_after, 1000);
    if (!rows) return rows.error();
    if (rows->empty()) break;
    for (auto& row : *rows) {
      if (page.events.size() == limit) break;
      page.next_after = row.seq;
      ++scanned;
      if (topics.empty() || topics.contains(row.topic)) page.events.push_back(std::move(row));
    }
  }
  return page;
}

Response events_page(const Api& api, const Call& call, std::uint64_t after, std::size_t limit,
                     const std::set<std::string>& topics) {
  const auto page = ask<Page>(
      api.store, [&](const store::Reader& r) { return find_page(r, after, limit, topics); });
  if (!page) return refuse(call, page.error());
  wire::Json items = wire::Json::array();
  for (const auto& event : page->events) items.push_back(wire::to_json(event));
  return json_response(200, wire::Json{{"items", items}, {"next_after", page->next_after}});
}

bool wants_stream(const Request& request) {
  return request.header("accept").find("text/event-stream") != std::string::npos;
}

/// Where a stream begins: after Last-Event-ID, else after ?after=, else now.
Result<std::uint64_t> first_after(const Api& api, const Call& call,
                                  const std::optional<std::uint64_t>& asked, wire::Faults& faults) {
  const auto last = ask<std::uint64_t>(api.store, [](const auto& r) { return r.last_event(); });
  if (!last) return last.error();
  const std::string header = call.request.header("last-event-id");
  std::optional<std::uint64_t> after = asked;
  if (!header.empty()) {
    std::uint64_t value = 0;
    const char* end = header.data() + header.size();
    const auto parsed = std::from_chars(header.data(), end, value);
    if (parsed.ec != std::errc{} || parsed.ptr != end) {
      faults.push_back({"", "Last-Event-ID '" + header +
                                "' is no number; give the id of the last "
                                "event that you have seen"});
    }
    after = value;
  }
  // A number of the future is of another database: following from there would say nothing for long.
  return std::min(after.value_or(*last), *last);
}

Answer list_events(Api& api, const Call& call, const std::shared_ptr<Exchange>& exchange) {
  wire::Faults faults;
  QueryReader query(call, faults);
  const auto after = query.natural("after", 0, kMostSeq);
  const auto limit = query.natural("limit", 1, 1000).value_or(500);
  const auto topics = topics_of(query);
  query.finish();
  if (!wants_stream(call.request)) {
    if (!faults.empty()) return refuse(call, faults);
    return events_page(api, call, after.value_or(0), limit, topics);
  }
  const auto first = first_after(api, call, after, faults);
  if (!first) return refuse(call, first.error());
  if (!faults.empty()) return refuse(call, faults);
  if (api.followers.add(exchange, EventFollow{*first, topics})) return Later{};
  return refuse(call, make_error(Code::Unavailable, "too many streams are open",
                                 "end some, or ask for pages of events instead"));
}

}  // namespace

void add_event_routes(Router& router, Api& api) {
  router.add({"GET", "/api/v1/events", "listEvents", false,
              [&api](const Call& call, const std::shared_ptr<Exchange>& exchange) {
                return list_events(api, call, exchange);
              }});
}

}  // namespace mare::rest
