/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BCC (Bai et al., INFOCOM 2020, section IV): in addition to each port's own marking, RED marks by the occupancy of the
 * pool that ports share. While few ports are active, the pool is far from full and each port's own threshold decides.
 * When many are, the pool marks first and keeps room for packets in flight. The same restricted C as cc.h describes.
 *
 * A queue that may hold T = alpha (B - used) (eq. 1) needs B_R of it to neither idle nor lose:
 *     B_R  = C RTT (1 + lambda) - private      what one queue needs beyond the buffer of its own (section IV-C, V-A)
 *     Kmax = B - B_R / alpha                   where T falls to B_R (eq. 2)
 *     Kmin = Kmax - C N h                      N ports of rate C, h long enough to tell them apart (eq. 3)
 * Between the two the probability rises to max_prob with the current occupancy; from Kmax on every packet is marked.
 * `ncc/core/bcc.py` computes the thresholds.
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
