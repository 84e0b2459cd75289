/* The error text of the calling thread. */
#ifndef PC_BASE_FAIL_H
#define PC_BASE_FAIL_H

#include "base/printable.h" /* PC__QUOTE, for what a text quotes */

/* Sets this thread's error text (one line of at most 511 bytes, made fit to be shown: printable.h)
 * and returns `status`. The text names place and cause: "model.gguf: tensor 'blk.0.attn_q.weight':
 * offset 4096 lies beyond the end of the file". */
pc_status pc__fail(pc_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for a failed system call with errno `error`, which pc__fail_error returns until the next
 * error text is set. */
pc_status pc__fail_system(pc_status status, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int pc__fail_error(void); /* 0: the last error was not set by pc__fail_system */
/* The place in a document that the error text just set is about: for pc_error_place. From 1. */
void pc__fail_place(uint64_t line, uint64_t column);

/* Puts "prefix: " before the error text of a callee and returns `status`. */
pc_status pc__fail_in(pc_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Around a call of the application's function. Before it: forgets the text of an earlier
 * pc_error_set. */
void pc__callback_begin(void);
/* After it has failed: "place: its text", or the text of `status` if it has set none. */
pc_status pc__callback_failed(pc_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* After it has cancelled: "place: its text", or the place alone. PC_ERR_CANCELLED. */
pc_status pc__callback_cancelled(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What a thread's error text is kept in. A copy brings an earlier text back. */
typedef struct pc__error_state {
    char text[512];
    int callback_text_set; /* `text` is of pc_error_set */
    int system_error;      /* errno that `text` is about; 0: none */
    uint64_t line, column; /* that `text` is about; 0: none */
} pc__error_state;

pc__error_state *pc__fail_state(void); /* of the calling thread */
/* Lets the copy of this code in a plug-in module use the error texts of the library
 * (base/module.h). */
void pc__fail_share(pc__error_state *(*state)(void));

/* Runs `call`; on a negative status does `goto label` with `status` set. */
#define PC__TRY(call, label)       \
    do {                           \
        if ((status = (call)) < 0) \
            goto label;            \
    } while (0)

/* The same for a function that has nothing to free: returns the status. Needs no variable. */
#define PC__TRY_RETURN(call)           \
    do {                               \
        pc_status pc__failed = (call); \
        if (pc__failed < 0)            \
            return pc__failed;         \
    } while (0)

#endif
