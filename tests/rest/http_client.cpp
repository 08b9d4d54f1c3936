#include "tests/rest/http_client.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

namespace mare::test {
namespace {

constexpr auto kPatience = std::chrono::seconds{20};

struct CurlFree {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};
using Curl = std::unique_ptr<CURL, CurlFree>;
struct ListFree {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using List = std::unique_ptr<curl_slist, ListFree>;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::size_t take_body(char* data, std::size_t size, std::size_t count, void* to) {
  static_cast<std::string*>(to)->append(data, size * count);
  return size * count;
}

std::size_t take_header(char* data, std::size_t size, std::size_t count, void* to) {
  std::string line(data, size * count);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  const auto colon = line.find(": ");
  if (colon != std::string::npos) {
    (*static_cast<std::map<std::string, std::string>*>(to))[lower(line.substr(0, colon))] =
        line.substr(colon + 2);
  }
  return size * count;
}

List list_of(const std::vector<std::string>& headers) {
  curl_slist* list = nullptr;
  for (const auto& header : headers) list = curl_slist_append(list, header.c_str());
  return List{list};
}

Curl handle_for(const std::string& url, const List& headers, Got& got) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  EXPECT_EQ(ready, CURLE_OK);
  Curl curl{curl_easy_init()};
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl.get(), CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(curl.get(), CURLOPT_HEADERDATA, &got.headers);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_PATH_AS_IS, 1L);
  return curl;
}

int shrink_window(void*, curl_socket_t fd, curlsocktype) {
  const int bytes = 8192;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  return CURL_SOCKOPT_OK;
}

void run(CURL* curl, Got& got) {
  const CURLcode code = curl_easy_perform(curl);
  if (code != CURLE_OK) got.failure = curl_easy_strerror(code);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  got.status = static_cast<int>(status);
}

}  // namespace

wire::Json Got::json() const {
  wire::Json value = wire::Json::parse(body, nullptr, false);
  EXPECT_FALSE(value.is_discarded()) << status << " " << body;
  return value.is_discarded() ? wire::Json(nullptr) : value;
}

Got send(const Sending& what) {
  Got got;
  const List headers = list_of(what.headers);
  const Curl curl = handle_for(what.url, headers, got);
  curl_easy_setopt(curl.get(), CURLOPT_CUSTOMREQUEST, what.method.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT_MS, 90'000L);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &got.body);
  if (what.method == "HEAD") curl_easy_setopt(curl.get(), CURLOPT_NOBODY, 1L);
  if (what.with_body) {
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(what.body.size()));
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, what.body.c_str());
  }
  run(curl.get(), got);
  return got;
}

Follow::Follow(const std::string& url, std::vector<std::string> headers, bool small_window) {
  thread_ = std::thread([this, url, headers = std::move(headers), small_window] {
    Got got;
    const List list = list_of(headers);
    const Curl curl = handle_for(url, list, got);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &Follow::take);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, this);
    if (small_window) curl_easy_setopt(curl.get(), CURLOPT_SOCKOPTFUNCTION, &shrink_window);
    curl_easy_setopt(curl.get(), CURLOPT_NOPROGRESS, 0L);
    // Looked at about once a second, also when nothing comes: so a quiet stream can be left.
    curl_easy_setopt(curl.get(), CURLOPT_XFERINFODATA, this);
    curl_easy_setopt(
        curl.get(), CURLOPT_XFERINFOFUNCTION,
        +[](void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
          auto* follow = static_cast<Follow*>(self);
          const std::lock_guard lock(follow->mutex_);
          return follow->leaving_ ? 1 : 0;
        });
    run(curl.get(), got);
    const std::lock_guard lock(mutex_);
    got.body = got_.body;
    got_ = std::move(got);
    ended_ = true;
    changed_.notify_all();
  });
}

Follow::~Follow() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::size_t Follow::take(char* data, std::size_t size, std::size_t count, void* self) {
  auto* follow = static_cast<Follow*>(self);
  std::unique_lock lock(follow->mutex_);
  // A stalled client keeps its socket open and takes nothing from it.
  follow->changed_.wait(lock, [&] { return !follow->stalled_ || follow->leaving_; });
  if (follow->leaving_) return 0;
  follow->got_.body.append(data, size * count);
  follow->changed_.notify_all();
  return size * count;
}

bool Follow::wait(const std::function<bool(const std::string&)>& enough) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return enough(got_.body); });
}

bool Follow::wait_for_text(const std::string& text) {
  return wait([&](const std::string& all) { return all.find(text) != std::string::npos; });
}

bool Follow::wait_end() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return ended_; });
}

std::string Follow::text() {
  const std::lock_guard lock(mutex_);
  return got_.body;
}

Got Follow::result() {
  const std::lock_guard lock(mutex_);
  return got_;
}

void Follow::stop_reading() {
  const std::lock_guard lock(mutex_);
  stalled_ = true;
}

std::string raw_exchange(int port, const std::string& bytes, std::chrono::milliseconds patience) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string out;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const auto n = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<std::size_t>(n);
    }
    pollfd waiting{fd, POLLIN, 0};
    std::string part(4096, '\0');
    while (poll(&waiting, 1, static_cast<int>(patience.count())) > 0) {
      const auto n = recv(fd, part.data(), part.size(), 0);
      if (n <= 0) break;
      out.append(part.data(), static_cast<std::size_t>(n));
    }
  }
  close(fd);
  return out;
}

}  // namespace mare::test
