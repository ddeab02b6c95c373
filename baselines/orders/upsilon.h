/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCC's flow order (Wang, PhD thesis 2021, section 5.3.3, Algorithm 3): the flow with the largest Upsilon goes first,
 *
 *   Upsilon = tau^omega / (s R)     (5.22)
 *
 * tau: time since a byte of the flow last left the host; s: its size; R: its remaining completion time, estimated as
 * remaining bytes / current throughput. Only the kappa flows that have been in the queue longest are compared.
 *
 * It is computed as a logarithm, which keeps the order and cannot overflow:
 *   log2 Upsilon = omega log2 tau + log2 throughput - log2 s - log2 remaining.
 *
 * The thesis leaves some choices open. Here throughput is (delivered bytes + one packet) / (age of the flow + 1 us), so
 * that it is never 0. 1 ns is added to tau. The values of omega and kappa are ours. With omega = 0 the flow with the
 * smallest product of size and remaining time goes first. The larger omega is, the more the longest wait decides. With
 * omega > 0 no flow waits forever.
 */
#ifndef NCC_ORDER_UPSILON_H
#define NCC_ORDER_UPSILON_H

#include "flow_order.h"

#define NCC_UPSILON_ZERO (1ULL << 40) /* keys are larger or smaller than this, and never negative */

static const struct ncc_cc_param upsilon_params[] = {
    NCC_ORDER_DEPTH,
    {"omega_milli", 1000, 0, 10000, "1/1000; weight of the waiting time (wang2021 eq. 5.22)"},
};

NCC_CC_FN ncc_u64 upsilon_key(const ncc_u64 *p, const struct ncc_order_flow *f)
{
    const ncc_u64 remaining_bytes = f->size_bytes - f->delivered_bytes;
    const ncc_u64 waiting = p[1] * ncc_log2_q16(f->waited_ns + 1) / 1000;
    const ncc_u64 throughput = ncc_log2_q16(f->delivered_bytes + 1500);
    const ncc_u64 age = ncc_log2_q16(f->age_ns + 1000);

    return NCC_UPSILON_ZERO + waiting + throughput - age - ncc_log2_q16(f->size_bytes) -
           ncc_log2_q16(remaining_bytes + 1);
}

NCC_CC_FN ncc_u32 upsilon_depth(const ncc_u64 *p) { return (ncc_u32)p[0]; }

NCC_ORDER_REGISTER(upsilon, "NCC's flow order, waiting^omega / (size x remaining time) (wang2021 eq. 5.22)")

#endif
