// Asks images/guest/identity.c from a command line:
//   value LINE WORD SIZE | has LINE WORD | own
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "images/guest/identity.h"

int main(int argc, char** argv) {
  if (argc == 5 && strcmp(argv[1], "value") == 0) {
    char value[256];
    const size_t size = (size_t)strtoul(argv[4], NULL, 10);
    if (size > sizeof value || !line_value(argv[2], argv[3], value, size)) return 1;
    puts(value);
    return 0;
  }
  if (argc == 4 && strcmp(argv[1], "has") == 0) return line_has(argv[2], argv[3]) ? 0 : 1;
  static char line[kKernelLineMax];
  if (argc == 2 && strcmp(argv[1], "own") == 0 && identity_own(line)) {
    puts(line);
    return 0;
  }
  return 2;
}
