// Races are found as in FastTrack: each access is compared with the last write and with the readers
// since then. Both have happened before, by clocks.h, or it is a race, in whatever order this run
// had them.
#include "shadow.h"
#include "machine.h"
#include "report.h"
#include "source.h"
#include <algorithm>
#include <memory>
#include <sys/mman.h>

namespace gpu_model {

int32_t site_of(const void *pc)
{
    return (int32_t)((intptr_t)pc - (intptr_t)&site_of);
}

void *pc_of(int32_t site)
{
    return (void *)((intptr_t)&site_of + site);
}

void memory_make(memory *m, const char *name, void *base, size_t size, region_use use, bool shared)
{
    *m = memory{};
    m->name = name;
    m->base = (uint8_t *)base;
    m->size = size;
    m->use = use;
    m->shared = shared;
    m->cell_count = ((uintptr_t)base % 4 + size + 3) / 4;
    if (use == READ_ONLY || !size)
        return;
    void *cells = mmap(NULL, m->cell_count * sizeof(cell), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cells == MAP_FAILED)
        fail("no room for the shadow of %s", name);
    m->cells = (cell *)cells;
    m->parts.resize(1); // index 0 means none
    m->many.resize(1);
}

void memory_clear(memory *m)
{
    if (m->cells)
        memset((void *)m->cells, 0, m->cell_count * sizeof(cell));
    m->parts.resize(1);
    m->free_parts.clear();
    m->many.resize(1);
}

void memory_free(memory *m)
{
    if (m->cells)
        munmap((void *)m->cells, m->cell_count * sizeof(cell));
    *m = memory{};
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
    case ONE_BLOCK: // nothing but a barrier is looked for
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

// What is wrong with an access; REPORT_KINDS: nothing.
struct verdict {
    report_kind kind = REPORT_KINDS;
    bool with_reader = false;
    cell seen = {};
};

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

static void split(memory *m, cell *word)
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
        split(m, word);
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

static void touch_words(const thread *t, memory *m, const uint8_t *at, size_t bytes,
                        access_kind kind, int32_t site, verdict *bad)
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

// ---- which memory ----------------------------------------------------------------------------

static std::vector<std::unique_ptr<memory>> regions; // ordered by address
static memory *last_found;

static auto after(const void *at)
{
    return std::upper_bound(regions.begin(), regions.end(), (const uint8_t *)at,
                            [](const uint8_t *p, const auto &m) { return p < m->base; });
}

static memory *find_region(const void *at)
{
    if (last_found && (size_t)((const uint8_t *)at - last_found->base) < last_found->size)
        return last_found;
    auto next = after(at);
    if (next == regions.begin())
        return NULL;
    memory *m = (--next)->get();
    if ((size_t)((const uint8_t *)at - m->base) >= m->size)
        return NULL;
    return last_found = m;
}

static inline memory *find(const thread *t, const void *at)
{
    memory *shared = &t->home->shared;
    if ((size_t)((const uint8_t *)at - shared->base) < shared->size)
        return shared;
    return find_region(at);
}

void region(const char *name, const void *base, size_t bytes, region_use use)
{
    auto m = std::make_unique<memory>();
    auto next = after(base);
    bool above = next != regions.end() && (const uint8_t *)base + bytes > (*next)->base;
    bool below = next != regions.begin()
                 && (size_t)((const uint8_t *)base - next[-1]->base) < next[-1]->size;
    if (above || below)
        fail("the region %s overlaps %s", name, above ? (*next)->name : next[-1]->name);
    memory_make(m.get(), name, (void *)base, bytes, use, false);
    regions.insert(after(base), std::move(m));
}

void forget_region(const void *base)
{
    auto next = after(base);
    if (next == regions.begin() || (*--next)->base != base)
        fail("no region starts at %p", base);
    last_found = NULL;
    memory_free(next->get());
    regions.erase(next);
}

void forget_regions()
{
    last_found = NULL;
    for (auto &m : regions)
        memory_free(m.get());
    regions.clear();
}

static void forget_thread(cell *c)
{
    c->writer = c->reader = 0;
    c->read_by = NO_READER;
}

void forget_threads()
{
    for (auto &m : regions) {
        for (size_t i = 0; i < m->cell_count && m->cells; i++)
            if (m->cells[i].touched || m->cells[i].read_by || (m->cells[i].atomics & SPLIT))
                forget_thread(&m->cells[i]);
        for (auto &part : m->parts)
            for (cell &c : part)
                forget_thread(&c);
    }
}

void mark_written(const void *at, size_t bytes, bool written)
{
    memory *m = bytes ? find_region(at) : NULL;
    if (!m || !m->cells)
        return;
    uintptr_t first = (uintptr_t)m->base & ~(uintptr_t)3, place = (uintptr_t)at;
    for (size_t i = 0; i < bytes; i++, place++) {
        cell *word = &m->cells[(place - first) / 4];
        cell fresh = {};
        fresh.touched = written;
        if (place % 4 == 0 && i + 4 <= bytes) {
            if (word->atomics & SPLIT)
                m->free_parts.push_back(word->side);
            *word = fresh;
            i += 3, place += 3;
            continue;
        }
        if (!(word->atomics & SPLIT))
            split(m, word);
        m->parts[word->side][place % 4] = fresh;
    }
}

region_traffic traffic_of(const void *base)
{
    auto next = after(base);
    return next == regions.begin() || (*--next)->base != base ? region_traffic{} : (*next)->moved;
}

void forget_region_traffic()
{
    for (auto &m : regions)
        m->moved = {};
}

// ---- accesses --------------------------------------------------------------------------------

static const char *verb(access_kind kind)
{
    static const char *const verbs[] = {"reads",
                                        "writes",
                                        "reads",
                                        "changes",
                                        "writes",
                                        "starts an asynchronous copy to",
                                        "ends an asynchronous copy to"};
    return verbs[kind];
}

static std::string place_of(const memory *m, const void *at)
{
    return std::string(m->shared ? "shared memory" : m->name) + " + "
           + std::to_string((const uint8_t *)at - m->base);
}

static std::string who(uint32_t id)
{
    if (id < machine.first_id)
        return "an earlier launch";
    uint32_t index = id - machine.first_id;
    std::string text = "thread " + std::to_string(index % machine.threads);
    uint32_t its_block = index / machine.threads;
    return its_block == machine.now->home->index ? text
                                                 : text + " of block " + std::to_string(its_block);
}

static void tell(const memory *m, const void *at, size_t bytes, access_kind kind, void *pc,
                 const verdict &bad)
{
    std::string text = std::string(verb(kind)) + " " + std::to_string(bytes) + " bytes of "
                       + place_of(m, at);
    const cell &c = bad.seen;
    if (bad.kind == UNWRITTEN_READ)
        report(bad.kind, pc, "%s, which nobody wrote", text.c_str());
    else if (bad.kind == IN_FLIGHT)
        report(bad.kind, pc, "%s, which a copy that %s started at %s has not reached", text.c_str(),
               who(c.writer).c_str(), source_of(pc_of(c.writer_site)).c_str());
    else
        report(bad.kind, pc, "%s, which %s %s at %s; no order between the two", text.c_str(),
               who(bad.with_reader ? c.reader : c.writer).c_str(),
               bad.with_reader ? "read" : "wrote",
               source_of(pc_of(bad.with_reader ? c.reader_site : c.writer_site)).c_str());
}

static void tell_outside(const memory *m, const void *at, size_t bytes, access_kind kind, void *pc)
{
    auto next = after(at);
    const memory *below = next == regions.begin() ? NULL : (--next)->get();
    std::string where = "no region";
    if (m)
        where = "the end of " + place_of(m, at);
    else if (below)
        where = "no region (" + std::to_string((const uint8_t *)at - below->base - below->size)
                + " bytes after " + below->name + ")";
    report(OUTSIDE, pc, "%s %zu bytes at %p, in %s", verb(kind), bytes, at, where.c_str());
}

void check_aligned(const void *at, size_t bytes, void *pc)
{
    if ((uintptr_t)at % bytes == 0)
        return;
    report(MISALIGNED, pc, "an access of %zu bytes at %p", bytes, at);
    stop_launch();
}

// threadIdx and its like
static bool is_index(const void *at)
{
    for (const dim3 *one : {&threadIdx, &blockIdx, &blockDim, &gridDim})
        if ((size_t)((const uint8_t *)at - (const uint8_t *)one) < sizeof *one)
            return true;
    return false;
}

memory *touch(const void *at, size_t bytes, access_kind kind, void *pc)
{
    thread *t = machine.now;
    if (!t || (in_stacks(at) && !in_stack_guard(at)))
        return NULL;
    memory *m = find(t, at);
    if (!m && kind == READ && (is_index(at) || is_constant(at)))
        return NULL;
    if (!m || (const uint8_t *)at + bytes > m->base + m->size) {
        tell_outside(m, at, bytes, kind, pc);
        stop_launch();
    }
    if (!m->cells) {
        if (kind != READ && kind != ATOMIC_READ)
            report(WRITE_READ_ONLY, pc, "%s %zu bytes of %s, which is only read", verb(kind), bytes,
                   place_of(m, at).c_str());
        return m;
    }
    verdict bad;
    touch_words(t, m, (const uint8_t *)at, bytes, kind, site_of(pc), &bad);
    if (__builtin_expect(bad.kind != REPORT_KINDS, 0))
        tell(m, at, bytes, kind, pc, bad);
    return m;
}

// A thread that runs on and on without meeting anybody.
static void check_patience(void *pc)
{
    const uint64_t patience = 20 * 1000 * 1000;
    if (++machine.accesses_in_turn < patience)
        return;
    report(STUCK, pc, "has made %llu accesses without an end",
           (unsigned long long)machine.accesses_in_turn);
    stop_launch();
}

void access(const void *at, size_t bytes, access_kind kind, void *pc)
{
    check_patience(pc);
    memory *m = touch(at, bytes, kind, pc);
    const size_t most = 16; // of one instruction
    for (size_t done = 0; m && done < bytes; done += most)
        machine.now->crew->log.add(machine.now->lane, m, (const uint8_t *)at + done,
                                   std::min(most, bytes - done), kind, site_of(pc));
}

} // namespace gpu_model
