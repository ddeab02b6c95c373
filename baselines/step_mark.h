/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step marking: a switch port marks an arriving ECN-capable packet if its queue is longer than a threshold (RFC 8257
 * section 3.1; DCTCP paper section 3.1). Restricted C for simulators and a tc program: see cc.h.
 */
#ifndef NCC_STEP_MARK_H
#define NCC_STEP_MARK_H

#include "cc.h"
#include "verdict.h"

struct ncc_step_mark {
    ncc_u64 size_bytes;           /* buffer of the port, in bytes of IP packets */
    ncc_u64 mark_threshold_bytes; /* K; 0: never mark */
};

/* `queue_bytes`: waiting in the port before this packet joins, without the one in transmission. A packet that finds the
 * transmitter free does not wait and is never dropped: pass 0 for it. */
NCC_CC_FN enum ncc_verdict ncc_step_mark_admit(const struct ncc_step_mark *p, ncc_u64 queue_bytes, ncc_u32 packet_bytes,
                                               int ecn_capable)
{
    if (queue_bytes + packet_bytes > p->size_bytes)
        return NCC_DROP;
    if (p->mark_threshold_bytes && ecn_capable && queue_bytes > p->mark_threshold_bytes)
        return NCC_MARK;
    return NCC_PASS;
}

#endif
