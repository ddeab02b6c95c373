/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The window of Reno-like controllers: growth, one reduction per window, loss, timeout. It is not a controller itself.
 *
 * Growth is RFC 5681 with the byte counting of RFC 3465. A reduction takes effect at once (cwnd = ssthresh, RFC 6582
 * and RFC 6675). Growth then pauses until data sent after it is acknowledged, and ECN marks are ignored until then
 * (RFC 3168 section 6.1.2: once per window), as in the CWR state of Linux and ns-3. All losses of one window of data
 * halve cwnd once. If data sent before a halving is found lost later, by fast retransmit or timeout, cwnd is not halved
 * again (as in Linux' tcp_enter_recovery and tcp_enter_loss). DCTCP's reduction by ECN does not count as a halving.
 */
#ifndef NCC_RENO_WINDOW_H
#define NCC_RENO_WINDOW_H

#include "cc.h"

enum ncc_reno_flags {
    NCC_RENO_HOLD = 1,    /* no growth until una passes `reduced_until_bytes` */
    NCC_RENO_REACTED = 2, /* no further reduction by ECN until una passes it */
    NCC_RENO_TIMEOUT = 4, /* slow start after a timeout: repairs may grow the window */
    NCC_RENO_BACKOFF = 8, /* `timeout_una_bytes` is set */
    NCC_RENO_HALVED = 16, /* cwnd was halved for data sent up to `reduced_until_bytes` */
};

struct ncc_reno_window {
    ncc_u64 cwnd_bytes;
    ncc_u64 ssthresh_bytes;
    ncc_u64 credit_bytes;        /* acknowledged in congestion avoidance, not yet turned into window; < cwnd */
    ncc_u64 reduced_until_bytes; /* nxt when the window was last reduced */
    ncc_u64 timeout_una_bytes;   /* una at the last timeout */
    ncc_u32 mss_bytes;
    ncc_u32 flags; /* enum ncc_reno_flags */
};

#define NCC_RENO_PARAM_ABC_LIMIT                                                                                       \
    {"abc_limit_pkts", 2, 1, 65535, "packets: growth per ACK in slow start at most (L of RFC 3465 section 2.2)"}
#define NCC_RENO_PARAM_MIN_CWND                                                                                        \
    {"min_cwnd_pkts", 2, 1, 10, "packets: smallest ssthresh (2 * SMSS of RFC 5681 equation 4; Linux likewise)"}

NCC_CC_FN void ncc_reno_state(const struct ncc_reno_window *w, struct ncc_cc_out *o)
{
    o->cwnd_bytes = w->cwnd_bytes;
    o->ssthresh_bytes = w->ssthresh_bytes;
    o->pacing_bytes_per_s = 0;
}

NCC_CC_FN void ncc_reno_init(struct ncc_reno_window *w, const struct ncc_cc_conn *c)
{
    w->mss_bytes = c->mss_bytes;
    w->cwnd_bytes = ncc_min_u64(ncc_max_u64(c->init_cwnd_bytes, c->mss_bytes), NCC_CC_CWND_MAX);
    w->ssthresh_bytes = NCC_CC_CWND_MAX; /* RFC 5681: arbitrarily high */
}

/* Call first on every ACK: clears the states that the ACK ends. */
NCC_CC_FN void ncc_reno_advance(struct ncc_reno_window *w, const struct ncc_cc_event *e)
{
    /* Beyond the mark, not at it: data sent after the reduction has arrived, and with it CWR (as in Linux). */
    if (e->una_bytes > w->reduced_until_bytes)
        w->flags &= ~(ncc_u32)(NCC_RENO_HOLD | NCC_RENO_REACTED | NCC_RENO_HALVED);
    if (!(e->flags & NCC_CC_ACK_IN_RECOVERY))
        w->flags &= ~(ncc_u32)NCC_RENO_TIMEOUT;
    if (e->una_bytes > w->timeout_una_bytes)
        w->flags &= ~(ncc_u32)NCC_RENO_BACKOFF;
}

/* True if this ACK's ECN-Echo requires a reduction: at most once per window, and not while losses are repaired. */
NCC_CC_FN int ncc_reno_ecn_due(const struct ncc_reno_window *w, const struct ncc_cc_event *e)
{
    return (e->flags & NCC_CC_ACK_ECE) && !(e->flags & NCC_CC_ACK_IN_RECOVERY) && !(w->flags & NCC_RENO_REACTED);
}

NCC_CC_FN void ncc_reno_threshold(struct ncc_reno_window *w, ncc_u64 target_bytes, ncc_u64 min_pkts)
{
    w->ssthresh_bytes = ncc_min_u64(ncc_max_u64(target_bytes, min_pkts * w->mss_bytes), NCC_CC_CWND_MAX);
}

/* Lower the window to `target_bytes`, at least `min_pkts`, for a window of data. It is never raised. */
NCC_CC_FN void ncc_reno_reduce(struct ncc_reno_window *w, const struct ncc_cc_event *e, ncc_u64 target_bytes,
                               ncc_u64 min_pkts)
{
    ncc_reno_threshold(w, target_bytes, min_pkts);
    w->cwnd_bytes = ncc_min_u64(w->cwnd_bytes, w->ssthresh_bytes);
    w->credit_bytes = 0;
    w->reduced_until_bytes = e->nxt_bytes;
    w->flags |= NCC_RENO_HOLD | NCC_RENO_REACTED;
}

/* True if the first unacknowledged byte was sent before the last halving. */
NCC_CC_FN int ncc_reno_halved(const struct ncc_reno_window *w, const struct ncc_cc_event *e)
{
    return (w->flags & NCC_RENO_HALVED) && e->una_bytes < w->reduced_until_bytes;
}

/*
 * Lower the window to `target_bytes` in place of a halving, once per window of data. Returns true if the window was
 * lowered.
 */
NCC_CC_FN int ncc_reno_cut(struct ncc_reno_window *w, const struct ncc_cc_event *e, ncc_u64 target_bytes,
                           ncc_u64 min_pkts)
{
    int due = !ncc_reno_halved(w, e);

    if (due)
        ncc_reno_reduce(w, e, target_bytes, min_pkts);
    /* Even if it was cut before: the repair lasts until all data sent so far is acknowledged. */
    w->reduced_until_bytes = e->nxt_bytes;
    w->flags |= NCC_RENO_HALVED;
    return due;
}

/* Halve, once per window of data (RFC 5681 equation 4, with cwnd for FlightSize as Linux and ns-3 have it). */
NCC_CC_FN void ncc_reno_halve(struct ncc_reno_window *w, const struct ncc_cc_event *e, ncc_u64 min_pkts)
{
    (void)ncc_reno_cut(w, e, w->cwnd_bytes / 2, min_pkts);
}

/* Fast retransmit, down to `target_bytes`. Returns true if the window was cut. */
NCC_CC_FN int ncc_reno_loss_to(struct ncc_reno_window *w, const struct ncc_cc_event *e, ncc_u64 target_bytes,
                               ncc_u64 min_pkts)
{
    int due = ncc_reno_cut(w, e, target_bytes, min_pkts);

    w->flags &= ~(ncc_u32)NCC_RENO_TIMEOUT;
    return due;
}

/* Fast retransmit. */
NCC_CC_FN void ncc_reno_loss(struct ncc_reno_window *w, const struct ncc_cc_event *e, ncc_u64 min_pkts)
{
    (void)ncc_reno_loss_to(w, e, w->cwnd_bytes / 2, min_pkts);
}

/*
 * Timeout: a window of 1 MSS, and `target_bytes` for ssthresh. ssthresh stays if the same segment times out again (RFC
 * 5681 section 3.1, last paragraphs), and if the window in which it was sent has been halved: ssthresh is then already
 * half of its FlightSize, as equation 4 requires. Returns true if ssthresh was set.
 */
NCC_CC_FN int ncc_reno_timeout_to(struct ncc_reno_window *w, const struct ncc_cc_event *e, ncc_u64 target_bytes,
                                  ncc_u64 min_pkts)
{
    int again = (w->flags & NCC_RENO_BACKOFF) && e->una_bytes == w->timeout_una_bytes;
    int due = !again && !ncc_reno_halved(w, e);

    if (due)
        ncc_reno_threshold(w, target_bytes, min_pkts);
    w->cwnd_bytes = w->mss_bytes;
    w->credit_bytes = 0;
    w->timeout_una_bytes = e->una_bytes;
    w->reduced_until_bytes = e->nxt_bytes;
    w->flags = NCC_RENO_REACTED | NCC_RENO_TIMEOUT | NCC_RENO_BACKOFF;
    return due;
}

NCC_CC_FN void ncc_reno_timeout(struct ncc_reno_window *w, const struct ncc_cc_event *e, ncc_u64 min_pkts)
{
    (void)ncc_reno_timeout_to(w, e, w->cwnd_bytes / 2, min_pkts);
}

/*
 * Sending starts again after a pause. Nothing tested the window meanwhile. It is halved for each RTO, down to the
 * initial window, and slow start leads back to 3/4 of it (RFC 2861 section 3.1, RFC 5681 section 4.1, Linux'
 * tcp_cwnd_restart).
 */
NCC_CC_FN void ncc_reno_restart(struct ncc_reno_window *w, const struct ncc_cc_conn *c, const struct ncc_cc_event *e)
{
    ncc_u64 cwnd = w->cwnd_bytes, halved = e->idle_rtos < 64 ? cwnd >> e->idle_rtos : 0;

    if (!e->idle_rtos)
        return;
    w->ssthresh_bytes = ncc_max_u64(w->ssthresh_bytes, cwnd / 2 + cwnd / 4);
    w->cwnd_bytes = ncc_max_u64(halved, ncc_min_u64(cwnd, ncc_max_u64(c->init_cwnd_bytes, c->mss_bytes)));
    w->credit_bytes = 0;
}

/* Bytes of this ACK that may grow the window; 0 while growth pauses or losses are repaired, if the ACK has ECN-Echo,
 * and if the window was not full. */
NCC_CC_FN ncc_u64 ncc_reno_countable(const struct ncc_reno_window *w, const struct ncc_cc_event *e)
{
    int repairing = (e->flags & NCC_CC_ACK_IN_RECOVERY) && !(w->flags & NCC_RENO_TIMEOUT);

    if (repairing || (w->flags & NCC_RENO_HOLD) || (e->flags & (NCC_CC_ACK_ECE | NCC_CC_ACK_APP_LIMITED)))
        return 0;
    return ncc_min_u64(e->acked_bytes, w->cwnd_bytes); /* one ACK counts for one window at most */
}

/* Slow start on `acked` countable bytes, while cwnd < ssthresh. Returns the rest, for congestion avoidance. */
NCC_CC_FN ncc_u64 ncc_reno_slow_start(struct ncc_reno_window *w, ncc_u64 acked, ncc_u64 abc_limit_pkts)
{
    /* RFC 3465 section 2.3: L = 1 after a timeout, because a jump of una then hardly shows what left the network. */
    ncc_u64 limit = (w->flags & NCC_RENO_TIMEOUT ? 1 : abc_limit_pkts) * w->mss_bytes;
    ncc_u64 step = ncc_min_u64(ncc_min_u64(acked, limit), w->ssthresh_bytes - w->cwnd_bytes);

    w->cwnd_bytes += step;
    return w->cwnd_bytes < w->ssthresh_bytes ? 0 : ncc_min_u64(acked, limit) - step;
}

/* Avoidance on `acked` countable bytes: RFC 3465 section 2.1, one packet per window of acknowledged bytes. Bytes that
 * do not make a packet yet stay in `credit_bytes`, so that rounding loses nothing. */
NCC_CC_FN void ncc_reno_avoid(struct ncc_reno_window *w, ncc_u64 acked)
{
    w->credit_bytes += acked;
    if (w->credit_bytes >= w->cwnd_bytes) {
        w->credit_bytes -= w->cwnd_bytes;
        w->cwnd_bytes = ncc_min_u64(w->cwnd_bytes + w->mss_bytes, NCC_CC_CWND_MAX);
    }
}

/* Growth on one ACK. */
NCC_CC_FN void ncc_reno_grow(struct ncc_reno_window *w, const struct ncc_cc_event *e, ncc_u64 abc_limit_pkts)
{
    ncc_u64 acked = ncc_reno_countable(w, e);

    if (acked && w->cwnd_bytes < w->ssthresh_bytes)
        acked = ncc_reno_slow_start(w, acked, abc_limit_pkts);
    if (acked)
        ncc_reno_avoid(w, acked);
}

#endif
