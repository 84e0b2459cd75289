/* Attention over fp16 and int8 K and V with AVX2. */
#include "attn/cpu/vec256.h"

#include "attn/cpu/attend_formats_vec.h"

void pc__attend_f16_avx2(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    attend_f16(task, first_page, last_page);
}

void pc__attend_i8_avx2(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    attend_i8(task, first_page, last_page);
}
