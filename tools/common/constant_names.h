/* Names of the library's constants, for messages and results. */
#ifndef CONSTANT_NAMES_H
#define CONSTANT_NAMES_H

#include <stdint.h>

const char *tier_name(uint32_t tier);     /* PC_TIER_…: "disk" */
const char *reason_name(uint32_t reason); /* PC_REASON_…, in words */

#endif
