/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shortest remaining first: the flow with the fewest bytes that have not left the host yet goes first. For one server
 * that knows the sizes, no order has a lower mean completion time (Schrage 1968).
 */
#ifndef NCC_ORDER_SRPT_H
#define NCC_ORDER_SRPT_H

#include "flow_order.h"

static const struct ncc_cc_param srpt_params[] = {NCC_ORDER_DEPTH};

NCC_CC_FN ncc_u64 srpt_key(const ncc_u64 *p, const struct ncc_order_flow *f)
{
    (void)p;
    return ~(f->size_bytes - f->left_bytes); /* retransmissions of a flow that has left completely go first */
}

NCC_CC_FN ncc_u32 srpt_depth(const ncc_u64 *p) { return (ncc_u32)p[0]; }

NCC_ORDER_REGISTER(srpt, "shortest remaining first (Schrage 1968)")

#endif
