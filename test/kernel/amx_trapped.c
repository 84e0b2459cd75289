/* The library's own object code on a processor without AMX. A tile instruction raises SIGILL there;
 * the handler decodes it, lets the model carry it out and continues behind it. So the instructions
 * themselves are tested, with their operands and their order among the stores around them. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "amx_emulated.h"
#include "amx_emulation.h"
#include "attn/cpu/amx_level.h"
#include "attn/cpu/kernels_internal.h"

/* One instruction in the three-byte VEX form that all tile instructions have. */
typedef struct instruction {
    const uint8_t *at;
    int prefix; /* 0 none, 1 66, 2 F3, 3 F2 */
    int opcode, mod, reg, rm, v;
    uint8_t *address; /* of a memory operand */
    ptrdiff_t stride; /* its index register, scaled */
    size_t length;
} instruction;

static uint8_t *gpr(const ucontext_t *context, int number)
{
    static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                  REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                  REG_R12, REG_R13, REG_R14, REG_R15};
    uint8_t *value;
    memcpy(&value, &context->uc_mcontext.gregs[order[number]], sizeof value);
    return value;
}

static ptrdiff_t displacement(const uint8_t *at, size_t bytes)
{
    int32_t wide = 0;
    if (bytes == 1)
        return (int8_t)at[0];
    memcpy(&wide, at, bytes);
    return wide;
}

/* The memory operand. A tile load counts rows with the index register; elsewhere it is part of the
 * address. */
static void read_address(instruction *i, const ucontext_t *context, int base_high, int index_high)
{
    const uint8_t *next = i->at + 5;
    size_t bytes = i->mod == 1 ? 1 : i->mod == 2 ? 4 : 0;
    int base = i->rm;
    if (i->rm == 4) {
        int sib = *next++, index = (sib >> 3 & 7) | index_high << 3;
        base = sib & 7;
        if (index != 4)
            i->stride = (ptrdiff_t)(intptr_t)gpr(context, index) * (1 << (sib >> 6));
    }
    if (base == 5 && i->mod == 0) { /* relative to the instruction's end, or to nothing */
        bytes = 4;
        i->address = i->rm == 4 ? NULL : (uint8_t *)(uintptr_t)(next + 4);
    } else {
        i->address = gpr(context, base | base_high << 3);
    }
    i->address += displacement(next, bytes) + (i->opcode == 0x4b ? 0 : i->stride);
    i->length = (size_t)(next - i->at) + bytes;
}

/* 0: not one of them. */
static int decode(instruction *i, const ucontext_t *context)
{
    const uint8_t *b = i->at = (const uint8_t *)(uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    if (b[0] != 0xc4 || (b[1] & 0x1f) != 2 || (b[2] & 0x84)) /* VEX, map 0F38, W0, 128 bits */
        return 0;
    i->prefix = b[2] & 3;
    i->v = ~b[2] >> 3 & 15;
    i->opcode = b[3];
    i->mod = b[4] >> 6;
    i->reg = b[4] >> 3 & 7;
    i->rm = b[4] & 7;
    i->length = 5;
    if (i->mod != 3)
        read_address(i, context, !(b[1] & 0x20), !(b[1] & 0x40));
    return 1;
}

/* Opcode 49: configurations, release, zero. */
static int tile_control(const instruction *i)
{
    if (i->mod != 3 && i->prefix == 0 && i->reg == 0)
        amx_load_config(i->address);
    else if (i->mod == 3 && i->prefix == 0 && i->reg == 0 && i->rm == 0)
        amx_release();
    else if (i->mod == 3 && i->prefix == 3 && i->rm == 0)
        amx_zero(i->reg);
    else
        return 0;
    return 1;
}

/* Opcode 4B. */
static int tile_memory(const instruction *i)
{
    if (i->mod == 3 || i->rm != 4)
        return 0;
    if (i->prefix == 3 || i->prefix == 1)
        amx_load(i->reg, i->address, i->stride);
    else if (i->prefix == 2)
        amx_store(i->reg, i->address, i->stride);
    else
        return 0;
    return 1;
}

static int tile_product(const instruction *i)
{
    if (i->mod != 3)
        return 0;
    if (i->opcode == 0x5c && i->prefix == 2)
        amx_multiply_bf16(i->reg, i->rm, i->v);
    else
        return 0;
    return 1;
}

static void trap(int signal_number, siginfo_t *info, void *user)
{
    ucontext_t *context = user;
    instruction i = {0};
    (void)info;
    if (decode(&i, context)
        && (i.opcode == 0x49   ? tile_control(&i)
            : i.opcode == 0x4b ? tile_memory(&i)
                               : tile_product(&i))) {
        context->uc_mcontext.gregs[REG_RIP] += (greg_t)i.length;
        return;
    }
    fprintf(stderr,
            "signal %d at an instruction that is none of the tiles': %02x %02x %02x %02x %02x\n",
            signal_number, i.at[0], i.at[1], i.at[2], i.at[3], i.at[4]);
    _exit(1);
}

const pc__kernels *amx_trapped(const char *below)
{
    static pc__kernels table;
    struct sigaction action = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO};
    if (!pc__kernels_named(below) || pc__kernels_amx())
        return NULL;
    if (sigaction(SIGILL, &action, NULL))
        return NULL;
    table = *pc__kernels_named(below);
    table.name = "amx, trapped";
    table.attend_bf16 = pc__attend_bf16_amx;
    table.panel_bf16 = pc__panel_bf16_amx;
    return &table;
}
