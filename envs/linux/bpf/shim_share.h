/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A host's limit, split among its connections that have data: each is paced at rate x weight / sum of claims. A claim
 * is the weight times the part of its share that the connection uses, over windows of some milliseconds. A connection
 * that is held back by its window, its application or its receiver claims what it sends, and the others get the rest
 * (in the steady state this is weighted max-min fairness). It claims its full weight again as soon as it uses its
 * share, so the host may exceed its limit for a window when many wake up at once, at most by 1/SHIM_USE_LEAST.
 */
#ifndef NCC_SHIM_SHARE_H
#define NCC_SHIM_SHARE_H

#include "shim.h"

#define SHIM_USE_LEAST (NCC_CLAIM_ONE / 16)
#define SHIM_USE_FULL (NCC_CLAIM_ONE * 7 / 8) /* counts as full use from here on: pacing is not exact */
#define SHIM_RISE_NS 1000000ULL               /* a full share is claimed again after this */
#define SHIM_FALL_NS 8000000ULL               /* an unused part is given up after this, or one RTT if longer, ... */
#define SHIM_FALL_PKTS 16 /* ... if it could have sent this many: packets come one or two at a time */
#define SHIM_ALLOWED_US_MAX (1ULL << 20)

static __always_inline void shim_claim(struct shim_flow *f, __u64 claim)
{
    struct ncc_host *h;

    if (claim == f->claim)
        return;
    h = shim_host(f);
    if (!h)
        return;
    __sync_fetch_and_add(&h->weight_sum, (__s64)(claim - f->claim));
    if (!f->claim)
        __sync_fetch_and_add(&h->flows, 1);
    else if (!claim)
        __sync_fetch_and_add(&h->flows, -1);
    f->claim = claim;
}

static __always_inline void shim_window(struct shim_flow *f, __u64 sent_bytes, __u64 now_ns)
{
    f->window_ns = now_ns;
    f->window_sent_bytes = sent_bytes;
    f->window_allowed_bytes = 0;
    f->allowed_ns = now_ns;
}

/* Updates the part of its share that the connection uses. */
static __always_inline void shim_use(struct shim_flow *f, __u64 sent_bytes, __u64 srtt_ns, __u64 now_ns)
{
    __u64 us = (now_ns - f->allowed_ns) / 1000, age = now_ns - f->window_ns, used;

    if (!f->share_bytes_per_s) {
        f->use = NCC_CLAIM_ONE;
        shim_window(f, sent_bytes, now_ns);
        return;
    }
    f->allowed_ns += us * 1000;
    f->window_allowed_bytes += f->share_bytes_per_s * ncc_min_u64(us, SHIM_ALLOWED_US_MAX) / 1000000;
    if (age < SHIM_RISE_NS)
        return;
    used = (sent_bytes - f->window_sent_bytes) * NCC_CLAIM_ONE / ncc_max_u64(f->window_allowed_bytes, 1);
    if (used >= SHIM_USE_FULL)
        f->use = NCC_CLAIM_ONE;
    else if (age < ncc_max_u64(SHIM_FALL_NS, srtt_ns) ||
             f->window_allowed_bytes < SHIM_FALL_PKTS * (__u64)f->conn.mss_bytes)
        return;
    else
        f->use = ncc_max_u64(used, SHIM_USE_LEAST);
    shim_window(f, sent_bytes, now_ns);
}

/* Returns the connection's current share of the host's limit, in payload; 0: no limit. */
static __always_inline __u64 shim_share(struct shim_flow *f, const struct ncc_host *h, __u32 weight, __u32 header_bytes)
{
    __u64 rate = *(volatile const ncc_u64 *)&h->rate_bytes_per_s;
    __s64 sum = *(volatile const ncc_s64 *)&h->weight_sum;
    __u64 mss = f->conn.mss_bytes;

    if (!rate)
        return 0;
    rate = ncc_min_u64(rate, NCC_RATE_MAX);
    if (sum > (__s64)f->claim && f->claim)
        rate = ncc_min_u64(rate * ((__u64)weight * NCC_CLAIM_ONE) / (__u64)sum, rate);
    return ncc_max_u64(rate * mss / (mss + header_bytes), 1);
}

#endif
