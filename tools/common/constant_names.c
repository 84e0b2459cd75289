/* Names of tiers and of reasons. */
#include "constant_names.h"

#include <promptcache.h>

const char *tier_name(uint32_t tier)
{
    static const char *const names[PC_TIER_COUNT] = {"?",          "device", "ram",
                                                     "compressed", "disk",   "remote"};
    return names[tier < PC_TIER_COUNT ? tier : 0];
}

const char *reason_name(uint32_t reason)
{
    static const char *const names[] = {"nothing missing",
                                        "first use",
                                        "cache=\"false\"",
                                        "no room in the cache",
                                        "baseline",
                                        "repair",
                                        "another prefix",
                                        "loading is slower than computing",
                                        "loading took too long",
                                        "a damaged record",
                                        "a foreign record",
                                        "reading failed",
                                        "the server does not answer",
                                        "expired",
                                        "its tenant's quota",
                                        "used too seldom",
                                        "nothing of this length",
                                        "nothing alike",
                                        "not trained or tuned yet",
                                        "its loss has drifted",
                                        "not a plain prompt",
                                        "exact states are at hand",
                                        "kept, but of any kernels"};
    return reason < sizeof names / sizeof *names ? names[reason] : "?";
}
