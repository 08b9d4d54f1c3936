// What a guest is: the words of its kernel line. Of a template there are none yet; its clones get
// theirs from the hypervisor, see identity.c.
#ifndef MARE_IMAGES_GUEST_IDENTITY_H
#define MARE_IMAGES_GUEST_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>

enum { kKernelLineMax = 4096 };

/// Has the line that word, alone or with a value?
bool line_has(const char* line, const char* word);
/// The value of "word=" on the line, copied; false (and "") if it is not there, empty, or too long.
bool line_value(const char* line, const char* word, char* to, size_t size);

/// The kernel line of this boot. False after a message on standard error.
bool identity_own(char line[kKernelLineMax]);
/// The kernel line of this boot; or, in a template, stands still until it is cloned and gives what
/// the clone was told instead, with the kernel's random numbers seeded anew. False after a message
/// on standard error.
bool identity_await(char line[kKernelLineMax]);

#endif
