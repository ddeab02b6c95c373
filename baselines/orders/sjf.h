/* SPDX-License-Identifier: BSD-3-Clause */
/* Shortest job first: the flow with the smallest total size goes first (an alternative in Wang, PhD thesis 2021,
 * section 5.3.3). */
#ifndef NCC_ORDER_SJF_H
#define NCC_ORDER_SJF_H

#include "flow_order.h"

static const struct ncc_cc_param sjf_params[] = {NCC_ORDER_DEPTH};

NCC_CC_FN ncc_u64 sjf_key(const ncc_u64 *p, const struct ncc_order_flow *f)
{
    (void)p;
    return ~f->size_bytes;
}

NCC_CC_FN ncc_u32 sjf_depth(const ncc_u64 *p) { return (ncc_u32)p[0]; }

NCC_ORDER_REGISTER(sjf, "shortest job first (wang2021 section 5.3.3)")

#endif
