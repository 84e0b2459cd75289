#include "memo/index/faiss_shim.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include <faiss/IndexFlat.h>
#include <faiss/impl/AuxIndexStructures.h>
#include <faiss/impl/DistanceComputer.h>
#include <faiss/impl/HNSW.h>
#include <faiss/invlists/InvertedLists.h>
#include <faiss/utils/distances.h>

extern "C" {
#include "base/module.h"
#include "memo/index/scan_kernels.h"
}

namespace {

using idx = int64_t;
using Kernels = pc__scan_kernels;

// A graph search visits more than this many vectors for each one that it keeps.
constexpr size_t scan_rather = 4;
constexpr int training_rounds = 10;
// Per centre; more of them take longer and hardly improve the lists.
constexpr size_t training_points = 64;

// The `want` nearest so far, in the caller's arrays: a heap that is always full, the farthest on
// top.
class Queue {
    size_t want;
    float *distances;
    int64_t *positions;

  public:
    Queue(size_t k, float *d, int64_t *p) : want(k), distances(d), positions(p)
    {
        faiss::maxheap_heapify(k, d, p);
    }
    void offer(float distance, int64_t position)
    {
        if (distance < distances[0])
            faiss::maxheap_replace_top(want, distances, positions, distance, position);
    }
    void sort()
    {
        size_t found = faiss::maxheap_reorder(want, distances, positions);
        std::fill(distances + found, distances + want, std::numeric_limits<float>::infinity());
        std::fill(positions + found, positions + want, -1);
    }
};

// Distances to consecutive vectors, by our kernels.
class Distances : public faiss::DistanceComputer {
    const float *rows, *query = nullptr;
    size_t dim;
    const Kernels &kernels;

  public:
    Distances(const float *x, size_t d, const Kernels &k) : rows(x), dim(d), kernels(k)
    {
    }
    void set_query(const float *x) override
    {
        query = x;
    }
    float operator()(idx i) override
    {
        return kernels.pair(query, rows + size_t(i) * dim, dim);
    }
    float symmetric_dis(idx i, idx j) override
    {
        return kernels.pair(rows + size_t(i) * dim, rows + size_t(j) * dim, dim);
    }
};

} // namespace

// What the kinds of index have in common.
struct pc__faiss {
    const size_t dim;
    const Kernels &kernels;

    explicit pc__faiss(const pc__faiss_setup &setup) : dim(setup.dim), kernels(*setup.kernels)
    {
    }
    virtual ~pc__faiss() = default;
    pc__faiss(const pc__faiss &) = delete;
    pc__faiss &operator=(const pc__faiss &) = delete;

    virtual void train(size_t, const float *, size_t)
    {
    }
    virtual void add(size_t count, const float *vectors) = 0;
    virtual size_t count() const = 0;
    virtual void search(const float *query, size_t want, size_t probes, float *distances,
                        int64_t *positions) const = 0;
    virtual size_t lists() const
    {
        return 0;
    }
    virtual void rows(float *out) const = 0;
    virtual void export_structure(int32_t *, pc__faiss_structure *) const
    {
    }
    virtual void import_structure(size_t count, const float *vectors, const pc__faiss_structure &)
    {
        add(count, vectors);
    }
};

namespace {

struct Flat final : pc__faiss {
    faiss::IndexFlatL2 index;

    explicit Flat(const pc__faiss_setup &setup) : pc__faiss(setup), index(idx(setup.dim))
    {
    }
    void add(size_t n, const float *vectors) override
    {
        index.add(idx(n), vectors);
    }
    size_t count() const override
    {
        return size_t(index.ntotal);
    }
    void search(const float *query, size_t want, size_t, float *distances,
                int64_t *positions) const override
    {
        // What FAISS's own search does, but outside an OpenMP region.
        Queue queue(want, distances, positions);
        for (size_t i = 0; i < count(); i++)
            queue.offer(faiss::fvec_L2sqr(query, index.get_xb() + i * dim, dim), idx(i));
        queue.sort();
    }
    void rows(float *out) const override
    {
        std::copy_n(index.get_xb(), count() * dim, out);
    }
};

struct Graph final : pc__faiss {
    faiss::HNSW hnsw;
    std::vector<float> vectors;
    // FAISS's linking needs one per vector, although only one thread links here.
    std::vector<omp_lock_t> locks;
    std::minstd_rand order;
    mutable std::mutex tables_lock;
    mutable std::vector<std::unique_ptr<faiss::VisitedTable>> tables; // not in use

    explicit Graph(const pc__faiss_setup &setup)
        : pc__faiss(setup), hnsw(setup.links), order(unsigned(setup.seed + 1))
    {
        hnsw.efConstruction = setup.build;
        hnsw.efSearch = setup.search;
        hnsw.rng = faiss::RandomGenerator(int64_t(setup.seed));
    }
    ~Graph() override
    {
        drop_locks();
    }

    void drop_locks()
    {
        for (; !locks.empty(); locks.pop_back())
            omp_destroy_lock(&locks.back());
    }
    void need_locks(size_t n)
    {
        locks.reserve(n);
        while (locks.size() < n) {
            locks.emplace_back();
            omp_init_lock(&locks.back());
        }
    }
    size_t count() const override
    {
        return hnsw.levels.size();
    }
    void rows(float *out) const override
    {
        std::copy_n(vectors.data(), count() * dim, out);
    }

    void shrink(size_t n)
    {
        vectors.resize(n * dim);
        hnsw.levels.resize(n);
        hnsw.offsets.resize(n + 1);
        hnsw.neighbors.resize(hnsw.offsets[n]);
    }
    // Makes room and levels for n more vectors. Without memory for them nothing changes.
    void extend(size_t n, const float *more)
    {
        size_t before = count();
        if (before + n > size_t(std::numeric_limits<int>::max()))
            throw std::length_error("a graph cannot hold so many vectors");
        try {
            vectors.insert(vectors.end(), more, more + n * dim);
            need_locks(before + n);
            hnsw.prepare_level_tab(n, false);
        } catch (...) {
            shrink(std::min(before, hnsw.levels.size()));
            throw;
        }
    }
    // Links vectors on high levels first, otherwise in random order: linking in the order of
    // adding makes a worse graph.
    void add(size_t n, const float *more) override
    {
        size_t before = count();
        std::vector<int> turn(n);
        faiss::VisitedTable visited(int(before + n));
        extend(n, more);
        std::iota(turn.begin(), turn.end(), int(before));
        std::shuffle(turn.begin(), turn.end(), order);
        std::sort(turn.begin(), turn.end(),
                  [&](int a, int b) { return hnsw.levels[size_t(a)] > hnsw.levels[size_t(b)]; });
        Distances distances(vectors.data(), dim, kernels);
        try {
            for (int position : turn) {
                distances.set_query(vectors.data() + size_t(position) * dim);
                hnsw.add_with_locks(distances, hnsw.levels[size_t(position)] - 1, position, locks,
                                    visited);
            }
        } catch (...) {
            drop_locks(); // the failed call holds one of them
            throw;
        }
    }

    std::unique_ptr<faiss::VisitedTable> table() const
    {
        std::unique_ptr<faiss::VisitedTable> t;
        {
            std::lock_guard<std::mutex> guard(tables_lock);
            if (!tables.empty()) {
                t = std::move(tables.back());
                tables.pop_back();
            }
        }
        if (!t)
            t = std::make_unique<faiss::VisitedTable>(int(count()));
        if (t->visited.size() < count())
            t->visited.resize(count() + count() / 8);
        return t;
    }
    void search(const float *query, size_t want, size_t, float *out,
                int64_t *positions) const override
    {
        Distances distances(vectors.data(), dim, kernels);
        Queue queue(want, out, positions);
        distances.set_query(query);
        if (count() <= scan_rather * std::max(want, size_t(hnsw.efSearch))) {
            for (size_t i = 0; i < count(); i++)
                queue.offer(distances(idx(i)), idx(i));
        } else {
            auto visited = table();
            hnsw.search(distances, int(want), positions, out, *visited);
            visited->advance();
            std::lock_guard<std::mutex> guard(tables_lock);
            tables.push_back(std::move(visited));
        }
        queue.sort();
    }
    void export_structure(int32_t *, pc__faiss_structure *out) const override
    {
        out->levels = hnsw.levels.data();
        out->neighbours = hnsw.neighbors.data();
        out->neighbour_count = hnsw.neighbors.size();
        out->entry = hnsw.entry_point;
        out->top_level = hnsw.max_level;
    }
    void check_structure(size_t n, const pc__faiss_structure &p) const
    {
        size_t numbers = 0;
        int most = int(hnsw.cum_nneighbor_per_level.size()) - 1;
        for (size_t i = 0; i < n; i++) {
            if (p.levels[i] < 1 || p.levels[i] > most)
                throw std::runtime_error("a vector on a level that does not exist");
            numbers += size_t(hnsw.cum_nneighbor_per_level[size_t(p.levels[i])]);
        }
        if (numbers != p.neighbour_count)
            throw std::runtime_error("the number of links does not fit the levels");
        if (n && (p.entry < 0 || size_t(p.entry) >= n || p.top_level != p.levels[p.entry] - 1))
            throw std::runtime_error("the graph has no valid entry point");
    }
    // A link on a level must lead to a vector that is on that level too.
    void check_links() const
    {
        for (size_t i = 0; i < count(); i++)
            for (int level = 0; level < hnsw.levels[i]; level++) {
                size_t begin, end;
                hnsw.neighbor_range(idx(i), level, &begin, &end);
                for (; begin < end; begin++) {
                    int to = hnsw.neighbors[begin];
                    if (to < -1 || to >= int(count())
                        || (to >= 0 && hnsw.levels[size_t(to)] <= level))
                        throw std::runtime_error("a link to a vector that does not exist");
                }
            }
    }
    void import_structure(size_t n, const float *more, const pc__faiss_structure &p) override
    {
        check_structure(n, p);
        hnsw.levels.assign(p.levels, p.levels + n);
        hnsw.offsets.assign(1, 0);
        for (size_t i = 0; i < n; i++)
            hnsw.offsets.push_back(hnsw.offsets.back()
                                   + size_t(hnsw.cum_nneighbor_per_level[size_t(p.levels[i])]));
        hnsw.neighbors.assign(p.neighbours, p.neighbours + p.neighbour_count);
        hnsw.entry_point = n ? p.entry : -1;
        hnsw.max_level = n ? p.top_level : -1;
        check_links();
        vectors.assign(more, more + n * dim);
        need_locks(n);
    }
};

// The centres of IVF's lists, in the blocks of our kernels.
class Centres {
    std::vector<float> room;
    float *blocks = nullptr;
    size_t dim;
    const Kernels &kernels;

  public:
    size_t count = 0;

    Centres(size_t d, const Kernels &k) : dim(d), kernels(k)
    {
    }
    void set(size_t n, const float *x)
    {
        size_t whole = (n + PC__SCAN_BLOCK - 1) / PC__SCAN_BLOCK * PC__SCAN_BLOCK;
        room.assign(whole * dim + 16, 0.0f);
        blocks = room.data()
                 + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64) % 64 / sizeof(float);
        for (size_t i = 0; i < n; i++)
            for (size_t d = 0; d < dim; d++)
                blocks[i / PC__SCAN_BLOCK * PC__SCAN_BLOCK * dim + d * PC__SCAN_BLOCK
                       + i % PC__SCAN_BLOCK] = x[i * dim + d];
        count = n;
    }
    // Calls visit(query, centre, distance) for all pairs.
    template <typename Visit> void all(size_t queries, const float *x, Visit visit) const
    {
        enum { GROUP = 16 };
        float limit[GROUP] = {0}, block_distances[GROUP * PC__SCAN_BLOCK];
        uint32_t hits[GROUP];
        for (size_t q = 0; q < queries; q += GROUP)
            for (size_t first = 0; first < count; first += PC__SCAN_BLOCK) {
                size_t group = std::min(queries - q, size_t(GROUP)),
                       end = std::min(count - first, size_t(PC__SCAN_BLOCK));
                kernels.block(blocks + first * dim, dim, x + q * dim, group, limit, block_distances,
                              hits);
                for (size_t g = 0; g < group; g++)
                    for (size_t i = 0; i < end; i++)
                        visit(q + g, first + i, block_distances[g * PC__SCAN_BLOCK + i]);
            }
    }
    void nearest(size_t queries, const float *x, float *distances, int64_t *lists) const
    {
        std::fill_n(distances, queries, std::numeric_limits<float>::infinity());
        std::fill_n(lists, queries, 0);
        all(queries, x, [&](size_t q, size_t list, float distance) {
            if (distance < distances[q]) {
                distances[q] = distance;
                lists[q] = int64_t(list);
            }
        });
    }
};

// k-means over a sample of the vectors (FAISS's own allocates inside an OpenMP region, too).
// Returns the centres [lists][dim].
std::vector<float> find_centres(size_t n, const float *x, size_t dim, size_t lists,
                                const Kernels &kernels, uint64_t seed)
{
    size_t m = std::min(n, lists * training_points);
    std::vector<size_t> turn(n);
    std::iota(turn.begin(), turn.end(), size_t(0));
    std::shuffle(turn.begin(), turn.end(), std::mt19937_64(seed));
    std::vector<float> some(m * dim), centres, distances(m);
    std::vector<int64_t> list_of(m);
    for (size_t i = 0; i < m; i++)
        std::copy_n(x + turn[i] * dim, dim, some.begin() + ptrdiff_t(i * dim));
    centres.assign(some.begin(), some.begin() + ptrdiff_t(lists * dim));
    Centres blocks(dim, kernels);
    for (int round = 0; round < training_rounds; round++) {
        blocks.set(lists, centres.data());
        blocks.nearest(m, some.data(), distances.data(), list_of.data());
        std::vector<size_t> sizes(lists);
        std::fill(centres.begin(), centres.end(), 0.0f);
        for (size_t i = 0; i < m; i++) {
            float *centre = centres.data() + size_t(list_of[i]) * dim;
            sizes[size_t(list_of[i])]++;
            for (size_t d = 0; d < dim; d++)
                centre[d] += some[i * dim + d];
        }
        for (size_t list = 0; list < lists; list++) {
            float *centre = centres.data() + list * dim;
            if (sizes[list]) {
                for (size_t d = 0; d < dim; d++)
                    centre[d] /= float(sizes[list]);
            } else { // an empty list moves to the vector that is farthest from its centre
                auto far = std::max_element(distances.begin(), distances.end());
                *far = 0.0f;
                std::copy_n(some.data() + (far - distances.begin()) * ptrdiff_t(dim), dim, centre);
            }
        }
    }
    return centres;
}

struct Lists final : pc__faiss {
    Centres centres;
    std::vector<float> plain_centres;
    std::unique_ptr<faiss::ArrayInvertedLists> inverted;
    size_t total = 0;
    uint64_t seed;

    explicit Lists(const pc__faiss_setup &setup)
        : pc__faiss(setup), centres(setup.dim, *setup.kernels), seed(setup.seed)
    {
    }
    size_t count() const override
    {
        return total;
    }
    size_t lists() const override
    {
        return centres.count;
    }

    void set_centres(std::vector<float> &&found)
    {
        size_t n = found.size() / dim;
        auto fresh = std::make_unique<faiss::ArrayInvertedLists>(n, dim * sizeof(float));
        centres.set(n, found.data());
        inverted = std::move(fresh);
        plain_centres = std::move(found);
    }
    void train(size_t n, const float *vectors, size_t lists) override
    {
        set_centres(find_centres(n, vectors, dim, std::min(n, lists), kernels, seed));
    }
    void enter(size_t n, const float *vectors, const int64_t *list_of)
    {
        size_t done = 0;
        try {
            for (; done < n; done++) {
                idx position = idx(total + done);
                inverted->add_entries(size_t(list_of[done]), 1, &position,
                                      reinterpret_cast<const uint8_t *>(vectors + done * dim));
            }
        } catch (...) { // removes what was entered, also in the list that failed
            for (size_t i = 0; i <= done; i++) {
                size_t list = size_t(list_of[i]), size = inverted->ids[list].size();
                while (size && inverted->ids[list][size - 1] >= idx(total))
                    size--;
                inverted->resize(list, size);
            }
            throw;
        }
        total += n;
    }
    void add(size_t n, const float *vectors) override
    {
        std::vector<int64_t> list_of(n);
        std::vector<float> distances(n);
        centres.nearest(n, vectors, distances.data(), list_of.data());
        enter(n, vectors, list_of.data());
    }
    void search(const float *query, size_t want, size_t probes, float *distances,
                int64_t *positions) const override
    {
        Queue queue(want, distances, positions);
        std::vector<std::pair<float, size_t>> near(centres.count);
        centres.all(1, query, [&](size_t, size_t list, float distance) {
            near[list] = {distance, list};
        });
        probes = std::min(probes, near.size());
        std::partial_sort(near.begin(), near.begin() + ptrdiff_t(probes), near.end());
        for (size_t p = 0; p < probes; p++) {
            size_t list = near[p].second, size = inverted->list_size(list);
            const float *codes = reinterpret_cast<const float *>(inverted->get_codes(list));
            const idx *ids = inverted->get_ids(list);
            for (size_t i = 0; i < size; i++)
                queue.offer(kernels.pair(query, codes + i * dim, dim), ids[i]);
        }
        queue.sort();
    }
    template <typename Visit> void each(Visit visit) const
    {
        for (size_t list = 0; list < centres.count; list++)
            for (size_t i = 0; i < inverted->list_size(list); i++)
                visit(list, size_t(inverted->get_ids(list)[i]),
                      inverted->get_codes(list) + i * dim * sizeof(float));
    }
    void rows(float *out) const override
    {
        each([&](size_t, size_t position, const uint8_t *code) {
            std::memcpy(out + position * dim, code, dim * sizeof(float));
        });
    }
    void export_structure(int32_t *room, pc__faiss_structure *out) const override
    {
        each(
            [&](size_t list, size_t position, const uint8_t *) { room[position] = int32_t(list); });
        out->list_of = room;
        out->centres = plain_centres.data();
        out->lists = centres.count;
    }
    void import_structure(size_t n, const float *vectors, const pc__faiss_structure &p) override
    {
        std::vector<int64_t> list_of(p.list_of, p.list_of + n);
        for (int64_t list : list_of)
            if (list < 0 || size_t(list) >= p.lists)
                throw std::runtime_error("a vector in a list that does not exist");
        for (size_t i = 0; i < p.lists * dim; i++)
            if (!(std::fabs(p.centres[i]) <= 1e16f))
                throw std::runtime_error("a centre of a list that is not finite, or beyond 1e16");
        if (!p.lists)
            return;
        set_centres(std::vector<float>(p.centres, p.centres + p.lists * dim));
        enter(n, vectors, list_of.data());
    }
};

// Turns exceptions into results.
template <typename Body> int guarded(char *text, Body body)
{
    try {
        body();
        return PC__FAISS_OK;
    } catch (const std::bad_alloc &) {
        return PC__FAISS_NOMEM;
    } catch (const std::exception &fault) {
        std::snprintf(text, PC__FAISS_TEXT, "%s", fault.what());
    } catch (...) {
        std::snprintf(text, PC__FAISS_TEXT, "an unknown exception");
    }
    return PC__FAISS_FAILED;
}

int create_index(pc__faiss **out, const pc__faiss_setup *setup, char *text)
{
    *out = nullptr;
    return guarded(text, [&] {
        if (setup->kind == PC__FAISS_HNSW)
            *out = new Graph(*setup);
        else if (setup->kind == PC__FAISS_IVF)
            *out = new Lists(*setup);
        else
            *out = new Flat(*setup);
    });
}

void destroy_index(pc__faiss *index)
{
    delete index;
}

int train_index(pc__faiss *index, size_t count, const float *vectors, size_t lists, char *text)
{
    return guarded(text, [&] { index->train(count, vectors, lists); });
}

int add_vectors(pc__faiss *index, size_t count, const float *vectors, char *text)
{
    return guarded(text, [&] { index->add(count, vectors); });
}

size_t count_vectors(const pc__faiss *index)
{
    return index->count();
}

int search_index(const pc__faiss *index, const float *query, size_t want, size_t probes,
                 float *distances, int64_t *positions, char *text)
{
    return guarded(text, [&] { index->search(query, want, probes, distances, positions); });
}

size_t count_lists(const pc__faiss *index)
{
    return index->lists();
}

void copy_rows(const pc__faiss *index, float *out)
{
    index->rows(out);
}

void export_index(const pc__faiss *index, int32_t *list_room, pc__faiss_structure *out)
{
    *out = pc__faiss_structure{};
    index->export_structure(list_room, out);
}

int import_index(pc__faiss *index, size_t count, const float *vectors,
                 const pc__faiss_structure *structure, char *text)
{
    return guarded(text, [&] { index->import_structure(count, vectors, *structure); });
}

pc_status start(const pc__module_host *, const void **table)
{
    static const pc__faiss_functions functions = {
        create_index, destroy_index, train_index, add_vectors,  count_vectors,
        search_index, count_lists,   copy_rows,   export_index, import_index};
    *table = &functions;
    return PC_OK;
}

} // namespace

extern "C" {
PC__MODULE(faiss) = {pc__module_version, pc__module_build, start};
}
