/* The mutator of GGUF files: changes a count, a value, a length, a type or an offset at its place,
 * which it finds by walking through the file as a reader does. */
#include <string.h>

#include "mutate.h"

enum { PLACES = 8192, STRING = 8, ARRAY = 9 };

typedef struct place {
    size_t at, width;
} place;

typedef struct walk {
    const uint8_t *data;
    size_t size, at;
    place places[PLACES];
    size_t count;
} walk;

/* A number of `width` bytes; marks its place. */
static uint64_t number(walk *w, size_t width)
{
    uint64_t value = 0;
    if (width > w->size - w->at) {
        w->at = w->size;
        return 0;
    }
    memcpy(&value, w->data + w->at, width);
    if (w->count < PLACES)
        w->places[w->count++] = (place){w->at, width};
    w->at += width;
    return value;
}

static void skip_text(walk *w)
{
    uint64_t size = number(w, 8);
    w->at = size > w->size - w->at ? w->size : w->at + (size_t)size;
}

static void skip_value(walk *w, uint64_t type)
{
    static const uint8_t width[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == STRING)
        skip_text(w);
    else if (type < sizeof width && type != ARRAY)
        number(w, width[type]);
    else
        w->at = w->size;
}

static void walk_file(walk *w)
{
    w->at = 4;
    number(w, 4);
    uint64_t tensors = number(w, 8), keys = number(w, 8);
    for (; keys && w->at < w->size; keys--) {
        skip_text(w);
        uint64_t type = number(w, 4), count = 1;
        if (type == ARRAY) {
            type = number(w, 4);
            count = number(w, 8);
        }
        for (; count && w->at < w->size; count--)
            skip_value(w, type);
    }
    for (; tensors && w->at < w->size; tensors--) {
        skip_text(w);
        uint64_t rank = number(w, 4);
        for (; rank && w->at < w->size; rank--)
            number(w, 8);
        number(w, 4);
        number(w, 8);
    }
}

static uint64_t other_number(uint64_t value, uint64_t *seed)
{
    static const uint64_t numbers[] = {
        0, 1, 2, 3, 7, 31, 32, 33, 1024, 1025, 65536, 0x7fffffff, 0x80000000, 16777217, 0xffffffff};
    switch (mutate_draw(seed, 5)) {
    case 0:
        return value + mutate_draw(seed, 17) - 8;
    case 1:
        return value ^ UINT64_C(1) << mutate_draw(seed, 64);
    case 2:
        return ~UINT64_C(0) >> mutate_draw(seed, 64);
    case 3:
        return value * mutate_draw(seed, 9);
    default:
        return numbers[mutate_draw(seed, sizeof numbers / sizeof *numbers)];
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    static walk w;
    uint64_t state = seed, value;
    size_t rounds = 1 + mutate_draw(&state, 3);
    w = (walk){.data = data, .size = size};
    if (size > 24 && !memcmp(data, "GGUF", 4))
        walk_file(&w);
    if (!w.count || !mutate_draw(&state, 8))
        return LLVMFuzzerMutate(data, size, room);
    for (; rounds; rounds--) {
        const place *p = &w.places[mutate_draw(&state, w.count)];
        value = 0;
        memcpy(&value, data + p->at, p->width);
        value = other_number(value, &state);
        memcpy(data + p->at, &value, p->width);
    }
    return size;
}
