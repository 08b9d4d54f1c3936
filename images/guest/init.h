// The network card of a guest, by ioctl: no program is needed, and none has to be loaded.
#ifndef MARE_IMAGES_GUEST_INIT_H
#define MARE_IMAGES_GUEST_INIT_H

#include <stdbool.h>
#include <stdint.h>

// All false with errno.
bool net_loopback_up(void);
/// "52:54:00:12:34:56"; the card must be down.
bool net_set_mac(const char* card, const char* mac);
/// "10.77.1.2/16"
bool net_up(const char* card, const char* address);
bool net_gateway(const char* address);
/// Does somebody listen there? At most 2 s.
bool net_answers(const char* address, uint16_t port);

#endif
