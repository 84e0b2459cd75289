// The declared regions of memory, each with its shadow.
#include "regions.h"
#include "machine.h"
#include "report.h"
#include <algorithm>
#include <memory>
#include <string.h>
#include <sys/mman.h>

namespace gpu_model {

// ---- one memory ------------------------------------------------------------------------------

void memory_make(memory *m, const char *name, void *base, size_t size, region_use use, bool shared)
{
    *m = memory{};
    m->name = name;
    m->base = (uint8_t *)base;
    m->size = size;
    m->use = use;
    m->shared = shared;
    m->cell_count = ((uintptr_t)base % 4 + size + 3) / 4;
    if (use == READ_ONLY || !size || machine.looks_at == VALUES)
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

// ---- all regions -----------------------------------------------------------------------------

static std::vector<std::unique_ptr<memory>> regions; // ordered by address
static memory *last_found;

static auto after(const void *at)
{
    return std::upper_bound(regions.begin(), regions.end(), (const uint8_t *)at,
                            [](const uint8_t *p, const auto &m) { return p < m->base; });
}

const memory *region_below(const void *at)
{
    auto next = after(at);
    return next == regions.begin() ? NULL : (--next)->get();
}

memory *find_region(const void *at)
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

std::vector<region_view> all_regions()
{
    std::vector<region_view> all;
    for (auto &m : regions)
        all.push_back({m->name, m->base, m->size, m->use});
    return all;
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
            split_word(m, word);
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

} // namespace gpu_model
