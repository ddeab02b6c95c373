/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vegas: Brakmo and Peterson, IEEE JSAC 13(8), 1995, as in Linux and ns-3. Once per RTT the window changes by a packet,
 * so that alpha to beta of its packets wait in queues. Losses are handled as in NewReno. See cards/vegas.md.
 */
#ifndef NCC_VEGAS_H
#define NCC_VEGAS_H

#include "reno_window.h"

#define VEGAS_SHARE_SHIFT 23 /* base_rtt / rtt in 2^-23: times the largest window (2^40) it fits 64 bits */
#define VEGAS_RTT_MAX_NS (1ULL << 40)
#define VEGAS_MIN_SAMPLES 3 /* fewer may all be of delayed ACKs (Linux, ns-3) */

enum { VEGAS_ALPHA, VEGAS_BETA, VEGAS_GAMMA, VEGAS_ABC_LIMIT, VEGAS_MIN_CWND };

static const struct ncc_cc_param vegas_params[] = {
    {"alpha_pkts", 2, 1, 1000, "packets: with fewer in queues the window grows (Vegas-2,4 of the paper, Linux, ns-3)"},
    {"beta_pkts", 4, 1, 1000, "packets: with more in queues the window shrinks; below alpha_pkts it counts as that"},
    {"gamma_pkts", 1, 1, 1000, "packets: with more in queues slow start ends (the paper, Linux, ns-3)"},
    NCC_RENO_PARAM_ABC_LIMIT,
    NCC_RENO_PARAM_MIN_CWND,
};

struct vegas_state {
    struct ncc_reno_window w;
    ncc_u64 round_end_bytes; /* nxt when this round began */
    ncc_u64 rtt_ns;          /* smallest sample of this round; 0: none */
    ncc_u64 base_rtt_ns;     /* smallest sample of full packets since the last pause; 0: none */
    ncc_u32 samples;         /* of this round, up to VEGAS_MIN_SAMPLES */
    ncc_u32 unused;
};

NCC_CC_FN void vegas_init(struct vegas_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    (void)p;
    ncc_reno_init(&s->w, c);
    ncc_reno_state(&s->w, o);
}

NCC_CC_FN void vegas_new_round(struct vegas_state *s, const struct ncc_cc_event *e)
{
    s->round_end_bytes = e->nxt_bytes;
    s->rtt_ns = 0;
    s->samples = 0;
}

/* Bytes of the window that fill the path without queues: the actual rate, cwnd / rtt, times base_rtt. */
NCC_CC_FN ncc_u64 vegas_on_path(const struct vegas_state *s, const struct ncc_cc_event *e)
{
    ncc_u64 rtt = ncc_min_u64(s->rtt_ns, VEGAS_RTT_MAX_NS);
    ncc_u64 base = ncc_min_u64(s->base_rtt_ns ? s->base_rtt_ns : e->min_rtt_ns, rtt);

    return (s->w.cwnd_bytes * ((base << VEGAS_SHARE_SHIFT) / rtt)) >> VEGAS_SHARE_SHIFT;
}

/* The decision of a round; returns true if growth is left to slow start. */
NCC_CC_FN int vegas_decide(struct vegas_state *s, const ncc_u64 *p, const struct ncc_cc_event *e, ncc_u64 acked)
{
    struct ncc_reno_window *w = &s->w;
    ncc_u64 mss = w->mss_bytes, path = vegas_on_path(s, e), queued = w->cwnd_bytes - path;
    ncc_u64 cwnd = w->cwnd_bytes, floor = p[VEGAS_MIN_CWND] * mss;

    if (cwnd < w->ssthresh_bytes) {
        if (queued <= p[VEGAS_GAMMA] * mss)
            return 1;
        cwnd = ncc_min_u64(cwnd, path + mss); /* the path's bytes, and one packet for rounding */
    } else if (queued > ncc_max_u64(p[VEGAS_ALPHA], p[VEGAS_BETA]) * mss) {
        cwnd = cwnd > mss ? cwnd - mss : cwnd;
    } else if (queued < p[VEGAS_ALPHA] * mss && acked) {
        w->cwnd_bytes = ncc_min_u64(cwnd + mss, NCC_CC_CWND_MAX);
        return 0;
    } else {
        return 0;
    }
    w->cwnd_bytes = ncc_min_u64(ncc_max_u64(cwnd, floor), NCC_CC_CWND_MAX);
    w->ssthresh_bytes = ncc_min_u64(w->ssthresh_bytes, w->cwnd_bytes); /* no slow start from here */
    return 0;
}

/* Lowers the base RTT (0: none yet) to this ACK's sample, if that is of full packets. Small ones, among them those of a
 * handshake, take less time on every link: data can never be as fast. */
NCC_CC_FN void vegas_lower_base(struct vegas_state *s, const struct ncc_cc_conn *c, const struct ncc_cc_event *e)
{
    if (e->rtt_ns && e->delivered_bytes && e->delivered_bytes % c->mss_bytes == 0 &&
        (!s->base_rtt_ns || e->rtt_ns < s->base_rtt_ns))
        s->base_rtt_ns = e->rtt_ns;
}

NCC_CC_FN void vegas_on_ack(struct vegas_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                            const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    ncc_u64 acked;

    ncc_reno_advance(&s->w, e);
    acked = ncc_reno_countable(&s->w, e);
    vegas_lower_base(s, c, e);
    if (e->rtt_ns) {
        s->rtt_ns = s->rtt_ns ? ncc_min_u64(s->rtt_ns, e->rtt_ns) : e->rtt_ns;
        s->samples += s->samples < VEGAS_MIN_SAMPLES;
    }
    if ((s->w.flags & NCC_RENO_HOLD) || (e->flags & NCC_CC_ACK_IN_RECOVERY)) {
        vegas_new_round(s, e); /* these measurements are of the window before */
        ncc_reno_grow(&s->w, e, p[VEGAS_ABC_LIMIT]);
    } else if (e->una_bytes > s->round_end_bytes || !s->round_end_bytes) {
        if (s->samples < VEGAS_MIN_SAMPLES)
            ncc_reno_grow(&s->w, e, p[VEGAS_ABC_LIMIT]);
        else if (vegas_decide(s, p, e, acked) && acked)
            (void)ncc_reno_slow_start(&s->w, acked, p[VEGAS_ABC_LIMIT]);
        vegas_new_round(s, e);
    } else if (acked && s->w.cwnd_bytes < s->w.ssthresh_bytes) {
        (void)ncc_reno_slow_start(&s->w, acked, p[VEGAS_ABC_LIMIT]);
    }
    ncc_reno_state(&s->w, o);
}

NCC_CC_FN void vegas_on_loss(struct vegas_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                             const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)c;
    ncc_reno_loss(&s->w, e, p[VEGAS_MIN_CWND]);
    vegas_new_round(s, e);
    ncc_reno_state(&s->w, o);
}

NCC_CC_FN void vegas_on_timeout(struct vegas_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)c;
    ncc_reno_timeout(&s->w, e, p[VEGAS_MIN_CWND]);
    vegas_new_round(s, e);
    ncc_reno_state(&s->w, o);
}

/* RTTs from before the pause are forgotten, the base RTT among them (Linux: tcp_vegas_cwnd_event). */
NCC_CC_FN void vegas_on_restart(struct vegas_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)p;
    ncc_reno_restart(&s->w, c, e);
    vegas_new_round(s, e);
    s->base_rtt_ns = 0;
    ncc_reno_state(&s->w, o);
}

NCC_CC_REGISTER(vegas, NCC_CC_ECN_NONE, "Vegas (Brakmo and Peterson 1995): a few packets in queues, by delay; no ECN")

#endif
