// Races are found as in FastTrack: each access is compared with the last write and with the readers
// since then. Both have happened before, by clocks.h, or it is a race, in whatever order this run
// had them.
#include "shadow.h"
#include "machine.h"
#include <algorithm>

namespace gpu_model {

int32_t site_of(const void *pc)
{
    return (int32_t)((intptr_t)pc - (intptr_t)&site_of);
}

void *pc_of(int32_t site)
{
    return (void *)((intptr_t)&site_of + site);
}

// ---- order -----------------------------------------------------------------------------------

// Has the access of that thread happened before the running thread's next one?
static inline bool ordered(const thread *t, uint32_t id, uint32_t clock)
{
    if (id < machine.first_id || id == t->id)
        return true;
    uint32_t in_block = id - (t->id - t->index);
    if (in_block < machine.threads) {
        if (clock >> 16 < t->home->barriers)
            return true;
        if (in_block / 32 == t->index / 32 && clock <= t->lanes_known[in_block % 32])
            return true;
    }
    if (!t->others)
        return false;
    uint32_t in_launch = id - machine.first_id, index = in_launch % machine.threads;
    return t->others->has(in_launch / machine.threads, index / 32, index % 32, clock);
}

static inline bool same_block(uint32_t a, uint32_t b)
{
    return a >= machine.first_id && b >= machine.first_id
           && (a - machine.first_id) / machine.threads == (b - machine.first_id) / machine.threads;
}

static inline bool same_warp(uint32_t a, uint32_t b)
{
    uint32_t threads = machine.threads;
    return same_block(a, b)
           && (a - machine.first_id) % threads / 32 == (b - machine.first_id) % threads / 32;
}

static bool warp_ordered(const thread *t, uint32_t member, uint32_t clock)
{
    uint32_t first = member - (member - machine.first_id) % machine.threads % 32;
    for (uint32_t lane = 0; lane < 32; lane++)
        if (!ordered(t, first + lane, clock))
            return false;
    return true;
}

static bool readers_ordered(const thread *t, const memory &m, const cell &c)
{
    switch (c.read_by) {
    case NO_READER:
        return true;
    case ONE_THREAD:
        return ordered(t, c.reader, c.read_at);
    case ONE_WARP:
        return c.reader < machine.first_id || warp_ordered(t, c.reader, c.read_at);
    case ONE_BLOCK: // nothing but a barrier is looked for: no thread of it is noted by itself
        return c.reader < machine.first_id || ordered(t, c.reader, c.read_at | 0xffff);
    case MANY_BLOCKS:
        for (const auto &reader : m.many[c.side])
            if (!ordered(t, reader[0], reader[1]))
                return false;
        return true;
    }
    return true;
}

// ---- readers ---------------------------------------------------------------------------------

static void only_reader(const thread *t, cell *c, int32_t site)
{
    c->read_by = ONE_THREAD;
    c->reader = t->id;
    c->read_at = t->clock;
    c->reader_site = site;
}

static void one_of_many(const thread *t, memory *m, cell *c)
{
    if (c->read_by != MANY_BLOCKS) {
        if (!c->side) {
            c->side = (uint32_t)m->many.size();
            m->many.emplace_back();
        }
        m->many[c->side] = {{c->reader, c->read_at | (c->read_by == ONE_BLOCK ? 0xffffu : 0)}};
        c->read_by = MANY_BLOCKS;
    }
    auto &list = m->many[c->side];
    for (auto &reader : list)
        if (same_block(reader[0], t->id)) { // any of a block stands for all, up to its next barrier
            reader[1] = std::max(reader[1], t->clock | 0xffff);
            return;
        }
    list.push_back({t->id, t->clock});
}

static inline void add_reader(const thread *t, memory *m, cell *c, int32_t site)
{
    if (c->read_by == ONE_BLOCK && same_block(c->reader, t->id)
        && c->read_at >> 16 == t->clock >> 16) {
        c->read_at = std::max(c->read_at, t->clock);
        return;
    }
    if (c->read_by == NO_READER || readers_ordered(t, *m, *c)) {
        only_reader(t, c, site);
        return;
    }
    if (c->read_by == MANY_BLOCKS || !same_block(c->reader, t->id)) {
        one_of_many(t, m, c);
        return;
    }
    c->read_by = c->read_by != ONE_BLOCK && same_warp(c->reader, t->id) ? ONE_WARP : ONE_BLOCK;
    c->read_at = std::max(c->read_at, t->clock);
}

// ---- one cell --------------------------------------------------------------------------------

static inline bool is_written(const memory &m, const cell &c)
{
    return GPU_MODEL_ASAN || m.use == WRITTEN || c.touched; // no hooks see the writes under ASan
}

static inline void check(const thread *t, const memory &m, const cell &c, access_kind kind,
                         verdict *bad)
{
    bool atomic = kind == ATOMIC_READ || kind == ATOMIC_WRITE || kind == ATOMIC_STORE;
    bool reads = kind == READ || kind == ATOMIC_READ;
    if (c.in_flight && !(kind == COPY_LANDS && c.writer == t->id))
        *bad = {IN_FLIGHT, false, c};
    else if ((reads || kind == ATOMIC_WRITE) && !is_written(m, c))
        *bad = {UNWRITTEN_READ, false, c};
    else if (c.writer && !(atomic && (c.atomics & WRITER_ATOMIC))
             && !ordered(t, c.writer, c.written_at))
        *bad = {RACE, false, c};
    else if (!reads && c.read_by != NO_READER && !(atomic && (c.atomics & READERS_ATOMIC))
             && !readers_ordered(t, m, c))
        *bad = {RACE, true, c};
}

static inline void record(const thread *t, memory *m, cell *c, access_kind kind, int32_t site)
{
    if (kind == READ || kind == ATOMIC_READ) {
        bool atomic = kind == ATOMIC_READ
                      && (c->read_by == NO_READER || (c->atomics & READERS_ATOMIC));
        add_reader(t, m, c, site);
        c->atomics = (uint8_t)(atomic ? c->atomics | READERS_ATOMIC : c->atomics & ~READERS_ATOMIC);
        return;
    }
    bool atomic = kind == ATOMIC_WRITE || kind == ATOMIC_STORE;
    c->writer = t->id;
    c->written_at = t->clock;
    c->writer_site = site;
    c->touched = 1;
    c->in_flight = kind == COPY_BEGINS;
    c->read_by = NO_READER;
    c->atomics = (uint8_t)((c->atomics & SPLIT) | (atomic ? WRITER_ATOMIC : 0));
}

// ---- words and bytes -------------------------------------------------------------------------

void split_word(memory *m, cell *word)
{
    uint32_t side = (uint32_t)m->parts.size();
    if (m->free_parts.empty())
        m->parts.emplace_back();
    else {
        side = m->free_parts.back();
        m->free_parts.pop_back();
    }
    for (cell &part : m->parts[side]) {
        part = *word;
        part.side = 0;
        if (word->read_by == MANY_BLOCKS) { // each its own list
            part.side = (uint32_t)m->many.size();
            m->many.push_back(std::vector<std::array<uint32_t, 2>>(m->many[word->side]));
        }
    }
    word->atomics = SPLIT;
    word->side = side;
}

static void touch_bytes(const thread *t, memory *m, cell *word, size_t from, size_t to,
                        access_kind kind, int32_t site, verdict *bad)
{
    if (!(word->atomics & SPLIT))
        split_word(m, word);
    cell *part = m->parts[word->side].data();
    for (size_t i = from; i < to; i++) {
        check(t, *m, part[i], kind, bad);
        record(t, m, &part[i], kind, site);
    }
    if (from == 0 && to == 4 && kind != READ && kind != ATOMIC_READ) { // all four are equal now
        m->free_parts.push_back(word->side);
        *word = part[0];
    }
}

void touch_words(const thread *t, memory *m, const uint8_t *at, size_t bytes, access_kind kind,
                 int32_t site, verdict *bad)
{
    uintptr_t first = (uintptr_t)m->base & ~(uintptr_t)3, place = (uintptr_t)at;
    for (uintptr_t end = place + bytes; place < end;) {
        cell *word = &m->cells[(place - first) / 4];
        size_t from = place % 4, to = std::min<size_t>(4, from + (end - place));
        if (from == 0 && to == 4 && !(word->atomics & SPLIT)) {
            check(t, *m, *word, kind, bad);
            record(t, m, word, kind, site);
        } else
            touch_bytes(t, m, word, from, to, kind, site, bad);
        place += to - from;
    }
}

} // namespace gpu_model
