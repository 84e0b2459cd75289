/* Hash slots of a cluster: which one a key lies in, and what the nodes say of where it is. Sources:
 * the Redis cluster specification. */
#ifndef PC_STORE_REMOTE_SLOTS_H
#define PC_STORE_REMOTE_SLOTS_H

#include <stddef.h>
#include <stdint.h>

enum { PC__REMOTE_SLOTS = 16384 };

/* CRC16 (XMODEM) of what stands in the first {} of the key, of the whole key if there is none or
 * nothing in it. */
uint32_t pc__remote_slot_of_name(const char *key, size_t size);

/* "3999 127.0.0.1:6381" (behind MOVED or ASK). host [256]; "": the node that has said it. 0: not of
 * this form. */
int pc__remote_slot_parse(const char *text, uint32_t *slot, char *server, uint16_t *port);

#endif
