/* Hash slots of a cluster: the slot of a key, and slots in redirections. Source: the Redis cluster
 * specification. */
#ifndef PC_STORE_REMOTE_SLOTS_H
#define PC_STORE_REMOTE_SLOTS_H

#include <stddef.h>
#include <stdint.h>

enum { PC__REMOTE_SLOTS = 16384 };

/* CRC16 (XMODEM) of the text in the key's first {}; of the whole key if there is none, or it is
 * empty. */
uint32_t pc__remote_slot_of_name(const char *key, size_t size);

/* Parses "3999 127.0.0.1:6381", the arguments of MOVED and ASK. server [256]; "": the node that
 * sent it. 0: another form. */
int pc__remote_slot_parse(const char *text, uint32_t *slot, char *server, uint16_t *port);

#endif
