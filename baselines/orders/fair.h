/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fair queueing among a host's flows, which send a packet each in turn: the flow that has waited longest since its last
 * packet goes next. With packets of one size this is Nagle's fair queueing (RFC 970) without its timestamps.
 */
#ifndef NCC_ORDER_FAIR_H
#define NCC_ORDER_FAIR_H

#include "flow_order.h"

static const struct ncc_cc_param fair_params[] = {NCC_ORDER_DEPTH};

NCC_CC_FN ncc_u64 fair_key(const ncc_u64 *p, const struct ncc_order_flow *f)
{
    (void)p;
    return f->waited_ns;
}

NCC_CC_FN ncc_u32 fair_depth(const ncc_u64 *p) { return (ncc_u32)p[0]; }

NCC_ORDER_REGISTER(fair, "a packet each in turn (RFC 970)")

#endif
