/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prague (draft-briscoe-iccrg-prague-congestion-control), as in the L4S team's Linux (tcp_prague.c): DCTCP for the
 * Internet. Its data carries ECT(1), by which switches know it (RFC 9331). It is paced, grows while its window is being
 * reduced, and grows and averages as if its RTT was at least 25 ms, so that flows with shorter RTTs get no larger
 * rates. See cards/prague.md.
 */
#ifndef NCC_PRAGUE_H
#define NCC_PRAGUE_H

#include "dctcp.h"

#define PRAGUE_SHIFT 20 /* parts of a byte are in 2^-20 */

enum { PRAGUE_RTT = DCTCP_MIN_CWND + 1, PRAGUE_ROUNDS };

static const struct ncc_cc_param prague_params[] = {
    DCTCP_PARAMS,
    {"rtt_ns", 25000000, 0, 100000000,
     "ns: RTT as which shorter ones count (rtt_target of Linux: 25 ms); 0: none, all are as they are"},
    {"rounds", 500, 0, 100000, "RTTs in congestion avoidance before shorter RTTs count so (rtt_transition: 500)"},
};

struct prague_state {
    struct dctcp_state d;
    ncc_u64 cut_until_bytes; /* nxt when the window was last reduced for a mark */
    ncc_u64 cut_ns;          /* time of that */
    ncc_u64 averaged_ns;     /* time at which alpha was last averaged */
    ncc_u64 round_end_bytes; /* nxt when this RTT began */
    ncc_u32 part_q20;        /* of a byte, that the window has beyond cwnd_bytes */
    ncc_u32 rounds;          /* RTTs in congestion avoidance */
    ncc_u32 flags;           /* enum prague_flags */
};

enum prague_flags {
    PRAGUE_MARKED = 1, /* a mark has come */
    PRAGUE_CUT = 2,    /* cut_until_bytes is set */
};

/* prague_update_pacing_rate: slow start sends at twice the window's rate. */
NCC_CC_FN void prague_out(const struct prague_state *s, const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    const struct ncc_reno_window *w = &s->d.w;
    const ncc_u64 twice = w->cwnd_bytes < w->ssthresh_bytes / 2 ? 2 : 1;

    ncc_reno_state(w, o);
    if (e && e->srtt_ns)
        o->pacing_bytes_per_s =
            ncc_max_u64(ncc_min_u64(w->cwnd_bytes, 1ULL << 32) * twice * NCC_NS_PER_S / e->srtt_ns, w->mss_bytes);
}

NCC_CC_FN void prague_init(struct prague_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    dctcp_init(&s->d, p, c, o);
    prague_out(s, 0, o);
}

/* The RTT as which this one counts. */
NCC_CC_FN ncc_u64 prague_rtt(const struct prague_state *s, const ncc_u64 *p, const struct ncc_cc_event *e)
{
    return s->rounds >= p[PRAGUE_ROUNDS] ? ncc_max_u64(e->srtt_ns, p[PRAGUE_RTT]) : e->srtt_ns;
}

/* prague_update_alpha: from the first mark on, once per RTT as it counts. */
NCC_CC_FN void prague_observe(struct prague_state *s, const ncc_u64 *p, const struct ncc_cc_event *e)
{
    const int over = dctcp_count(&s->d, e);

    if (e->flags & NCC_CC_ACK_ECE)
        s->flags |= PRAGUE_MARKED;
    if (e->una_bytes >= s->round_end_bytes) {
        s->round_end_bytes = e->nxt_bytes;
        if (s->d.w.cwnd_bytes >= s->d.w.ssthresh_bytes && s->rounds < p[PRAGUE_ROUNDS])
            ++s->rounds;
    }
    if (!over || (s->rounds >= p[PRAGUE_ROUNDS] && e->now_ns - s->averaged_ns < p[PRAGUE_RTT]))
        return;
    if (s->flags & PRAGUE_MARKED) {
        dctcp_average(&s->d, p, e);
    } else {
        s->d.delivered_bytes = 0;
        s->d.window_end_bytes = e->nxt_bytes;
    }
    s->averaged_ns = e->now_ns;
}

/* prague_enter_cwr: cwnd = cwnd (1 - alpha / 2), at the first mark of an RTT as it counts. */
NCC_CC_FN void prague_cut(struct prague_state *s, const ncc_u64 *p, const struct ncc_cc_event *e)
{
    struct ncc_reno_window *w = &s->d.w;

    if (!(e->flags & NCC_CC_ACK_ECE) || (e->flags & NCC_CC_ACK_IN_RECOVERY))
        return;
    if ((s->flags & PRAGUE_CUT) && (e->una_bytes <= s->cut_until_bytes ||
                                    (s->rounds >= p[PRAGUE_ROUNDS] && e->now_ns - s->cut_ns < p[PRAGUE_RTT])))
        return;
    ncc_reno_threshold(w, w->cwnd_bytes - ((w->cwnd_bytes * s->d.alpha_q) >> (DCTCP_ALPHA_SHIFT + 1)),
                       p[DCTCP_MIN_CWND]);
    w->cwnd_bytes = ncc_min_u64(w->cwnd_bytes, w->ssthresh_bytes);
    s->flags |= PRAGUE_CUT;
    s->cut_until_bytes = e->nxt_bytes;
    s->cut_ns = e->now_ns;
}

/* prague_rate_scaled_ai_ack_increase: a packet per window of unmarked bytes, times (RTT / the RTT as which it
 * counts)^2.
 */
NCC_CC_FN void prague_grow(struct prague_state *s, const ncc_u64 *p, const struct ncc_cc_event *e)
{
    struct ncc_reno_window *w = &s->d.w;
    ncc_u64 acked = ncc_reno_countable(w, e), step;

    if (acked && w->cwnd_bytes < w->ssthresh_bytes)
        acked = ncc_reno_slow_start(w, acked, p[DCTCP_ABC_LIMIT]);
    if (!acked)
        return;
    step = (acked << PRAGUE_SHIFT) / w->cwnd_bytes * w->mss_bytes; /* acked is at most cwnd, mss below 2^16 */
    if (e->srtt_ns && prague_rtt(s, p, e) > e->srtt_ns) {
        const ncc_u64 ratio = (e->srtt_ns << PRAGUE_SHIFT) / prague_rtt(s, p, e); /* srtt is below 100 ms here */

        step = (step * ((ratio * ratio) >> PRAGUE_SHIFT)) >> PRAGUE_SHIFT;
    }
    step += s->part_q20;
    s->part_q20 = (ncc_u32)(step & ((1U << PRAGUE_SHIFT) - 1));
    w->cwnd_bytes = ncc_min_u64(w->cwnd_bytes + (step >> PRAGUE_SHIFT), NCC_CC_CWND_MAX);
}

NCC_CC_FN void prague_on_ack(struct prague_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                             const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)c;
    prague_observe(s, p, e);
    ncc_reno_advance(&s->d.w, e);
    prague_cut(s, p, e);
    prague_grow(s, p, e);
    prague_out(s, e, o);
}

NCC_CC_FN void prague_on_loss(struct prague_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                              const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    dctcp_on_loss(&s->d, p, c, e, o);
    prague_out(s, e, o);
}

NCC_CC_FN void prague_on_timeout(struct prague_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                 const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    dctcp_on_timeout(&s->d, p, c, e, o);
    prague_out(s, e, o);
}

NCC_CC_FN void prague_on_restart(struct prague_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                 const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    dctcp_on_restart(&s->d, p, c, e, o);
    prague_out(s, e, o);
}

NCC_CC_NO_SIGNAL(prague)
NCC_CC_NO_TIMER(prague)
NCC_CC_REGISTER_WITH(prague, NCC_CC_ECN_DCTCP, NCC_CC_ECT1,
                     "Prague (draft-briscoe-iccrg-prague-congestion-control): DCTCP with ECT(1), paced")

#endif
