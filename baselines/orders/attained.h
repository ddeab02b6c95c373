/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Order by bytes sent, in eight classes: the class of the flows that have sent the fewest goes first. PIAS (Bai et al.,
 * NSDI 2015) does this at switch ports; here the host does it for its own link. The order needs no sizes. Flows of one
 * class take turns. The thresholds are those of tags/pias.h.
 */
#ifndef NCC_ORDER_ATTAINED_H
#define NCC_ORDER_ATTAINED_H

#include "flow_order.h"
#include "tags/pias.h"

#define NCC_ATTAINED_TURN_BITS 61

static const struct ncc_cc_param attained_params[] = {NCC_ORDER_DEPTH, NCC_PIAS_PARAMS};

NCC_CC_FN ncc_u64 attained_key(const ncc_u64 *p, const struct ncc_order_flow *f)
{
    const ncc_u64 most = (1ULL << NCC_ATTAINED_TURN_BITS) - 1;
    const ncc_u64 later = NCC_PIAS_THRESHOLDS - ncc_pias_class(p + 1, f->left_bytes);

    return (later << NCC_ATTAINED_TURN_BITS) | (f->waited_ns < most ? f->waited_ns : most);
}

NCC_CC_FN ncc_u32 attained_depth(const ncc_u64 *p) { return (ncc_u32)p[0]; }

NCC_ORDER_REGISTER(attained, "fewest bytes sent first, in eight classes (Bai 2015, PIAS, at hosts)")

#endif
