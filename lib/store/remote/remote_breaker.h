/* Leaves a server that fails alone for a while: first 0.1 s, twice as long after each failed try,
 * at most 30 s, each a quarter shorter or longer by chance so that many clients do not come back at
 * once. One try at a time tells whether it is back. Not locked. */
#ifndef PC_STORE_REMOTE_BREAKER_H
#define PC_STORE_REMOTE_BREAKER_H

typedef struct pc__remote_breaker { /* zero-initialised: closed */
    double open_until;              /* pc__now clock */
    double open_seconds;            /* 0: closed */
    int probing;
} pc__remote_breaker;

int pc__remote_breaker_allows(const pc__remote_breaker *breaker,
                              double now); /* pc__breaker_enter would give non-zero */
/* 0: leave it alone. Else what pc__breaker_done wants back: PC__BREAKER_OPEN_WAY, or
 * PC__BREAKER_TRY for the one that finds out. */
int pc__remote_breaker_enter(pc__remote_breaker *breaker, double now);
/* What became of it. `chance` in [0, 1). Non-zero: it has changed between open and closed. */
int pc__remote_breaker_done(pc__remote_breaker *breaker, int permit, int ok, double now,
                            double chance);
/* It was not tried after all. */
void pc__remote_breaker_cancel(pc__remote_breaker *breaker, int permit);

enum { PC__REMOTE_BREAKER_CLOSED = 1, PC__REMOTE_BREAKER_PROBE = 2 };

#endif
