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
                                        "reuse was not wanted",
                                        "repair",
                                        "something before it differs",
                                        "loading is slower than computing",
                                        "loading took too long",
                                        "a damaged record",
                                        "a record of another model, format or salt",
                                        "reading failed",
                                        "the server does not answer",
                                        "expired",
                                        "the quota of its tenant is full",
                                        "used too rarely to be written",
                                        "no record of this length",
                                        "no record is similar enough",
                                        "not trained or tuned yet",
                                        "reuse lost more than it may",
                                        "not a plain prompt",
                                        "the cache has exact states",
                                        "stored, but perhaps by other kernels"};
    return reason < sizeof names / sizeof *names ? names[reason] : "?";
}
