/* An object that a call uses lives until the call returns, even if a function of the application
 * frees it meanwhile (doc/threading.md). So each public function that may call one (the allocator
 * and the log are such functions, too) begins with PC__HOLD(pc_model, model) for its objects. It
 * takes a reference that the compiler drops wherever the function returns. */
#ifndef PC_BASE_HOLD_H
#define PC_BASE_HOLD_H

#include <stdint.h>

/* Beside the functions that count references: `ref` gets no NULL, `unref` may. */
#define PC__HOLDABLE(type, ref, unref)                          \
    static inline const type *pc__hold_##type(const type *of)   \
    {                                                           \
        if (of)                                                 \
            (void)ref((type *)(uintptr_t)of);                   \
        return of;                                              \
    }                                                           \
    static inline void pc__let_go_##type(const type *const *of) \
    {                                                           \
        unref((type *)(uintptr_t)*of);                          \
    }

/* Before any goto of the function; `object` may be NULL. */
#define PC__HOLD(type, object)                          \
    __attribute__((cleanup(pc__let_go_##type), unused)) \
    const type *const held_##object = pc__hold_##type(object)

#endif
