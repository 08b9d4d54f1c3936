#include "images/guest/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void text_init(struct text* text, size_t limit) {
  *text = (struct text){.limit = limit};
  text_append(text, "");
}

void text_free(struct text* text) {
  free(text->data);
  text->data = NULL;
}

static void append_bytes(struct text* text, const char* bytes, size_t size) {
  if (text->failed || size >= text->limit - text->size) {
    text->failed = true;
    return;
  }
  if (text->size + size + 1 > text->capacity) {
    size_t capacity = text->capacity ? text->capacity : 256;
    while (capacity < text->size + size + 1) capacity *= 2;
    char* grown = realloc(text->data, capacity);
    if (!grown) {
      text->failed = true;
      return;
    }
    text->data = grown;
    text->capacity = capacity;
  }
  memcpy(text->data + text->size, bytes, size);
  text->size += size;
  text->data[text->size] = '\0';
}

void text_append(struct text* text, const char* plain) {
  append_bytes(text, plain, strlen(plain));
}

void text_append_encoded(struct text* text, const char* value) {
  static const char kHex[] = "0123456789ABCDEF";
  for (const unsigned char* at = (const unsigned char*)value; *at; ++at) {
    if (*at > 0x20 && *at < 0x7f && *at != '%') {
      append_bytes(text, (const char*)at, 1);
    } else {
      const char escaped[3] = {'%', kHex[*at >> 4], kHex[*at & 15]};
      append_bytes(text, escaped, sizeof escaped);
    }
  }
}

void text_field(struct text* text, const char* key, const char* value) {
  text_append(text, " ");
  text_append(text, key);
  text_append(text, "=");
  text_append_encoded(text, value);
}

void text_field_u64(struct text* text, const char* key, uint64_t value) {
  char digits[24];
  snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
  text_field(text, key, digits);
}

static int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

bool percent_decode(char* value) {
  char* to = value;
  for (const char* from = value; *from; ++from) {
    if (*from != '%') {
      *to++ = *from;
      continue;
    }
    const int high = hex_digit(from[1]);
    const int low = high < 0 ? -1 : hex_digit(from[2]);
    if (low < 0 || high + low == 0) return false;
    *to++ = (char)(high * 16 + low);
    from += 2;
  }
  *to = '\0';
  return true;
}

const char* request_parse(char* text, struct request* request) {
  *request = (struct request){.verb = text};
  size_t fields = 0;
  for (const char* at = text; *at; ++at) {
    if ((unsigned char)*at < 0x20 || *at == 0x7f) return "a control character in the line";
    fields += *at == ' ';
  }
  request->fields = calloc(fields + 1, sizeof *request->fields);
  if (!request->fields) return "out of memory";
  char* rest = text;
  strsep(&rest, " ");
  if (!*request->verb) return "the verb is missing";
  while (rest) {
    char* key = strsep(&rest, " ");
    char* value = strchr(key, '=');
    if (!value || value == key) return "a field is not key=value";
    *value++ = '\0';
    if (!percent_decode(value)) return "a broken percent escape";
    request->fields[request->count++] = (struct field){.key = key, .value = value};
  }
  return NULL;
}

void request_free(struct request* request) {
  free(request->fields);
  request->fields = NULL;
}

const char* request_unknown_key(const struct request* request, const char* const* allowed) {
  for (size_t i = 0; i < request->count; ++i) {
    const char* key = request->fields[i].key;
    bool known = false;
    for (const char* const* name = allowed; *name && !known; ++name) known = !strcmp(*name, key);
    if (!known) return key;
    const bool may_repeat = !strcmp(key, "arg") || !strcmp(key, "env");
    if (!may_repeat && request_get(request, key) != request->fields[i].value) return key;
  }
  return NULL;
}

const char* request_get(const struct request* request, const char* key) {
  for (size_t i = 0; i < request->count; ++i) {
    if (!strcmp(request->fields[i].key, key)) return request->fields[i].value;
  }
  return NULL;
}

char** request_all(const struct request* request, const char* key, size_t* count) {
  char** values = calloc(request->count + 1, sizeof *values);
  *count = 0;
  if (!values) return NULL;
  for (size_t i = 0; i < request->count; ++i) {
    // The line outlives the vector, and execve() wants char*.
    if (!strcmp(request->fields[i].key, key)) values[(*count)++] = (char*)request->fields[i].value;
  }
  return values;
}

bool parse_u64(const char* digits, uint64_t most, uint64_t* value) {
  if (!digits || *digits < '0' || *digits > '9') return false;
  errno = 0;
  char* end = NULL;
  const unsigned long long parsed = strtoull(digits, &end, 10);
  if (errno || *end || parsed > most) return false;
  *value = parsed;
  return true;
}

bool line_reader_init(struct line_reader* reader, int fd) {
  *reader = (struct line_reader){.fd = fd, .capacity = 1024};
  reader->data = malloc(reader->capacity);
  return reader->data != NULL;
}

void line_reader_free(struct line_reader* reader) {
  free(reader->data);
  reader->data = NULL;
}

static bool prefix_is_wrong(const struct line_reader* reader, bool complete) {
  if (!reader->required_prefix) return false;
  const size_t size = strlen(reader->required_prefix);
  const size_t have = reader->end - reader->begin;
  if (have < size) return complete;
  return !equal_in_constant_time(reader->data + reader->begin, reader->required_prefix, size);
}

static bool make_room(struct line_reader* reader) {
  if (reader->begin > 0) {
    memmove(reader->data, reader->data + reader->begin, reader->end - reader->begin);
    reader->end -= reader->begin;
    reader->begin = 0;
  }
  if (reader->end < reader->capacity) return true;
  if (reader->capacity >= MARE_GUEST_LINE_MAX) return false;
  const size_t capacity = reader->capacity > 0 ? reader->capacity * 2 : 1024;
  char* grown = realloc(reader->data, capacity);
  if (!grown) return false;
  reader->data = grown;
  reader->capacity = capacity;
  return true;
}

// More bytes into the reader; kLineOk if there are some.
static enum line_result fill(struct line_reader* reader, int64_t deadline) {
  const int64_t left = deadline - monotonic_ms();
  struct pollfd ready = {.fd = reader->fd, .events = POLLIN};
  const int polled = poll(&ready, 1, left > 0 ? (int)left : 0);
  if (polled < 0) return errno == EINTR ? kLineOk : kLineClosed;
  if (polled == 0) return kLineTimeout;
  const ssize_t got =
      recv(reader->fd, reader->data + reader->end, reader->capacity - reader->end, MSG_DONTWAIT);
  if (got > 0) {
    reader->end += (size_t)got;
    return kLineOk;
  }
  return got < 0 && (errno == EINTR || errno == EAGAIN) ? kLineOk : kLineClosed;
}

enum line_result line_read(struct line_reader* reader, int idle_ms, int line_ms, char** line) {
  bool begun = reader->end > reader->begin;
  int64_t deadline = monotonic_ms() + (begun ? line_ms : idle_ms);
  size_t searched = 0;
  for (;;) {
    const size_t have = reader->end - reader->begin;
    char* start = reader->data + reader->begin;
    char* newline = memchr(start + searched, '\n', have - searched);
    if (prefix_is_wrong(reader, newline != NULL)) return kLineRefused;
    if (newline) {
      if (newline + 1 - start > MARE_GUEST_LINE_MAX) return kLineTooLong;
      if (memchr(start, '\0', (size_t)(newline - start))) return kLineMalformed;
      *newline = '\0';
      reader->begin += (size_t)(newline + 1 - start);
      *line = start;
      return kLineOk;
    }
    searched = have;
    if (have >= MARE_GUEST_LINE_MAX || !make_room(reader)) return kLineTooLong;
    const enum line_result filled = fill(reader, deadline);
    if (filled != kLineOk) return filled;
    if (!begun && reader->end > reader->begin) {
      begun = true;
      deadline = monotonic_ms() + line_ms;
    }
  }
}

bool equal_in_constant_time(const char* left, const char* right, size_t size) {
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < size; ++i) {
    difference = (unsigned char)(difference | (left[i] ^ right[i]));
  }
  return difference == 0;
}

const char* token_load(const char* path, char* token) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "it cannot be opened";
  char raw[MARE_GUEST_TOKEN_MAX + 2];
  const ssize_t got = read(fd, raw, sizeof raw);
  close(fd);
  if (got < 0) return "it cannot be read";
  errno = 0;
  size_t size = (size_t)got;
  while (size > 0 && strchr(" \t\r\n", raw[size - 1])) --size;
  if (size < MARE_GUEST_TOKEN_MIN) return "the token is too short";
  if (size > MARE_GUEST_TOKEN_MAX) return "the token is too long";
  for (size_t i = 0; i < size; ++i) {
    const char c = raw[i];
    const bool alphanumeric =
        (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (!alphanumeric && (c == '\0' || !strchr("-_.:+/=", c))) {
      return "the token has a character other than letters, digits and -_.:+/=";
    }
  }
  memcpy(token, raw, size);
  token[size] = '\0';
  return NULL;
}

bool send_all(int fd, const void* bytes, size_t size, int timeout_ms) {
  const char* at = bytes;
  while (size > 0) {
    const ssize_t sent = send(fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      at += sent;
      size -= (size_t)sent;
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) return false;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    const int polled = poll(&ready, 1, timeout_ms);
    if (polled == 0 || (polled < 0 && errno != EINTR)) return false;
  }
  return true;
}

void put_be32(unsigned char* at, uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = (unsigned char)(value >> (24 - 8 * i));
}

uint32_t get_be32(const unsigned char* at) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | at[i];
  return value;
}

void put_be64(unsigned char* at, uint64_t value) {
  for (int i = 0; i < 8; ++i) at[i] = (unsigned char)(value >> (56 - 8 * i));
}

uint64_t clock_ns(int clock) {
  struct timespec now = {0};
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int64_t monotonic_ms(void) {
  return (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000u);
}
