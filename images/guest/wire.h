// Both ends of the guest protocol in C: encoding, lines, requests, the token. No sockets are opened
// here.
#ifndef MARE_IMAGES_GUEST_WIRE_H
#define MARE_IMAGES_GUEST_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "images/guest/protocol.h"

// Text that grows up to a limit. Once something did not fit or memory ran out, `failed` stays set
// and the text is not to be used: callers check once, at the end.
struct text {
  char* data;  // always terminated, unless failed before the first byte
  size_t size;
  size_t capacity;
  size_t limit;
  bool failed;
};
void text_init(struct text* text, size_t limit);
void text_free(struct text* text);
void text_append(struct text* text, const char* plain);
void text_append_encoded(struct text* text, const char* value);
/// " key=" and the encoded value.
void text_field(struct text* text, const char* key, const char* value);
void text_field_u64(struct text* text, const char* key, uint64_t value);

/// Decodes %XX in place. False: a broken escape, or %00.
bool percent_decode(char* value);

struct field {
  const char* key;
  const char* value;
};
// A parsed line; everything points into the line, which the parser cut up.
struct request {
  const char* verb;
  struct field* fields;
  size_t count;
};
/// Parses "VERB key=value ..." in place. NULL on success, else what is wrong with it.
const char* request_parse(char* text, struct request* request);
void request_free(struct request* request);
/// NULL if every key is one of `allowed` (NULL-terminated) and only arg and env repeat; else the
/// offender.
const char* request_unknown_key(const struct request* request, const char* const* allowed);
/// The value of a key, NULL if it is not there.
const char* request_get(const struct request* request, const char* key);
/// The values of a repeated key, as a NULL-terminated vector to free(); NULL when out of memory.
char** request_all(const struct request* request, const char* key, size_t* count);
/// Decimal digits only, whole string, at most `most`.
bool parse_u64(const char* digits, uint64_t most, uint64_t* value);

enum line_result { kLineOk, kLineClosed, kLineTimeout, kLineTooLong, kLineMalformed, kLineRefused };
// Reads lines from a socket with deadlines; keeps what follows a line for the next reader.
struct line_reader {
  int fd;
  char* data;
  size_t capacity;
  size_t begin;  // first byte not handed out
  size_t end;
  // Until this is NULL the first bytes must be exactly it, or the line is refused as soon as that
  // shows: a stranger gets neither memory nor time beyond the length of the magic and the token.
  const char* required_prefix;
};
bool line_reader_init(struct line_reader* reader, int fd);
void line_reader_free(struct line_reader* reader);
/// One line without its newline, in place, valid until the next call. Waits `idle_ms` for its first
/// byte and `line_ms` more for its end.
enum line_result line_read(struct line_reader* reader, int idle_ms, int line_ms, char** line);

/// Compares in a time that depends only on the length.
bool equal_in_constant_time(const char* left, const char* right, size_t size);
/// Reads and checks a token; `token` has room for MARE_GUEST_TOKEN_MAX + 1. NULL on success, else
/// what is wrong with the file (errno is set when the system refused).
const char* token_load(const char* path, char* token);

/// All bytes, or false; waits up to `timeout_ms` for room each time. Never raises SIGPIPE on a
/// socket.
bool send_all(int fd, const void* bytes, size_t size, int timeout_ms);
void put_be32(unsigned char* at, uint32_t value);
uint32_t get_be32(const unsigned char* at);
void put_be64(unsigned char* at, uint64_t value);
uint64_t clock_ns(int clock);
int64_t monotonic_ms(void);

#endif
