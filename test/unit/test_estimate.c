/* Catches: predictions that do not follow recent loads, that one stall spoils, that never recover,
 * or that take latency for bandwidth; a failing tier that is asked all the same, or never again;
 * trust by which more than one request in 128 loses time, or none ever again; mixed-up models. */
#include "store/estimate.h"

#include <string.h>

#include "testing.h"

static void follow(double latency, double per_byte)
{
    pc__estimate e;
    static const uint64_t sizes[] = {1000, 100000, 10000000};
    pc__estimate_init(&e);
    for (int i = 0; i < 300; i++) {
        uint64_t bytes = sizes[i % 3];
        pc__estimate_report_load(&e, PC_TIER_DISK, bytes, latency + per_byte * (double)bytes);
    }
    for (size_t i = 0; i < 3; i++) {
        double got = pc__estimate_load(&e, PC_TIER_DISK, sizes[i]),
               want = latency + per_byte * (double)sizes[i];
        CHECK(got > 0.9 * want && got < 1.1 * want);
    }
    pc__estimate_end(&e);
}

static void one_stall(void)
{
    pc__estimate e;
    double before;
    pc__estimate_init(&e);
    for (int i = 0; i < 50; i++)
        pc__estimate_report_load(&e, PC_TIER_REMOTE, 1 << 20, 0.004);
    before = pc__estimate_load(&e, PC_TIER_REMOTE, 1 << 20);
    pc__estimate_report_failure(&e, PC_TIER_REMOTE, 1 << 20, 2, PC_REASON_DEADLINE);
    CHECK(pc__estimate_load(&e, PC_TIER_REMOTE, 1 << 20) < 1.7 * before);
    CHECK_INT(pc__estimate_distrust(&e, PC_TIER_REMOTE), PC_REASON_NONE);
    /* ten times slower for good, and back again */
    for (int i = 0; i < 12; i++)
        pc__estimate_report_load(&e, PC_TIER_REMOTE, 1 << 20, 0.04);
    CHECK(pc__estimate_load(&e, PC_TIER_REMOTE, 1 << 20) > 0.02);
    for (int i = 0; i < 8; i++)
        pc__estimate_report_load(&e, PC_TIER_REMOTE, 1 << 20, 0.004);
    CHECK(pc__estimate_load(&e, PC_TIER_REMOTE, 1 << 20) < 0.006);
    pc__estimate_end(&e);
}

/* A failure at once says nothing about the time of a load. */
static void failing_fast(void)
{
    static const uint32_t reasons[] = {PC_REASON_IO, PC_REASON_DAMAGED};
    for (size_t i = 0; i < 2; i++) {
        pc__estimate e;
        pc__estimate_init(&e);
        double before = pc__estimate_load(&e, PC_TIER_DISK, 1 << 20), after;
        for (int n = 0; n < 20; n++)
            pc__estimate_report_failure(&e, PC_TIER_DISK, 1 << 20, 1e-6, reasons[i]);
        after = pc__estimate_load(&e, PC_TIER_DISK, 1 << 20);
        CHECK(after >= before && after <= before);
        pc__estimate_report_failure(&e, PC_TIER_DISK, 1 << 20, 1, PC_REASON_DEADLINE);
        CHECK(pc__estimate_load(&e, PC_TIER_DISK, 1 << 20) > 1.1 * before);
        pc__estimate_end(&e);
    }
}

static void distrust(void)
{
    pc__estimate e;
    double now = 1000;
    int probes = 0;
    pc__estimate_init(&e);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(pc__estimate_distrust(&e, PC_TIER_DISK), PC_REASON_NONE);
        pc__estimate_report_failure(&e, PC_TIER_DISK, 1000, 0.001, PC_REASON_IO);
    }
    CHECK_INT(pc__estimate_distrust(&e, PC_TIER_DISK), PC_REASON_IO);
    CHECK_INT(pc__estimate_distrust(&e, PC_TIER_REMOTE), PC_REASON_NONE);
    for (int i = 0; i < 6000; i++, now += 0.01)
        if (pc__estimate_probe_is_due(&e, PC_TIER_DISK, now)) {
            pc__estimate_report_failure(&e, PC_TIER_DISK, 1000, 0.001, PC_REASON_IO);
            probes++;
        }
    CHECK(probes >= 7
          && probes <= 15); /* a minute: at least every eight seconds, not all the time */
    pc__estimate_report_load(&e, PC_TIER_DISK, 1000, 0.0001);
    CHECK_INT(pc__estimate_distrust(&e, PC_TIER_DISK), PC_REASON_NONE);
    pc__estimate_end(&e);
}

/* The worst tier: it fails as soon as it is fully trusted. And one that always fails. */
static void trust(void)
{
    pc__estimate e;
    double lost = 0;
    int breaks = 0, since = 0;
    pc__estimate_init(&e);
    for (int i = 0; i < 10000; i++, since++) {
        int broken = pc__estimate_trust(&e, PC_TIER_DISK) >= 1;
        CHECK(!broken || !i || since >= 128);
        breaks += broken;
        since = broken ? 0 : since;
        pc__estimate_update_trust(&e, PC_TIER_DISK, !broken);
    }
    CHECK(breaks >= 2 && breaks <= 1 + 10000 / 128);
    for (int i = 0; i < 1000; i++) {
        lost += pc__estimate_trust(&e, PC_TIER_REMOTE);
        pc__estimate_update_trust(&e, PC_TIER_REMOTE, 0);
    }
    CHECK(lost >= 1
          && lost <= 2); /* what a thousand requests wait together, of the most that one may */
    for (int i = 0; i < 256; i++)
        pc__estimate_update_trust(&e, PC_TIER_REMOTE, 1);
    CHECK(pc__estimate_trust(&e, PC_TIER_REMOTE) >= 1);
    pc__estimate_end(&e);
}

static void computing(void)
{
    pc__estimate e;
    uint8_t a[32] = {1}, b[32] = {2};
    pc__estimate_init(&e);
    CHECK(pc__estimate_compute(&e, a, 100) <= 0);
    pc__estimate_report_compute(&e, a, 100, 1.0);
    CHECK(pc__estimate_compute(&e, b, 100) <= 0);
    CHECK(pc__estimate_compute(&e, a, 100) > 0.99 && pc__estimate_compute(&e, a, 100) < 1.01);
    CHECK(pc__estimate_compute(&e, a, 1000) > 9.9
          && pc__estimate_compute(&e, a, 1000) < 10.1); /* as the nearest that is known */
    pc__estimate_report_compute(&e, a, 1000, 5.0);      /* larger calls are more efficient */
    CHECK(pc__estimate_compute(&e, a, 1000) < 5.1 && pc__estimate_compute(&e, a, 100) > 0.99);
    pc__estimate_report_compute(&e, a, 1000, 50.0); /* disturbed */
    CHECK(pc__estimate_compute(&e, a, 1000) < 10);
    for (uint8_t m = 10; m < 30; m++) { /* more models than places */
        uint8_t other[32] = {m};
        pc__estimate_report_compute(&e, other, 10, 0.1 * m);
        CHECK(pc__estimate_compute(&e, other, 10) > 0.09 * m
              && pc__estimate_compute(&e, other, 10) < 0.11 * m);
    }
    CHECK(pc__estimate_compute(&e, a, 100) <= 0);
    for (uint8_t m = 29; m > 29 - PC__EST_MODELS;
         m--) { /* the last ones are there, the one used longest ago was replaced */
        uint8_t other[32] = {m};
        CHECK(pc__estimate_compute(&e, other, 10) > 0);
    }
    pc__estimate_report_compute(&e, a, 0, 1);
    pc__estimate_report_compute(&e, a, SIZE_MAX, 1);
    CHECK(pc__estimate_compute(&e, a, SIZE_MAX) > 0);
    pc__estimate_end(&e);
}

int main(void)
{
    follow(0.0001, 1e-9);
    follow(0.01, 1e-8);
    follow(0.00002, 1e-10);
    follow(0.1, 1e-10);
    one_stall();
    failing_fast();
    distrust();
    trust();
    computing();
    return pc_test_end();
}
