/* SPDX-License-Identifier: BSD-3-Clause */
/* Class by the size of the flow, as far as its host knows it. PIAS would do this if it knew sizes. */
#ifndef NCC_TAG_BY_SIZE_H
#define NCC_TAG_BY_SIZE_H

#include "flow_tag.h"

#define NCC_BY_SIZE_HELP "bytes from which on a flow is a class lower; 0: no further class"
static const struct ncc_cc_param by_size_params[] = {
    {"from_1_bytes", 10000, 0, 1000000000000, NCC_BY_SIZE_HELP},
    {"from_2_bytes", 100000, 0, 1000000000000, NCC_BY_SIZE_HELP},
    {"from_3_bytes", 1000000, 0, 1000000000000, NCC_BY_SIZE_HELP},
    {"from_4_bytes", 10000000, 0, 1000000000000, NCC_BY_SIZE_HELP},
    {"from_5_bytes", 0, 0, 1000000000000, NCC_BY_SIZE_HELP},
    {"from_6_bytes", 0, 0, 1000000000000, NCC_BY_SIZE_HELP},
    {"from_7_bytes", 0, 0, 1000000000000, NCC_BY_SIZE_HELP},
};

NCC_CC_FN void by_size_tag(const ncc_u64 *p, const struct ncc_tag_packet *k, struct ncc_tag_out *o)
{
    o->prio = ncc_tag_class(p, 7, 1, k->size_bytes);
}

NCC_TAG_REGISTER(by_size, "a class by the flow's size")

#endif
