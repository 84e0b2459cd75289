/* Rows of a pool as a packed page in plain C: the reference. */
#include "attn/cpu/pack.h"

PC__PACK_PART pack(const pc__pack_task *task, const int bytes)
{
    pc__pack_k_rest(task, bytes, 0, 0, PC__PAGE);
    for (size_t t = 0; t < PC__PAGE; t += bytes == PC__PACK_16 ? 2 : 1)
        pc__pack_v_rest(task, bytes, t, 0);
}

void pc__pack_f32_c(const pc__pack_task *task)
{
    pack(task, PC__PACK_F32);
}

void pc__pack_16_c(const pc__pack_task *task)
{
    pack(task, PC__PACK_16);
}

void pc__pack_i8_c(const pc__pack_task *task)
{
    pack(task, PC__PACK_I8);
}
