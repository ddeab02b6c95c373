/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BCC (Bai et al., INFOCOM 2020, section IV): ports mark as usual. In addition, RED marks packets by the occupancy of
 * the pool that ports share. While few ports are active, the pool is far from full, and each port's own threshold
 * decides. When many are active, the pool marks first and keeps room for packets in flight. Restricted C: see cc.h.
 *
 * A queue may hold T = alpha (B - used) bytes of the pool, which has B bytes (eq. 1). If T is at least B_R, the queue's
 * link never idles, and no packet is lost.
 *     B_R  = C RTT (1 + lambda) - private      need of one queue beyond its private buffer (section IV-C, V-A)
 *     Kmax = B - B_R / alpha                   occupancy at which T is B_R (eq. 2)
 *     Kmin = Kmax - C N h                      N ports of rate C; h: spread of the thresholds in seconds (eq. 3)
 * From Kmin to Kmax the marking probability rises with the occupancy, up to max_prob. From Kmax on, every packet is
 * marked. `ncc/core/bcc.py` computes the thresholds.
 */
#ifndef NCC_BCC_H
#define NCC_BCC_H

#include "cc.h"
#include "red.h"
#include "verdict.h"

/* `used_bytes`: used bytes of the pool before this packet joins any of its queues. `random` as in red.h. Returns
 * NCC_PASS or NCC_MARK; a packet is marked if the port or the pool marks it (section IV-B). */
NCC_CC_FN enum ncc_verdict ncc_bcc_admit(const struct ncc_red *red, ncc_u64 used_bytes, int ecn_capable, ncc_u32 random)
{
    return ncc_red_admit(red, used_bytes, ecn_capable, random);
}

#endif
