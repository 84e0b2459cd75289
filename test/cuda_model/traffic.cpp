// Shared memory has 32 banks of 4 bytes: a wavefront serves one word of each. A warp's access of 8
// or 16 bytes a lane is served in 2 or 4 parts of 16 or 8 lanes. Global memory moves sectors of 32
// bytes.
#include "traffic.h"
#include "regions.h"
#include "report.h"
#include "source.h"
#include <algorithm>
#include <stdio.h>
#include <string>
#include <unordered_map>

namespace gpu_model {

static std::unordered_map<int32_t, traffic> by_site;

void access_log::add(uint32_t lane, memory *m, const void *at, size_t bytes, access_kind kind,
                     int32_t site)
{
    of_lane[lane].push_back({m, (uintptr_t)at, site, (uint16_t)bytes, kind != READ});
}

void access_log::drop()
{
    for (auto &list : of_lane)
        list.clear();
}

// Nearly always, all lanes have run through the same code.
bool access_log::lanes_agree() const
{
    for (size_t lane = 1; lane < 32; lane++) {
        if (of_lane[lane].size() != of_lane[0].size())
            return false;
        for (size_t i = 0; i < of_lane[0].size(); i++)
            if (of_lane[lane][i].site != of_lane[0][i].site)
                return false;
    }
    return true;
}

void access_log::settle()
{
    if (!lanes_agree())
        settle_by_place();
    else
        for (size_t i = 0; i < of_lane[0].size(); i++) {
            const entry *lanes[32];
            for (size_t lane = 0; lane < 32; lane++)
                lanes[lane] = &of_lane[lane][i];
            count(lanes);
        }
    drop();
}

// Lanes have gone different ways: their accesses are put together by place and turn. An
// asynchronous copy has two at one place, but only one where it copies nothing.
void access_log::settle_by_place()
{
    struct instruction {
        const entry *lanes[32];
    };
    struct place {
        uint32_t lane = 32, turns = 0; // of the lane that is looked at
        std::vector<size_t> of_turn;   // indices of instructions
    };
    std::vector<instruction> all;
    std::unordered_map<int64_t, place> places;
    for (uint32_t lane = 0; lane < 32; lane++)
        for (const entry &one : of_lane[lane]) {
            place &at = places[one.site * (int64_t)2 + one.place->shared];
            if (at.lane != lane)
                at.lane = lane, at.turns = 0;
            if (at.turns == at.of_turn.size()) {
                at.of_turn.push_back(all.size());
                all.push_back({});
            }
            all[at.of_turn[at.turns++]].lanes[lane] = &one;
        }
    for (const instruction &one : all)
        count(one.lanes);
}

// One part of an access to shared memory, at most 32 words: the most that one bank has to give.
static void count_banks(const uintptr_t *words, size_t word_count, traffic *sum)
{
    uintptr_t distinct[32][32];
    uint8_t used[32] = {};
    uint8_t most = 0;
    size_t all = 0;
    for (size_t i = 0; i < word_count; i++) {
        size_t bank = words[i] % 32, n = 0;
        while (n < used[bank] && distinct[bank][n] != words[i])
            n++;
        if (n < used[bank])
            continue;
        distinct[bank][n] = words[i];
        most = std::max(most, ++used[bank]);
        all++;
    }
    sum->wavefronts += most;
    sum->least_wavefronts += (all + 31) / 32;
}

// Bytes that lanes ask for, in ascending order, and the pieces of 32 bytes that hold them.
struct asked {
    size_t bytes, sectors;
};

static asked ask(uintptr_t *at, size_t lanes, size_t width)
{
    asked sum = {0, 0};
    uintptr_t end = 0, next_sector = 0; // of what has been counted
    if (!std::is_sorted(at, at + lanes))
        std::sort(at, at + lanes);
    for (size_t i = 0; i < lanes; i++) {
        uintptr_t from = std::max(at[i], end), to = at[i] + width;
        if (to <= from)
            continue;
        sum.bytes += to - from;
        uintptr_t first = std::max(from / 32, next_sector);
        next_sector = (to - 1) / 32 + 1;
        sum.sectors += next_sector - first;
        end = to;
    }
    return sum;
}

static void count_global(memory *m, uintptr_t *at, size_t lanes, size_t width, bool writes,
                         traffic *sum)
{
    asked all = ask(at, lanes, width);
    sum->sectors += all.sectors;
    sum->least_sectors += (all.bytes + 31) / 32;
    (writes ? m->moved.written_sectors : m->moved.read_sectors) += all.sectors;
    (writes ? m->moved.written_bytes : m->moved.read_bytes) += all.bytes;
}

void access_log::count(const entry *const *lanes)
{
    uintptr_t at[32], words[32];
    size_t active = 0, width = 0;
    const entry *any = NULL;
    for (size_t lane = 0; lane < 32; lane++)
        if (lanes[lane]) {
            any = lanes[lane];
            at[active++] = any->at;
            width = std::max<size_t>(width, any->bytes);
        }
    traffic *sum = &by_site[any->site];
    sum->requests++;
    if (!any->place->shared) {
        count_global(any->place, at, active, width, any->writes, sum);
        return;
    }
    size_t part = width <= 4 ? 32 : width <= 8 ? 16 : 8; // lanes that are served together
    for (size_t first = 0; first < 32; first += part) {
        size_t word_count = 0;
        for (size_t lane = first; lane < first + part; lane++)
            for (uintptr_t byte = 0; lanes[lane] && byte < lanes[lane]->bytes; byte += 4)
                words[word_count++] = (lanes[lane]->at + byte) / 4;
        if (word_count)
            count_banks(words, word_count, sum);
    }
}

// ---- sums ------------------------------------------------------------------------------------

static void add(traffic *to, const traffic &more)
{
    to->requests += more.requests;
    to->wavefronts += more.wavefronts;
    to->least_wavefronts += more.least_wavefronts;
    to->sectors += more.sectors;
    to->least_sectors += more.least_sectors;
}

traffic total_traffic()
{
    traffic sum = {};
    for (const auto &site : by_site)
        add(&sum, site.second);
    return sum;
}

static void look_up_sources()
{
    std::vector<void *> all;
    for (const auto &site : by_site)
        all.push_back(pc_of(site.first));
    look_up(all);
}

traffic traffic_at(const char *file, int line)
{
    traffic sum = {};
    look_up_sources();
    std::string place = std::string(file) + ":" + (line ? std::to_string(line) : "");
    for (const auto &site : by_site)
        if (is_from(source_of(pc_of(site.first)), place))
            add(&sum, site.second);
    return sum;
}

void forget_traffic()
{
    by_site.clear();
    forget_region_traffic();
}

static void print_line(const std::string &place, const traffic &t)
{
    fprintf(stderr, "cuda model: %s: %llu requests", place.c_str(), (unsigned long long)t.requests);
    if (t.wavefronts)
        fprintf(stderr, ", %llu wavefronts (%llu without conflicts)",
                (unsigned long long)t.wavefronts, (unsigned long long)t.least_wavefronts);
    if (t.sectors)
        fprintf(stderr, ", %llu sectors (%llu needed)", (unsigned long long)t.sectors,
                (unsigned long long)t.least_sectors);
    fputc('\n', stderr);
}

void print_traffic()
{
    std::vector<std::pair<std::string, traffic>> lines;
    look_up_sources();
    for (const auto &site : by_site) {
        std::string place = source_of(pc_of(site.first));
        auto same = std::find_if(lines.begin(), lines.end(),
                                 [&place](const auto &line) { return line.first == place; });
        if (same == lines.end())
            same = lines.insert(same, {place, traffic{}});
        add(&same->second, site.second);
    }
    std::sort(lines.begin(), lines.end(),
              [](const auto &a, const auto &b) { return a.first < b.first; });
    for (const auto &line : lines)
        if (line.second.wavefronts > line.second.least_wavefronts
            || line.second.sectors > line.second.least_sectors)
            print_line(line.first, line.second);
    print_line("all", total_traffic());
}

} // namespace gpu_model
