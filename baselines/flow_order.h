/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract of an order among a host's flows. Under the host's rate limit, the order decides which flow sends next. It
 * computes a key for each flow from the host's current knowledge of it. Of the flows with a waiting packet, the flow
 * with the largest key sends next; if keys are equal, the flow that has been in the queue longest. Restricted C for
 * simulators and kernel: see cc.h.
 *
 * To add one, write `orders/<name>.h` with NCC_ORDER_REGISTER(<name>, ...) at its end. The build finds it by that line.
 * First in, first out needs no key and is part of the datapath.
 */
#ifndef NCC_FLOW_ORDER_H
#define NCC_FLOW_ORDER_H

#include "cc.h"

/* A host's knowledge of a flow that waits to send. */
struct ncc_order_flow {
    ncc_u64 age_ns;          /* time since the flow arrived */
    ncc_u64 waited_ns;       /* time since a byte of it last left the host, or since it arrived */
    ncc_u64 size_bytes;      /* payload that the host knows of, >= 1; it never falls (Nic.knows of the scenario) */
    ncc_u64 left_bytes;      /* payload that has left the host at least once */
    ncc_u64 delivered_bytes; /* payload that is acknowledged */
};

struct ncc_order_ops {
    const char *name;
    const char *summary; /* one line, with the source */
    const struct ncc_cc_param *params;
    ncc_u32 n_params;
    ncc_u64 (*key)(const ncc_u64 *p, const struct ncc_order_flow *f);
    /* Number of flows to compare: those that have been in the queue longest; 0: all. */
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

/* The first parameter of every order. */
#define NCC_ORDER_DEPTH                                                                                                \
    {"kappa", 0, 0, 65535, "flows, longest in the queue, that are put in order; 0: all (wang2021 Algorithm 3)"}

/* Index of the highest bit set in x >= 1. */
NCC_CC_FN ncc_u32 ncc_top_bit(ncc_u64 x)
{
#ifdef __bpf__ /* clang 14 has no such instruction for BPF */
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

/* log2(x) in units of 2^-16 for x >= 1, to within 0.008. A parabola through the powers of two gives the fraction, so
 * that the result never falls as x rises and costs two multiplications. */
NCC_CC_FN ncc_u64 ncc_log2_q16(ncc_u64 x)
{
    const ncc_u32 whole = ncc_top_bit(x);
    const ncc_u64 part = (whole >= 16 ? x >> (whole - 16) : x << (16 - whole)) - 65536; /* of 2^16 */

    return ((ncc_u64)whole << 16) + part + ((part * (65536 - part) >> 16) * 22713 >> 16);
}

#endif
