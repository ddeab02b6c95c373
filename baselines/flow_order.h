/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract of an order among a host's flows: which of them gets the next turn under the rate limit. The same
 * restricted C as the controllers of cc.h, for simulators and kernel. An order is a key per flow, worked out from what
 * the host knows of it now; of the flows that have a packet waiting the one with the largest key goes next, of equals
 * the one that has been in the queue longest.
 *
 * To add one: write `orders/<name>.h` with NCC_ORDER_REGISTER(<name>, ...) at its end. The build finds it by that line.
 * First in, first out, which needs no key, is the datapath's own.
 */
#ifndef NCC_FLOW_ORDER_H
#define NCC_FLOW_ORDER_H

#include "cc.h"

/* What a host knows of a flow that waits for its turn. */
struct ncc_order_flow {
    ncc_u64 age_ns;          /* since it arrived */
    ncc_u64 waited_ns;       /* since a byte of it last left the host; since it arrived if none has */
    ncc_u64 size_bytes;      /* payload, >= 1 */
    ncc_u64 left_bytes;      /* of it, that has left the host at least once */
    ncc_u64 delivered_bytes; /* of it, that is acknowledged */
};

struct ncc_order_ops {
    const char *name;
    const char *summary; /* one line, with the source */
    const struct ncc_cc_param *params;
    ncc_u32 n_params;
    ncc_u64 (*key)(const ncc_u64 *p, const struct ncc_order_flow *f);
    /* How many flows are looked at, those longest in the queue; 0: all. */
    ncc_u32 (*depth)(const ncc_u64 *p);
};

/* Expects <name>_params[], <name>_key, <name>_depth. BPF programs call the functions directly. */
#ifdef __bpf__
#define NCC_ORDER_REGISTER(name_, summary_)
#else
#define NCC_ORDER_REGISTER(name_, summary_)                                                                            \
    NCC_CC_STATIC_ASSERT(sizeof(name_##_params) <= NCC_CC_PARAMS_MAX * sizeof(struct ncc_cc_param),                    \
                         "too many parameters");                                                                       \
    static const struct ncc_order_ops name_##_order = {                                                                \
        #name_,      summary_,     name_##_params, (ncc_u32)(sizeof(name_##_params) / sizeof(name_##_params[0])),      \
        name_##_key, name_##_depth};
#endif

/* The parameter that every order has first. */
#define NCC_ORDER_DEPTH                                                                                                \
    {"kappa", 0, 0, 65535, "flows, longest in the queue, that are put in order; 0: all (wang2021 Algorithm 3)"}

/* Of the highest bit set in x >= 1. */
NCC_CC_FN ncc_u32 ncc_top_bit(ncc_u64 x)
{
#ifdef __bpf__ /* clang 14 has no such instruction for it */
    ncc_u32 bit = 0;

    for (ncc_u32 step = 32; step; step >>= 1) {
        if (x >> step) {
            x >>= step;
            bit += step;
        }
    }
    return bit;
#else
    return 63u - (ncc_u32)__builtin_clzll(x);
#endif
}

/* log2(x) in units of 2^-16 for x >= 1, to within 0.008: the fraction by a parabola through the powers of two, so that
 * it rises wherever x does and costs two multiplications. */
NCC_CC_FN ncc_u64 ncc_log2_q16(ncc_u64 x)
{
    const ncc_u32 whole = ncc_top_bit(x);
    const ncc_u64 part = (whole >= 16 ? x >> (whole - 16) : x << (16 - whole)) - 65536; /* of 2^16 */

    return ((ncc_u64)whole << 16) + part + ((part * (65536 - part) >> 16) * 22713 >> 16);
}

#endif
