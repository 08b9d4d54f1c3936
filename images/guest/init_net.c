#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "images/guest/init.h"

enum { kAnswerMs = 2000 };

static bool ask(unsigned long what, void* request) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool done = ioctl(fd, what, request) == 0;
  const int error = errno;
  close(fd);
  errno = error;
  return done;
}

static struct ifreq request_for(const char* card) {
  struct ifreq request;
  memset(&request, 0, sizeof request);
  snprintf(request.ifr_name, sizeof request.ifr_name, "%s", card);
  return request;
}

static void put_address(struct sockaddr* to, in_addr_t address) {
  const struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = address};
  memcpy(to, &in, sizeof in);
}

static bool raise_flags(const char* card) {
  struct ifreq request = request_for(card);
  if (!ask(SIOCGIFFLAGS, &request)) return false;
  request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
  return ask(SIOCSIFFLAGS, &request);
}

bool net_loopback_up(void) {
  return raise_flags("lo");
}

bool net_set_mac(const char* card, const char* mac) {
  struct ifreq request = request_for(card);
  unsigned octets[6];
  if (sscanf(mac, "%2x:%2x:%2x:%2x:%2x:%2x", &octets[0], &octets[1], &octets[2], &octets[3],
             &octets[4], &octets[5]) != 6) {
    errno = EINVAL;
    return false;
  }
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  for (int i = 0; i < 6; ++i) request.ifr_hwaddr.sa_data[i] = (char)octets[i];
  return ask(SIOCSIFHWADDR, &request);
}

bool net_up(const char* card, const char* address) {
  char ip[64];
  struct in_addr parsed;
  const char* slash = strchr(address, '/');
  char* end = NULL;
  const unsigned long bits = slash ? strtoul(slash + 1, &end, 10) : 33;
  snprintf(ip, sizeof ip, "%.*s", (int)strcspn(address, "/"), address);
  if (inet_pton(AF_INET, ip, &parsed) != 1 || bits > 32 || end == slash + 1 || *end != '\0') {
    errno = EINVAL;
    return false;
  }
  struct ifreq request = request_for(card);
  put_address(&request.ifr_addr, parsed.s_addr);
  if (!ask(SIOCSIFADDR, &request)) return false;
  request = request_for(card);
  put_address(&request.ifr_netmask, htonl(bits == 0 ? 0 : UINT32_MAX << (32 - bits)));
  return ask(SIOCSIFNETMASK, &request) && raise_flags(card);
}

bool net_gateway(const char* address) {
  struct rtentry route;
  memset(&route, 0, sizeof route);
  struct in_addr parsed;
  if (inet_pton(AF_INET, address, &parsed) != 1) {
    errno = EINVAL;
    return false;
  }
  put_address(&route.rt_dst, INADDR_ANY);
  put_address(&route.rt_genmask, INADDR_ANY);
  put_address(&route.rt_gateway, parsed.s_addr);
  route.rt_flags = RTF_UP | RTF_GATEWAY;
  return ask(SIOCADDRT, &route);
}

bool net_answers(const char* address, uint16_t port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
  if (inet_pton(AF_INET, address, &to.sin_addr) != 1) {
    errno = EINVAL;
    return false;
  }
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  bool answers = connect(fd, (struct sockaddr*)&to, sizeof to) == 0;
  if (!answers && errno == EINPROGRESS) {
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int error = ETIMEDOUT;
    socklen_t size = sizeof error;
    if (poll(&ready, 1, kAnswerMs) == 1) getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    answers = error == 0;
    errno = error;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return answers;
}
