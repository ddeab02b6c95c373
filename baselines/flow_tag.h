/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract of a tag: the class and the rank that a host gives to a data packet, by its knowledge of the packet's flow.
 * Ports use them if they have classes or serve by rank (switch.h). Packets without data have class 0 and rank 0.
 * Restricted C: see cc.h.
 *
 * To add one, write `tags/<name>.h` with NCC_TAG_REGISTER(<name>, ...) at its end. The build finds it by that line.
 */
#ifndef NCC_FLOW_TAG_H
#define NCC_FLOW_TAG_H

#include "cc.h"

/* A data packet as TCP hands it down. */
struct ncc_tag_packet {
    ncc_u64 offset_bytes;    /* payload of its flow before it */
    ncc_u64 payload_bytes;   /* >= 1 */
    ncc_u64 size_bytes;      /* payload of its flow as far as its host can tell, >= 1 (Nic.knows of the scenario) */
    ncc_u64 delivered_bytes; /* payload of its flow that is acknowledged */
};

struct ncc_tag_out {
    ncc_u32 prio; /* class, 0: the most urgent; a port with fewer classes takes its last */
    ncc_u32 rank; /* smaller is more urgent */
};

struct ncc_tag_ops {
    const char *name;
    const char *summary; /* one line, with the source */
    const struct ncc_cc_param *params;
    ncc_u32 n_params;
    void (*tag)(const ncc_u64 *p, const struct ncc_tag_packet *k, struct ncc_tag_out *o);
};

/* Expects <name>_params[] and <name>_tag; `o` is zeroed before. BPF programs call the function directly. */
#ifdef __bpf__
#define NCC_TAG_REGISTER(name_, summary_)
#else
#define NCC_TAG_REGISTER(name_, summary_)                                                                              \
    NCC_CC_STATIC_ASSERT(sizeof(name_##_params) <= NCC_CC_PARAMS_MAX * sizeof(struct ncc_cc_param),                    \
                         "too many parameters");                                                                       \
    static const struct ncc_tag_ops name_##_tags = {                                                                   \
        #name_, summary_, name_##_params, (ncc_u32)(sizeof(name_##_params) / sizeof(name_##_params[0])), name_##_tag};
#endif

/* Number of thresholds, in units of `unit` bytes, that `bytes` has reached. A threshold of 0 ends the list. */
NCC_CC_FN ncc_u32 ncc_tag_class(const ncc_u64 *thresholds, ncc_u32 n, ncc_u64 unit, ncc_u64 bytes)
{
    ncc_u32 prio = 0;

    for (ncc_u32 i = 0; i < n; i++) {
        if (!thresholds[i] || bytes < thresholds[i] * unit)
            break;
        prio++;
    }
    return prio;
}

#endif
