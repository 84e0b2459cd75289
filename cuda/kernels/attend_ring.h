// The pieces of pages that a block reads, through a ring of slots in shared memory: the copies of
// later pieces are under way while one is computed with. One barrier a piece does both: the copies
// of all threads are there, and all threads are done with the slot that is filled next.
#ifndef PC_CUDA_KERNELS_ATTEND_RING_H
#define PC_CUDA_KERNELS_ATTEND_RING_H

#include "attend_item.h"

// Sizes of one format and shape, as attend.h gives them to the host.
template <uint32_t FORMAT_, uint32_t K_, uint32_t V_> struct attend_shape {
    static constexpr uint32_t FORMAT = FORMAT_, K = K_, V = V_;
    static constexpr uint32_t VECTORS = pc__cuda_tile_vectors(FORMAT, V);
    static constexpr uint32_t V_STRIDE = pc__cuda_v_stride(FORMAT, V);
    static constexpr uint32_t K_PIECE = pc__cuda_k_piece_rows(FORMAT, K, V);
    static constexpr uint32_t V_PIECE = pc__cuda_v_piece_rows(FORMAT, K, V);
    static constexpr uint32_t K_PIECES = pc__cuda_k_rows(FORMAT, K) / K_PIECE;
    static constexpr uint32_t V_PIECES = pc__cuda_v_rows(FORMAT) / V_PIECE;
    static constexpr uint32_t STEP = pc__cuda_step_rows(FORMAT);
    static constexpr uint32_t SCALES = pc__cuda_scale_bytes(FORMAT, K);
    static constexpr uint32_t SLOT = pc__cuda_slot_bytes(FORMAT, K, V);
    static constexpr uint32_t SLOTS = pc__cuda_slots(FORMAT, K, V);
    static constexpr uint32_t QUERY_BYTES = pc__cuda_query_bytes(FORMAT, K, V);
    static constexpr uint32_t V_OFFSET = pc__cuda_v_offset(FORMAT, K);
    static constexpr uint32_t PAGE_BYTES = pc__cuda_page_bytes(FORMAT, K, V);
    static constexpr bool WIDE = pc__cuda_wide(V);
    static_assert(SLOTS > 1, "nothing is copied while a piece is read");

    // words from row to row of K
    static __device__ __forceinline__ uint32_t k_stride()
    {
        return FAULT(NO_PADDING) ? (uint32_t)PC__CUDA_PAGE : (uint32_t)PC__CUDA_K_STRIDE;
    }
};

// Starts copies of `ROWS` rows of `CHUNKS` times 16 bytes, by all threads of the block; `stride`:
// words from row to row of the copy.
template <uint32_t ROWS, uint32_t CHUNKS>
static __device__ __forceinline__ void fetch_rows(const uint8_t *from, uint8_t *to, uint32_t stride)
{
#pragma unroll
    for (uint32_t i = threadIdx.x; i < ROWS * CHUNKS; i += PC__CUDA_BLOCK)
        copy16(to + i / CHUNKS * stride * 4 + i % CHUNKS * 16, from + i * 16);
}

template <class S> struct attend_ring {
    const attend_header *h;
    uint8_t *slots;
    uint32_t pages, piece; // pages that are still to be fetched, and the next piece of the first
    uint32_t fill, read;   // the next slot to fill, and to read

    __device__ __forceinline__ attend_ring(const attend_header *header, uint8_t *at, uint32_t need)
        : h(header), slots(at), pages(need), piece(0), fill(0), read(0)
    {
#pragma unroll 1
        for (uint32_t i = 0; i < S::SLOTS - 1 + FAULT(EARLY_FETCH); i++)
            fetch();
    }

    __device__ __forceinline__ void fetch_piece(const uint8_t *page, uint8_t *slot)
    {
        if (piece < S::K_PIECES) {
            fetch_rows<S::K_PIECE, 16>(page + piece * S::K_PIECE * 256, slot, S::k_stride());
            if constexpr (S::SCALES > 0) {
                uint8_t *scales = slot + S::K_PIECE * S::k_stride() * 4;
                fetch_rows<1, S::K / 8>(page + S::K * PC__CUDA_PAGE, scales, 0);
                fetch_rows<1, PC__CUDA_PAGE / 8>(page + S::V_OFFSET + S::V * PC__CUDA_PAGE,
                                                 scales + S::K * 2, 0);
            }
        } else {
            fetch_rows<S::V_PIECE, S::V / 4>(page + S::V_OFFSET
                                                 + (piece - S::K_PIECES) * S::V_PIECE * S::V * 4,
                                             slot, S::V_STRIDE);
        }
    }

    // Starts the copies of the next piece, if there is one. Always ends a group of copies.
    __device__ __forceinline__ void fetch()
    {
        if (pages) {
            const uint8_t *page = (const uint8_t *)h->page[__ffs((int)pages) - 1];
            for (int i = 0; i <= FAULT(TWICE); i++)
                fetch_piece(page, slots + fill * S::SLOT);
            fill = fill + 1 == S::SLOTS ? 0 : fill + 1;
            piece++;
            if (piece == S::K_PIECES + S::V_PIECES) {
                piece = 0;
                pages &= pages - 1;
            }
        }
        copy_commit();
    }

    // The next piece, in the order of the copies; valid until the next call.
    __device__ __forceinline__ const uint32_t *next()
    {
        const uint8_t *slot = slots + read * S::SLOT;
        if (FAULT(SHORT_WAIT))
            copy_wait<S::SLOTS - 1>();
        else if (!FAULT(NO_WAIT))
            copy_wait<S::SLOTS - 2>();
        if (!FAULT(NO_BARRIER))
            __syncthreads();
        read = read + 1 == S::SLOTS ? 0 : read + 1;
        fetch();
        return (const uint32_t *)slot;
    }
};

#endif
