/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RWNDQ (Abdelmoniem and Bensaou, Algorithm 1): a port has one window for all its flows, and adjusts it so that its
 * queue stays at a target. It writes an equal share of the window into the receive windows of each flow's ACKs. It
 * counts flows by SYN-ACKs (up) and FINs (down), without a table of flows.
 *
 * The state here is the window of all flows together, A = beta x Rwnd. Lines 6 and 10 of Algorithm 1 (Rwnd times
 * beta / (beta + 1) and its inverse) leave A unchanged. Line 22 (Rwnd += gamma / beta) is A += gamma.
 */
#ifndef NCC_RWNDQ_H
#define NCC_RWNDQ_H

#include "switch.h"

enum { RWNDQ_TARGET_PCT, RWNDQ_T_NS, RWNDQ_M, RWNDQ_MAX_BYTES, RWNDQ_AS_PRINTED };

static const struct ncc_cc_param rwndq_params[] = {
    {"target_pct", 20, 1, 90, "% of the buffer at which the queue is held: alpha (section V)"},
    {"t_ns", 50000, 1000, 10000000, "ns between samples of the queue: T (section V)"},
    {"m", 10, 1, 1000, "samples to a change of the window: M (section V)"},
    {"max_window_bytes", 262144, 4096, 1073741824, "bytes, largest share; ours (the released code: 65535)"},
    {"as_printed", 0, 0, 1, "0: the released code's steps of the common window; 1: those of Algorithm 1"},
};

struct rwndq_state {
    ncc_u64 window_bytes; /* A */
    ncc_s64 error_bytes;  /* sum of target - Q over the samples since the last change */
    ncc_u32 flows;        /* beta */
    ncc_u32 samples;      /* Gamma */
    ncc_u32 slow_start;
};

NCC_CC_FN ncc_u64 rwndq_target_bytes(const ncc_u64 *p, const struct ncc_sw_port *q)
{
    return ncc_max_u64(q->size_bytes * p[RWNDQ_TARGET_PCT] / 100, 1); /* alpha B */
}

/* A stays within what can be written: a full packet to max_window_bytes for each flow. */
NCC_CC_FN ncc_u64 rwndq_bounded(const struct rwndq_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                                ncc_s64 window_bytes)
{
    const ncc_s64 low = (ncc_s64)((ncc_u64)s->flows * q->mtu_bytes);
    const ncc_s64 high = (ncc_s64)(s->flows * p[RWNDQ_MAX_BYTES]);

    return (ncc_u64)(window_bytes < low ? low : window_bytes > high ? high : window_bytes);
}

NCC_CC_FN void rwndq_init(struct rwndq_state *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_out *o)
{
    s->window_bytes = rwndq_target_bytes(p, q);
    s->slow_start = 1;
    o->timer_ns = p[RWNDQ_T_NS];
}

/* Lines 8 to 13. A FIN that is dropped comes again. */
NCC_CC_FN void rwndq_enqueue(struct rwndq_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                             struct ncc_sw_packet *k, struct ncc_sw_out *o)
{
    if (!(k->flags & NCC_SW_FIN) || o->verdict >= NCC_TRIM || !s->flows)
        return;
    if (!--s->flows) { /* the paper's line 10 divides by 0 here */
        s->window_bytes = rwndq_target_bytes(p, q);
        s->slow_start = 1;
    }
}

/* Lines 3 to 7, 14 and 15. */
NCC_CC_FN void rwndq_reverse(struct rwndq_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                             struct ncc_sw_packet *k, struct ncc_sw_out *o)
{
    (void)p, (void)q, (void)o;
    if (k->flags & NCC_SW_SYN_ACK)
        s->flows++;
    if ((k->flags & NCC_SW_HAS_WINDOW) && s->flows)
        k->window_bytes = ncc_min_u64(k->window_bytes, s->window_bytes / s->flows);
}

/* Lines 16 to 24. */
NCC_CC_FN void rwndq_timer(struct rwndq_state *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_out *o)
{
    const ncc_u64 target = rwndq_target_bytes(p, q), mss = q->mtu_bytes;
    ncc_s64 step;

    o->timer_ns = p[RWNDQ_T_NS];
    s->error_bytes += (ncc_s64)target - (ncc_s64)q->queue_bytes;
    if (++s->samples < p[RWNDQ_M])
        return;
    if (s->slow_start) /* line 21: 2 MSS for each flow, or in all */
        step = (ncc_s64)(2 * mss * (p[RWNDQ_AS_PRINTED] ? s->flows : 1));
    else if (p[RWNDQ_AS_PRINTED]) /* gamma = MSS / M x sum of kappa, kappa = 1 - Q / (alpha B): lines 17, 18, 22 */
        step = ncc_div_s64(s->error_bytes * (ncc_s64)mss, p[RWNDQ_M] * target);
    else
        step = ncc_div_s64(s->error_bytes, p[RWNDQ_M]);
    if (s->flows)
        s->window_bytes = rwndq_bounded(s, p, q, (ncc_s64)s->window_bytes + step);
    s->slow_start &= q->queue_bytes < target; /* line 23 */
    s->error_bytes = 0;
    s->samples = 0;
}

NCC_SW_NO_HOOK(rwndq, dequeue)
NCC_SW_REGISTER(rwndq, NCC_SW_ENQUEUE | NCC_SW_REVERSE | NCC_SW_TIMER | NCC_SW_SYMMETRIC | NCC_SW_COUNTS,
                "equal shares of a window, written into receive windows (Abdelmoniem & Bensaou, RWNDQ)")

#endif
