/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PIAS (Bai et al., NSDI 2015): a flow begins in the first class. Whenever its sent bytes exceed a threshold, it moves
 * one class down. So short flows overtake long ones, although nobody knows sizes. The right thresholds depend on load
 * and sizes. The defaults are those of the released scripts for web search at 80 % load.
 */
#ifndef NCC_TAG_PIAS_H
#define NCC_TAG_PIAS_H

#include "flow_tag.h"

#define NCC_PIAS_HELP "packets of 1460 bytes sent, from which on a flow is a class lower; 0: no further class"
/* Rows of parameters, for the tag and for the order `attained`. */
#define NCC_PIAS_AFTER(n_, pkts_) {"after_" #n_ "_pkts", pkts_, 0, 1000000000, NCC_PIAS_HELP}
#define NCC_PIAS_THRESHOLDS 7
#define NCC_PIAS_PARAMS                                                                                                \
    NCC_PIAS_AFTER(1, 909), NCC_PIAS_AFTER(2, 1329), NCC_PIAS_AFTER(3, 1648), NCC_PIAS_AFTER(4, 1960),                 \
        NCC_PIAS_AFTER(5, 2143), NCC_PIAS_AFTER(6, 2337), NCC_PIAS_AFTER(7, 2484)
static const struct ncc_cc_param pias_params[] = {NCC_PIAS_PARAMS};

/* The class of a flow that has sent this number of bytes. */
NCC_CC_FN ncc_u32 ncc_pias_class(const ncc_u64 *thresholds, ncc_u64 bytes)
{
    return ncc_tag_class(thresholds, NCC_PIAS_THRESHOLDS, 1460, bytes);
}

NCC_CC_FN void pias_tag(const ncc_u64 *p, const struct ncc_tag_packet *k, struct ncc_tag_out *o)
{
    o->prio = ncc_pias_class(p, k->offset_bytes);
}

NCC_TAG_REGISTER(pias, "a class lower after each threshold of bytes sent (Bai 2015, PIAS)")

#endif
