/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fewest bytes sent first, in eight classes: what PIAS (Bai et al., NSDI 2015) does at ports, for the host's own link.
 * It needs no sizes. In a class flows take turns. The thresholds are those of tags/pias.h.
 */
#ifndef NCC_ORDER_ATTAINED_H
#define NCC_ORDER_ATTAINED_H

#include "flow_order.h"
#include "flow_tag.h"

#define NCC_ATTAINED_THRESHOLDS 7
#define NCC_ATTAINED_TURN_BITS 61
#define NCC_ATTAINED_AFTER(n_, pkts_)                                                                                  \
    {"after_" #n_ "_pkts", pkts_, 0, 1000000000,                                                                       \
     "packets of 1460 bytes sent, from which on a flow is a class lower; 0: no further class"}

static const struct ncc_cc_param attained_params[] = {
    NCC_ORDER_DEPTH,
    NCC_ATTAINED_AFTER(1, 909),
    NCC_ATTAINED_AFTER(2, 1329),
    NCC_ATTAINED_AFTER(3, 1648),
    NCC_ATTAINED_AFTER(4, 1960),
    NCC_ATTAINED_AFTER(5, 2143),
    NCC_ATTAINED_AFTER(6, 2337),
    NCC_ATTAINED_AFTER(7, 2484),
};

NCC_CC_FN ncc_u64 attained_key(const ncc_u64 *p, const struct ncc_order_flow *f)
{
    const ncc_u64 most = (1ULL << NCC_ATTAINED_TURN_BITS) - 1;
    const ncc_u64 reached = ncc_tag_class(p + 1, NCC_ATTAINED_THRESHOLDS, 1460, f->left_bytes);

    return ((NCC_ATTAINED_THRESHOLDS - reached) << NCC_ATTAINED_TURN_BITS) |
           (f->waited_ns < most ? f->waited_ns : most);
}

NCC_CC_FN ncc_u32 attained_depth(const ncc_u64 *p) { return (ncc_u32)p[0]; }

NCC_ORDER_REGISTER(attained, "fewest bytes sent first, in eight classes (Bai 2015, PIAS, at hosts)")

#endif
