/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dynamic thresholds (Choudhury and Hahne 1998; Bai et al., INFOCOM 2020, section II-A and eq. 1), by which ports of a
 * switch share a buffer. A queue fills its private buffer first. Then it uses the shared pool. An arriving packet is
 * dropped if the queue already has alpha * (pool - used bytes of the pool) there. So a single queue gets
 * alpha/(1 + alpha) of the pool, and M queues get alpha/(1 + M alpha) each. Restricted C: see cc.h.
 *
 * A queue's use of the pool is its length beyond the private buffer. The switch counts bytes, and does not label
 * packets as private or shared. So a departing packet frees bytes of the pool first, and one packet may use both.
 */
#ifndef NCC_DYNAMIC_THRESHOLD_H
#define NCC_DYNAMIC_THRESHOLD_H

#include "cc.h"
#include "verdict.h"

#define NCC_DT_ALPHA_ONE 1024ULL             /* alpha of 1 */
#define NCC_DT_ALPHA_MAX (1ULL << 20)        /* alpha of 1024 */
#define NCC_DT_SHARED_MAX_BYTES (1ULL << 43) /* so that alpha * pool fits 64 bits */

struct ncc_dynamic_threshold {
    ncc_u64 private_bytes; /* of the port alone */
    ncc_u64 shared_bytes;  /* of the pool, at most NCC_DT_SHARED_MAX_BYTES */
    ncc_u64 alpha;         /* of NCC_DT_ALPHA_ONE; 1 to NCC_DT_ALPHA_MAX */
};

/* Bytes of the pool that a queue of this length uses. */
NCC_CC_FN ncc_u64 ncc_dynamic_threshold_share(ncc_u64 private_bytes, ncc_u64 queue_bytes)
{
    return queue_bytes > private_bytes ? queue_bytes - private_bytes : 0;
}

/* `queue_bytes`: waiting in the port before this packet joins; `used_bytes`: used bytes of the pool, by this queue and
 * all others. Returns NCC_PASS or NCC_DROP. */
NCC_CC_FN enum ncc_verdict ncc_dynamic_threshold_admit(const struct ncc_dynamic_threshold *p, ncc_u64 queue_bytes,
                                                       ncc_u64 used_bytes, ncc_u32 packet_bytes)
{
    const ncc_u64 now = ncc_dynamic_threshold_share(p->private_bytes, queue_bytes);
    const ncc_u64 then = ncc_dynamic_threshold_share(p->private_bytes, queue_bytes + packet_bytes);

    if (then == 0)
        return NCC_PASS;
    if (used_bytes + (then - now) > p->shared_bytes)
        return NCC_DROP;
    if (now * NCC_DT_ALPHA_ONE >= p->alpha * (p->shared_bytes - used_bytes))
        return NCC_DROP;
    return NCC_PASS;
}

#endif
