/* The AMX kernels; contracts: attn/kernels.h. */
#ifndef PC_ATTN_CPU_KERNELS_AMX_H
#define PC_ATTN_CPU_KERNELS_AMX_H

#include "attn/kernels.h"

void pc__attend_bf16_amx(const pc__attn_task *task, size_t first_page, size_t last_page);
void pc__panel_bf16_amx(const pc__panel_task *task);
void pc__panel_quantised_amx(const pc__quantised_task *task);

#endif
