/* CRC16 and the text of redirections. */
#include "store/remote/remote_slots.h"

#include <stdlib.h>
#include <string.h>

static uint32_t crc16(const char *data, size_t size)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < size; i++) {
        crc ^= (uint32_t)(unsigned char)data[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
    }
    return crc;
}

uint32_t pc__remote_slot_of_name(const char *key, size_t size)
{
    const char *open = memchr(key, '{', size);
    const char *close = open ? memchr(open + 1, '}', size - (size_t)(open + 1 - key)) : NULL;
    if (close && close > open + 1)
        return crc16(open + 1, (size_t)(close - open - 1)) % PC__REMOTE_SLOTS;
    return crc16(key, size) % PC__REMOTE_SLOTS;
}

int pc__remote_slot_parse(const char *text, uint32_t *slot, char *server, uint16_t *port)
{
    char *end;
    const char *colon = strrchr(text, ':');
    unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end != ' ' || value >= PC__REMOTE_SLOTS || !colon || colon < end
        || colon - end > 256)
        return 0;
    *slot = (uint32_t)value;
    memcpy(server, end + 1, (size_t)(colon - end - 1));
    server[colon - end - 1] = 0;
    value = strtoul(colon + 1, &end, 10);
    *port = (uint16_t)value;
    return end > colon + 1 && !*end && value > 0 && value < 65536;
}
