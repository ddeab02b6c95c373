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
 */
#ifndef NCC_BCC_H
#define NCC_BCC_H

#include "cc.h"
#include "dynamic_threshold.h"
#include "red.h"
#include "verdict.h"

#define NCC_BCC_LAMBDA_ONE 1000ULL         /* lambda of 1 */
#define NCC_BCC_LAMBDA_MAX 1000000ULL      /* lambda of 1000 */
#define NCC_BCC_RATE_MAX 1250000000000ULL  /* bytes/s: 10 Tbit/s */
#define NCC_BCC_TIME_MAX_NS 10000000000ULL /* 10 s, of RTT and of N h; so that every product below fits 64 bits */
#define NCC_BCC_NS_PER_S 1000000000ULL

struct ncc_bcc {
    ncc_u64 private_bytes;    /* of each port alone */
    ncc_u64 shared_bytes;     /* B, at most NCC_DT_SHARED_MAX_BYTES */
    ncc_u64 alpha;            /* of NCC_DT_ALPHA_ONE; 1 to NCC_DT_ALPHA_MAX */
    ncc_u64 rate_bytes_per_s; /* C of a port, at most NCC_BCC_RATE_MAX */
    ncc_u64 rtt_ns;           /* without queues; at most NCC_BCC_TIME_MAX_NS */
    ncc_u64 lambda;    /* of NCC_BCC_LAMBDA_ONE, at most NCC_BCC_LAMBDA_MAX: what full throughput needs, in BDP */
    ncc_u64 ports;     /* N, that share the pool */
    ncc_u64 spread_ns; /* h; ports * spread_ns at most NCC_BCC_TIME_MAX_NS */
    ncc_u64 max_prob;  /* at Kmax, of NCC_RED_ONE */
};

enum ncc_bcc_fault {
    NCC_BCC_OK = 0,
    NCC_BCC_RANGE = 1,   /* a field is out of its range, or Kmin and Kmax are the same or 4 GiB apart */
    NCC_BCC_NO_ROOM = 2, /* the pool is too small: Kmin would be below 0 */
};

/* Bytes that a line carries in this time, rounded down; exact within the ranges above. */
NCC_CC_FN ncc_u64 ncc_bcc_carried(ncc_u64 rate_bytes_per_s, ncc_u64 time_ns)
{
    return rate_bytes_per_s / NCC_BCC_NS_PER_S * time_ns +
           rate_bytes_per_s % NCC_BCC_NS_PER_S * time_ns / NCC_BCC_NS_PER_S;
}

/* B_R, rounded down. */
NCC_CC_FN ncc_u64 ncc_bcc_required(const struct ncc_bcc *p)
{
    const ncc_u64 bdp_bytes = ncc_bcc_carried(p->rate_bytes_per_s, p->rtt_ns);
    const ncc_u64 needed = bdp_bytes + bdp_bytes * p->lambda / NCC_BCC_LAMBDA_ONE;

    return needed > p->private_bytes ? needed - p->private_bytes : 0;
}

/* Compute Kmin and Kmax into `red`, which a fault leaves unchanged. B_R / alpha is rounded up, so that the rest of the
 * pool is never less than it. */
NCC_CC_FN enum ncc_bcc_fault ncc_bcc_thresholds(const struct ncc_bcc *p, struct ncc_red *red)
{
    ncc_u64 kept, span;

    if (p->alpha < 1 || p->alpha > NCC_DT_ALPHA_MAX || p->shared_bytes > NCC_DT_SHARED_MAX_BYTES ||
        p->rate_bytes_per_s > NCC_BCC_RATE_MAX || p->rtt_ns > NCC_BCC_TIME_MAX_NS || p->lambda > NCC_BCC_LAMBDA_MAX ||
        p->max_prob > NCC_RED_ONE)
        return NCC_BCC_RANGE;
    if (p->ports && p->spread_ns > NCC_BCC_TIME_MAX_NS / p->ports)
        return NCC_BCC_RANGE;
    span = ncc_bcc_carried(p->rate_bytes_per_s, p->ports * p->spread_ns);
    if (span == 0 || span >= NCC_RED_ONE)
        return NCC_BCC_RANGE;
    kept = (ncc_bcc_required(p) * NCC_DT_ALPHA_ONE + p->alpha - 1) / p->alpha;
    if (kept > p->shared_bytes || span > p->shared_bytes - kept)
        return NCC_BCC_NO_ROOM;
    red->max_bytes = p->shared_bytes - kept;
    red->min_bytes = red->max_bytes - span;
    red->max_prob = p->max_prob;
    return NCC_BCC_OK;
}

/* `used_bytes`: used bytes of the pool before this packet joins any of its queues. `random` as in red.h. Returns
 * NCC_PASS or NCC_MARK; a packet is marked if the port or the pool marks it (section IV-B). */
NCC_CC_FN enum ncc_verdict ncc_bcc_admit(const struct ncc_red *red, ncc_u64 used_bytes, int ecn_capable, ncc_u32 random)
{
    return ncc_red_admit(red, used_bytes, ecn_capable, random);
}

#endif
