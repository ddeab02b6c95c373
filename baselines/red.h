/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RED (Floyd and Jacobson 1993) as datacentre switches use it: it marks packets by the current length of the queue. The
 * probability rises linearly from 0 at min_bytes to max_prob at max_bytes. From max_bytes on, every ECN-capable packet
 * is marked. Restricted C: see cc.h.
 *
 * Deviations from the paper. RED takes the current queue in place of its moving average, to react fast to bursts (RFC
 * 8257 section 3.1; Bai et al., INFOCOM 2020, section IV-C). It draws for each packet independently, without the
 * paper's count since the last mark (method 1 of section 7). It drops nothing: where RFC 3168 section 5 would drop a
 * packet that is not ECN-capable, the packet passes, as in step_mark.h. Such packets are the SYNs and pure ACKs of ECN
 * flows (RFC 3168 section 6.1.4), which would be lost long before the buffer is full.
 */
#ifndef NCC_RED_H
#define NCC_RED_H

#include "cc.h"
#include "verdict.h"

#define NCC_RED_ONE (1ULL << 32) /* probability 1 */

struct ncc_red {
    ncc_u64 min_bytes; /* below max_bytes */
    ncc_u64 max_bytes; /* less than 2^32 above min_bytes */
    ncc_u64 max_prob;  /* at max_bytes, of NCC_RED_ONE, at most that */
};

/* `queue_bytes`: waiting before this packet joins. `random`: 32 uniform bits, new for every packet. The probability is
 * exactly max_prob (queue_bytes - min_bytes) / (max_bytes - min_bytes), computed without a division. */
NCC_CC_FN enum ncc_verdict ncc_red_admit(const struct ncc_red *p, ncc_u64 queue_bytes, int ecn_capable, ncc_u32 random)
{
    if (!ecn_capable || queue_bytes <= p->min_bytes)
        return NCC_PASS;
    if (queue_bytes >= p->max_bytes)
        return NCC_MARK;
    if (random * (p->max_bytes - p->min_bytes) < p->max_prob * (queue_bytes - p->min_bytes))
        return NCC_MARK;
    return NCC_PASS;
}

#endif
