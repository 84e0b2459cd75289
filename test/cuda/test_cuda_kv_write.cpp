// Catches: pages that differ from the CPU's in one byte, in every format: rounding, NaN and
// infinity, ties, odd dimensions; a page, head, layer or slot that is mixed up; half a pair of
// tokens that overwrites the other half; rotation that is not that of the row; K or V that is
// absent; wasted sectors in a prefill.
#include "cuda/kernels/kv_write.h"

#include <vector>

#include "dense_case.h"
#include "dense_reference.h"

extern "C" {
void pc__cuda_kv_write_f32(pc__cuda_kv_write), pc__cuda_kv_write_bf16(pc__cuda_kv_write),
    pc__cuda_kv_write_f16(pc__cuda_kv_write);
}

namespace {

const size_t PAGE = PC__CUDA_KV_PAGE;

struct shape {
    uint32_t heads, k_dim, v_dim, dims; // dims: rotated
};
const shape shapes[] = {{2, 64, 64, 64}, {1, 128, 128, 32}, {3, 21, 13, 10}, {2, 6, 10, 0},
                        {1, 96, 40, 48}, {1, 1, 1, 0},      {1, 66, 34, 20}};

// Pages of one run on the device: two layers, of which layer 1 is used, pages in any order.
class device_run {
  public:
    device_run(reference_kv *kv, gpu_model::region_use use)
        : shape(reference_kv_shape(kv)), each(shape.page_bytes * shape.kv_heads),
          pages(reference_kv_bytes(kv) / each), memory("pages", 2 * pages * each, use)
    {
        for (size_t i = 0; i < memory.size; i++)
            memory[i] = 0xaa;
    }
    uint64_t page(size_t i) const // in layer 0; the last one comes first
    {
        return (uint64_t)(uintptr_t)(memory.data() + (pages - 1 - i) * each);
    }
    uint64_t stride() const
    {
        return pages * each;
    }
    uint8_t *at(size_t i) const // in layer 1
    {
        return (uint8_t *)(uintptr_t)(page(i) + stride());
    }
    void set(reference_kv *kv)
    {
        for (size_t i = 0; i < pages; i++)
            memcpy(at(i), reference_kv_pages(kv) + i * each, each);
    }
    size_t differing(reference_kv *kv) const
    {
        size_t count = 0;
        for (size_t i = 0; i < pages; i++)
            for (size_t b = 0; b < each; b++)
                count += at(i)[b] != reference_kv_pages(kv)[i * each + b];
        for (size_t b = 0; b < stride(); b++) // layer 0 is left alone
            count += memory.data()[b] != 0xaa;
        return count;
    }
    const pc__cuda_page_shape shape;
    const size_t each, pages;

  private:
    device<uint8_t> memory;
};

struct written_rows {
    size_t tokens, k_stride, v_stride;
    device<float> k, v, cosine, sine;
    written_rows(random_numbers &random, const shape &s, size_t count, size_t gap)
        : tokens(count), k_stride(s.heads * s.k_dim + gap), v_stride(s.heads * s.v_dim + gap),
          k("k", count * k_stride), v("v", count * v_stride), cosine("cosine", count * s.dims / 2),
          sine("sine", count * s.dims / 2)
    {
        k.fill([&](size_t i) { return i % 7 ? random.normal() : random.odd(); });
        v.fill([&](size_t i) { return i % 7 ? random.normal() : random.odd(); });
        for (size_t i = 0; i < cosine.size; i++) {
            double angle = (double)random.below(10000) / 7;
            cosine[i] = (float)cos(angle);
            sine[i] = (float)sin(angle);
        }
    }
};

// Pieces of tokens [0, tokens): whole pages, or of random lengths.
std::vector<pc__cuda_kv_piece> pieces_of(const device_run &run, random_numbers &random,
                                         size_t tokens, bool whole)
{
    std::vector<pc__cuda_kv_piece> pieces;
    for (size_t at = 0, count; at < tokens; at += count) {
        count = whole ? PAGE : 1 + random.below(random.below(2) ? 3 : 40);
        count = count < PAGE - at % PAGE ? count : PAGE - at % PAGE;
        count = count < tokens - at ? count : tokens - at;
        pieces.push_back({run.page(at / PAGE), run.stride(), (uint32_t)at, (uint32_t)(at % PAGE),
                          (uint32_t)count, 0});
    }
    return pieces;
}

void launch_write(uint32_t format, const pc__cuda_kv_write &t)
{
    gpu_model::extent grid = {t.count, t.shape.kv_heads};
    if (format == REFERENCE_F32)
        run_kernel<pc__cuda_kv_write_f32>(t, grid, PC__CUDA_KV_THREADS);
    else if (format == REFERENCE_BF16)
        run_kernel<pc__cuda_kv_write_bf16>(t, grid, PC__CUDA_KV_THREADS);
    else
        run_kernel<pc__cuda_kv_write_f16>(t, grid, PC__CUDA_KV_THREADS);
}

void write_on_cpu(reference_kv *kv, const shape &s, written_rows &rows, uint32_t interleaved,
                  bool k, bool v)
{
    std::vector<float> turned(s.heads * s.k_dim);
    for (size_t t = 0; t < rows.tokens; t++) {
        reference_rotate(s.dims, interleaved, rows.cosine.data() + t * (s.dims / 2),
                         rows.sine.data() + t * (s.dims / 2), 1.0f,
                         rows.k.data() + t * rows.k_stride, turned.data(), s.heads, s.k_dim);
        reference_kv_write(kv, t, k ? turned.data() : nullptr,
                           v ? rows.v.data() + t * rows.v_stride : nullptr);
    }
}

// Rows into fp32 and 16-bit pages.
void write(random_numbers &random, uint32_t format, const shape &s, size_t tokens, bool whole)
{
    bool interleaved = random.below(2), k = random.below(8) > 0, v = !k || random.below(8) > 0;
    reference_kv *kv = reference_kv_new(format, s.heads, s.k_dim, s.v_dim, tokens);
    device_run run(kv, gpu_model::WRITTEN);
    written_rows rows(random, s, tokens, s.heads == 3 ? 5 : 0);
    run.set(kv); // zeros
    std::vector<pc__cuda_kv_piece> list = pieces_of(run, random, tokens, whole);
    device<pc__cuda_kv_piece> pieces("pieces", list.size());
    pieces.fill([&](size_t i) { return list[i]; });
    pc__cuda_kv_write t = {pieces.data(),
                           k ? rows.k.data() : nullptr,
                           v ? rows.v.data() : nullptr,
                           rows.k_stride,
                           rows.v_stride,
                           {rows.cosine.data(), rows.sine.data(), s.dims, interleaved},
                           run.shape,
                           (uint32_t)list.size(),
                           1};
    write_on_cpu(kv, s, rows, interleaved, k, v);
    launch_write(format, t);
    CHECK_INT(run.differing(kv), 0);
    if (whole && s.k_dim % 64 == 0)
        check_traffic();
    gpu_model::forget_traffic();
    reference_kv_free(kv);
}

} // namespace

int main()
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        random_numbers random(seed);
        for (const shape &s : shapes)
            for (uint32_t format = REFERENCE_F32; format <= REFERENCE_F16; format++) {
                write(random, format, s, 1 + random.below(140), false);
                write(random, format, s, 128, true);
            }
    }
    return pc_test_end();
}
