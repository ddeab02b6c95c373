/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PICC's order of answers at a gathering server (Wang, PhD thesis 2021, section 4.1.3): of the first ten answers in the
 * queue the one with the largest M = tau^3 / B goes first (4.2), where tau is its time in the queue and B its size. It
 * is computed as a logarithm: log2 M = 3 log2 tau - log2 B. 1 ns is added to tau.
 */
#ifndef NCC_ORDER_PICC_H
#define NCC_ORDER_PICC_H

#include "flow_order.h"

#define NCC_PICC_ZERO (1ULL << 40) /* keys are larger or smaller than this, and never negative */

static const struct ncc_cc_param picc_params[] = {
    {"kappa", 10, 0, 65535, "flows, longest in the queue, that are put in order; 0: all (wang2021 section 4.1.3)"},
    {"exponent_milli", 3000, 0, 10000, "1/1000; weight of the waiting time (wang2021 eq. 4.2)"},
};

NCC_CC_FN ncc_u64 picc_key(const ncc_u64 *p, const struct ncc_order_flow *f)
{
    return NCC_PICC_ZERO + p[1] * ncc_log2_q16(f->age_ns + 1) / 1000 - ncc_log2_q16(f->size_bytes);
}

NCC_CC_FN ncc_u32 picc_depth(const ncc_u64 *p) { return (ncc_u32)p[0]; }

NCC_ORDER_REGISTER(picc, "PICC's order of answers, waiting^3 / size among the first ten (wang2021 eq. 4.2)")

#endif
