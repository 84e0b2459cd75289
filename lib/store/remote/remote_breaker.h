/* A circuit breaker: it pauses a server that fails. The first pause is 0.1 s; each failed attempt
 * after it doubles the pause, up to 30 s. Each is up to a quarter shorter or longer by chance, so
 * that many clients do not return at once. After a pause one attempt, the probe, decides. Not
 * locked. */
#ifndef PC_STORE_REMOTE_BREAKER_H
#define PC_STORE_REMOTE_BREAKER_H

typedef struct pc__remote_breaker { /* zero-initialised: closed, the server is used */
    double open_until;              /* pc__now clock */
    double open_seconds;            /* of the current pause; 0: closed */
    int probing;
} pc__remote_breaker;

enum { PC__REMOTE_BREAKER_CLOSED = 1, PC__REMOTE_BREAKER_PROBE = 2 };

/* 1: pc__remote_breaker_enter would allow an attempt. */
int pc__remote_breaker_allows(const pc__remote_breaker *breaker, double now);
/* 0: paused. Else a permit, PC__REMOTE_BREAKER_…, for one of the following two. */
int pc__remote_breaker_enter(pc__remote_breaker *breaker, double now);
/* The attempt succeeded or failed. `chance` in [0, 1). 1: the breaker has opened or closed. */
int pc__remote_breaker_done(pc__remote_breaker *breaker, int permit, int ok, double now,
                            double chance);
/* There was no attempt. */
void pc__remote_breaker_cancel(pc__remote_breaker *breaker, int permit);

#endif
