/* Runs launches of tests on a device. Its memory gets a copy of every region, with room between
 * them that nobody may touch. Addresses of regions, in the task and in the regions themselves, are
 * changed to those of the copies; afterwards everything comes back. */
#include "device_launch.h"

#include "gpu_model.h"
#include <cublasLt.h> // C++ that must not be among C
extern "C" {
#include "cuda_testing.h"
}

namespace {

using gpu_model::region_view;
using views = std::vector<region_view>;
const size_t ALIGNMENT = 512, GAP = 512;
const uint8_t UNTOUCHED = 0xa5;

struct copy_of_region {
    region_view view;
    size_t at;                 // in the image
    std::vector<size_t> moved; // offsets of words that were addresses
};

// What lies on the device: all regions, one after the other.
struct image {
    std::vector<copy_of_region> regions;
    std::vector<uint8_t> sent, got;
    uint8_t *base;       // on the device
    uint64_t first, end; // no region lies outside of these addresses
};

pc_cuda_place place;
bool is_open;

image lay_out(const views &all)
{
    image made = {};
    size_t end = GAP;
    for (const region_view &view : all) { // ordered by address
        uint64_t first = reinterpret_cast<uintptr_t>(view.base);
        made.first = made.regions.empty() ? first : made.first;
        made.end = first + view.bytes;
        made.regions.push_back({view, end, {}});
        end += (view.bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GAP;
    }
    made.sent.assign(end, UNTOUCHED);
    for (const copy_of_region &region : made.regions)
        memcpy(&made.sent[region.at], region.view.base, region.view.bytes);
    return made;
}

// The address on the device of what lies at `address`, also of the end of a region if no other
// begins there; 0: it is no address of a region.
uint64_t on_device(const image &made, uint64_t address)
{
    uint64_t found = 0;
    for (const copy_of_region &region : made.regions) {
        uint64_t offset = address - reinterpret_cast<uintptr_t>(region.view.base);
        if (offset < region.view.bytes || (offset == region.view.bytes && !found))
            found = reinterpret_cast<uintptr_t>(made.base) + region.at + offset;
    }
    return found;
}

std::vector<size_t> move_addresses(const image &made, uint8_t *data, size_t bytes)
{
    std::vector<size_t> moved;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t word, changed;
        memcpy(&word, data + i, sizeof word);
        if (word >= made.first && word <= made.end && (changed = on_device(made, word))) {
            memcpy(data + i, &changed, sizeof changed);
            moved.push_back(i);
        }
    }
    return moved;
}

// Words that no kernel has changed are addresses of the host again.
void take_back(const image &made, const copy_of_region &region)
{
    uint8_t *to = static_cast<uint8_t *>(region.view.base);
    std::vector<uint8_t> before(to, to + region.view.bytes);
    memcpy(to, &made.got[region.at], region.view.bytes);
    for (size_t i : region.moved)
        if (!memcmp(&made.got[region.at + i], &made.sent[region.at + i], 8))
            memcpy(to + i, &before[i], 8);
}

void check(const image &made, const char *kernel)
{
    size_t from = 0;
    for (size_t i = 0; i <= made.regions.size(); i++) {
        size_t to = i < made.regions.size() ? made.regions[i].at : made.got.size();
        for (; from < to; from++)
            if (made.got[from] != UNTOUCHED) {
                const char *before = i ? made.regions[i - 1].view.name : "the first region";
                gpu_model::report_outside(kernel,
                                          (std::string("wrote outside of ") + before).c_str());
                break;
            }
        if (i == made.regions.size())
            return;
        const region_view &view = made.regions[i].view;
        if (view.use == gpu_model::READ_ONLY && memcmp(&made.got[to], &made.sent[to], view.bytes))
            gpu_model::report_outside(kernel, (std::string("changed ") + view.name).c_str());
        from = to + view.bytes;
    }
}

// A device of its own for each launch of the fake one: tests make the model forget all regions,
// which the device's memory is to it.
void close_device()
{
    if (is_open)
        pc_cuda_close(&place);
    is_open = false;
}

pc_status open_device()
{
    if (!is_open)
        PC__TRY_RETURN(pc_cuda_open(&place, nullptr, 0));
    is_open = true;
    return PC_OK;
}

pc_status run(image &made, const pc__cuda_kernel &kernel, const gpu_model::launch_shape &shape,
              std::vector<uint8_t> &task)
{
    pc__cuda_grid grid = {shape.blocks.x, shape.blocks.y, shape.blocks.z};
    int blocks_at_once;
    PC__TRY_RETURN(pc__cuda_kernel_prepare(&kernel, place.device, &blocks_at_once));
    for (copy_of_region &region : made.regions)
        region.moved = move_addresses(made, &made.sent[region.at], region.view.bytes);
    move_addresses(made, task.data(), task.size());
    pc__cuda_copy(place.stream, made.base, made.sent.data(), made.sent.size());
    pc__cuda_launch(place.stream, &kernel, grid, task.data());
    pc__cuda_copy(place.stream, made.got.data(), made.base, made.got.size());
    return pc__cuda_finish(place.stream);
}

pc_status run_all(const gpu_model::kernel_entry &entry, const void *task,
                  const gpu_model::launch_shape &shape, const views &regions)
{
    image made = lay_out(regions);
    std::vector<uint8_t> own(entry.task_bytes);
    void *memory = nullptr;
    pc__cuda_kernel kernel = {entry.function, entry.name.c_str(), shape.threads.x,
                              static_cast<uint32_t>(shape.shared)};
    memcpy(own.data(), task, entry.task_bytes);
    made.got.resize(made.sent.size());
    PC__TRY_RETURN(open_device());
    PC__TRY_RETURN(pc__cuda_pool_take(place.pool, made.sent.size(), &memory));
    made.base = static_cast<uint8_t *>(memory);
    pc_status status = run(made, kernel, shape, own);
    pc__cuda_pool_give(place.pool, memory);
    if (!pc_cuda_real())
        close_device();
    if (status < 0)
        return status;
    check(made, entry.name.c_str());
    for (const copy_of_region &region : made.regions)
        if (region.view.use != gpu_model::READ_ONLY)
            take_back(made, region);
    return PC_OK;
}

bool launch(const gpu_model::kernel_entry &entry, const void *task,
            const gpu_model::launch_shape &shape, const views &regions)
{
    pc_status status = run_all(entry, task, shape, regions);
    if (status < 0)
        gpu_model::report_outside(entry.name.c_str(), pc_error_text());
    return status >= 0;
}

struct at_start {
    at_start()
    {
        if (pc_cuda_real())
            pc_device_launch_begin();
    }
} real_device;

} // namespace

void pc_device_launch_begin(void)
{
    gpu_model::run_elsewhere(launch);
}

void pc_device_launch_end(void)
{
    gpu_model::run_elsewhere(nullptr);
    close_device();
}
