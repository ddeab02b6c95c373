/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Order by known size, in eight classes: the class of the smallest sizes goes first. A kernel with queues in strict
 * priority can do this. A host that knows only the bytes written so far still knows nearly all of a short flow at once.
 * A known size never falls, so that a flow moves only to later classes, and no packet overtakes an earlier one of its
 * flow. In a class, the flow of which most bytes have left goes first. In the last class, where any flow may be long,
 * flows take turns. With a class for each size this would be `sjf`.
 *
 * The thresholds are ours, not measured: they divide the flow sizes of datacentres evenly.
 */
#ifndef NCC_ORDER_KNOWN_H
#define NCC_ORDER_KNOWN_H

#include "flow_order.h"

#define NCC_KNOWN_THRESHOLDS 7
#define NCC_KNOWN_MOST (1ULL << 40)
#define NCC_KNOWN_TURN_BITS 61
#define NCC_KNOWN_CLASS(n_, bytes_)                                                                                    \
    {"class" #n_ "_bytes", bytes_, 0, NCC_KNOWN_MOST, "bytes; largest known size of a flow in class " #n_ " of 8"}

static const struct ncc_cc_param known_params[] = {
    NCC_ORDER_DEPTH,           NCC_KNOWN_CLASS(1, 2000),   NCC_KNOWN_CLASS(2, 8000),   NCC_KNOWN_CLASS(3, 20000),
    NCC_KNOWN_CLASS(4, 40000), NCC_KNOWN_CLASS(5, 100000), NCC_KNOWN_CLASS(6, 300000), NCC_KNOWN_CLASS(7, 1000000),
};

NCC_CC_FN ncc_u64 known_key(const ncc_u64 *p, const struct ncc_order_flow *f)
{
    const ncc_u64 most = (1ULL << NCC_KNOWN_TURN_BITS) - 1;
    ncc_u64 above = 0, turn;

    for (ncc_u32 i = 1; i <= NCC_KNOWN_THRESHOLDS; ++i)
        above += f->size_bytes > p[i];
    turn = above < NCC_KNOWN_THRESHOLDS ? f->left_bytes : f->waited_ns;
    return ((NCC_KNOWN_THRESHOLDS - above) << NCC_KNOWN_TURN_BITS) | (turn < most ? turn : most);
}

NCC_CC_FN ncc_u32 known_depth(const ncc_u64 *p) { return (ncc_u32)p[0]; }

NCC_ORDER_REGISTER(known, "smallest known size first, in eight classes")

#endif
