/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Annulus (Saeed et al., SIGCOMM 2020, Algorithm 1): a flow has two control loops, and sends at the lower of their
 * rates. One loop is an ordinary controller from end to end. The other is near the source: QCN's signals from switches
 * drive it (qcn.h). The loop with the higher rate stops growing at twice the lower rate. When the lower rate is cut,
 * the higher rate falls in proportion.
 *
 * The loop near the source is QCN's reaction point, with cycles of acknowledged bytes (section 3.2). Its rate paces the
 * flow while it is below window / RTT, the rate of the other loop.
 *
 * annulus_dctcp.h and annulus_cubic.h add this loop to a controller. See cards/annulus_dctcp.md.
 */
#ifndef NCC_ANNULUS_H
#define NCC_ANNULUS_H

#include "reno_window.h"

#define ANNULUS_LEVELS 128 /* a feedback of 63, the largest, cuts by 63 / 128: Gd = 1/128 */
#define ANNULUS_FAST 5     /* cycles of fast recovery, and then of active increase */

/* A function of BPF has five arguments at most, if it is not inlined. */
#define ANNULUS_FN static inline __attribute__((always_inline, unused))

/* Parameters of the near loop, after those of the controller. */
#define ANNULUS_PARAMS                                                                                                 \
    {"cycle_bytes", 150000, 1500, 1000000000, "acknowledged bytes of a cycle (802.1Qau: 150 KB)"},                     \
        {"ai_kbps", 5000, 1, 100000000, "kbit/s by which the target grows in a cycle: R_AI (802.1Qau: 5 Mbit/s)"},     \
        {"hai_kbps", 50000, 0, 100000000, "kbit/s by which the growth grows in each later cycle: R_HAI (802.1Qau)"},   \
        {"min_kbps", 10000, 8, 100000000, "kbit/s, lowest rate (802.1Qau: 10 Mbit/s)"},                                \
        {"uncoordinated", 0, 0, 1, "1: the loops do not hold each other (figure 8a), for comparison"}
enum { ANNULUS_CYCLE_BYTES, ANNULUS_AI, ANNULUS_HAI, ANNULUS_MIN, ANNULUS_UNCOORDINATED };

struct annulus_near {           /* the loop near the source */
    ncc_u64 rate_bytes_per_s;   /* 0: nothing limits it */
    ncc_u64 target_bytes_per_s; /* to which it recovers */
    ncc_u32 acked_bytes;        /* of this cycle */
    ncc_u32 cycles;             /* since the last cut */
};

NCC_CC_FN ncc_u64 annulus_bytes_per_s(ncc_u64 kbps) { return kbps * 125; }

/* Window / RTT (section 3.3; line 3 of Algorithm 1 prints window x RTT). 0: no RTT yet. */
NCC_CC_FN ncc_u64 annulus_end_rate(const struct ncc_reno_window *w, const struct ncc_cc_event *e)
{
    return e->srtt_ns ? ncc_min_u64(w->cwnd_bytes, 1ULL << 34) * NCC_NS_PER_S / e->srtt_ns : 0;
}

/* The lower rate of the two loops (line 16). */
NCC_CC_FN ncc_u64 annulus_lower(const struct annulus_near *n, ncc_u64 end_rate)
{
    return n->rate_bytes_per_s ? ncc_min_u64(n->rate_bytes_per_s, end_rate) : end_rate;
}

/* The near loop's rate paces the flow where it is the lower one. */
NCC_CC_FN void annulus_out(const struct annulus_near *n, const struct ncc_reno_window *w, const struct ncc_cc_event *e,
                           struct ncc_cc_out *o)
{
    ncc_reno_state(w, o);
    if (n->rate_bytes_per_s && n->rate_bytes_per_s < annulus_end_rate(w, e))
        o->pacing_bytes_per_s = n->rate_bytes_per_s;
}

/* QCN's cut by a signal. Further signals of the same congestion leave the target where it was before the first one. */
ANNULUS_FN void annulus_signal(struct annulus_near *n, struct ncc_reno_window *w, const ncc_u64 *p,
                               const struct ncc_cc_conn *c, const struct ncc_cc_event *e, ncc_u32 feedback)
{
    const ncc_u64 end_rate = annulus_end_rate(w, e), floor = annulus_bytes_per_s(p[ANNULUS_MIN]);
    const ncc_u64 keep = ANNULUS_LEVELS - feedback; /* more than half: feedback is at most 63 */
    const ncc_u64 window = w->cwnd_bytes;

    if (!end_rate)
        return;
    if (!n->rate_bytes_per_s || n->cycles)
        n->target_bytes_per_s = n->rate_bytes_per_s ? n->rate_bytes_per_s : end_rate;
    if (!n->rate_bytes_per_s)
        n->rate_bytes_per_s = end_rate;
    n->rate_bytes_per_s = ncc_max_u64(n->rate_bytes_per_s / ANNULUS_LEVELS * keep, floor);
    n->cycles = 0;
    n->acked_bytes = 0;
    if (n->rate_bytes_per_s < end_rate && !p[ANNULUS_UNCOORDINATED]) {
        w->cwnd_bytes = ncc_min_u64(w->cwnd_bytes, ncc_max_u64(window / ANNULUS_LEVELS * keep, 2ULL * c->mss_bytes));
        w->credit_bytes = 0;
    }
}

/* Call after an ACK that the end-to-end controller has handled; before it the window was `before_bytes`. */
ANNULUS_FN void annulus_acked(struct annulus_near *n, struct ncc_reno_window *w, const ncc_u64 *p,
                              const struct ncc_cc_conn *c, const struct ncc_cc_event *e, ncc_u64 before_bytes)
{
    if (!n->rate_bytes_per_s || !e->srtt_ns)
        return;
    if (!p[ANNULUS_UNCOORDINATED]) {
        struct ncc_reno_window earlier = *w;

        earlier.cwnd_bytes = before_bytes;
        const ncc_u64 end_rate = annulus_end_rate(&earlier, e), lower = annulus_lower(n, end_rate);

        if (w->cwnd_bytes < before_bytes && end_rate <= n->rate_bytes_per_s) /* cuts the near loop too */
            n->rate_bytes_per_s = ncc_max_u64((n->rate_bytes_per_s >> 10) * ((w->cwnd_bytes << 10) / before_bytes),
                                              annulus_bytes_per_s(p[ANNULUS_MIN]));
        else if (w->cwnd_bytes > before_bytes && end_rate >= 2 * lower) /* lines 2 and 9 */
            w->cwnd_bytes = before_bytes;
    }
    const ncc_u64 lower = annulus_lower(n, annulus_end_rate(w, e));

    n->acked_bytes += (ncc_u32)ncc_min_u64(e->delivered_bytes, 1U << 30);
    if (n->acked_bytes < p[ANNULUS_CYCLE_BYTES])
        return;
    n->acked_bytes = 0;
    if (n->rate_bytes_per_s >= 2 * lower && !p[ANNULUS_UNCOORDINATED])
        return;
    if (++n->cycles > 2 * ANNULUS_FAST)
        n->target_bytes_per_s += annulus_bytes_per_s((n->cycles - 2 * ANNULUS_FAST) * p[ANNULUS_HAI]);
    else if (n->cycles > ANNULUS_FAST)
        n->target_bytes_per_s += annulus_bytes_per_s(p[ANNULUS_AI]);
    n->rate_bytes_per_s = (n->rate_bytes_per_s + n->target_bytes_per_s) / 2;
    if (c->line_bytes_per_s && n->rate_bytes_per_s >= c->line_bytes_per_s)
        n->rate_bytes_per_s = 0; /* the line itself is the limit */
}

/* Annulus over a controller with a window `w` in its state and n_ parameters. */
#define ANNULUS_OVER(name_, over_, n_)                                                                                 \
    struct name_##_state {                                                                                             \
        struct over_##_state end;                                                                                      \
        struct annulus_near near;                                                                                      \
    };                                                                                                                 \
    NCC_CC_FN void name_##_init(struct name_##_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,                \
                                struct ncc_cc_out *o)                                                                  \
    {                                                                                                                  \
        over_##_init(&s->end, p, c, o);                                                                                \
    }                                                                                                                  \
    NCC_CC_FN void name_##_on_ack(struct name_##_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,              \
                                  const struct ncc_cc_event *e, struct ncc_cc_out *o)                                  \
    {                                                                                                                  \
        const ncc_u64 before_bytes = s->end.w.cwnd_bytes;                                                              \
                                                                                                                       \
        over_##_on_ack(&s->end, p, c, e, o);                                                                           \
        annulus_acked(&s->near, &s->end.w, p + (n_), c, e, before_bytes);                                              \
        annulus_out(&s->near, &s->end.w, e, o);                                                                        \
    }                                                                                                                  \
    NCC_CC_FN void name_##_on_loss(struct name_##_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,             \
                                   const struct ncc_cc_event *e, struct ncc_cc_out *o)                                 \
    {                                                                                                                  \
        const ncc_u64 before_bytes = s->end.w.cwnd_bytes;                                                              \
                                                                                                                       \
        over_##_on_loss(&s->end, p, c, e, o);                                                                          \
        annulus_acked(&s->near, &s->end.w, p + (n_), c, e, before_bytes);                                              \
        annulus_out(&s->near, &s->end.w, e, o);                                                                        \
    }                                                                                                                  \
    NCC_CC_FN void name_##_on_timeout(struct name_##_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,          \
                                      const struct ncc_cc_event *e, struct ncc_cc_out *o)                              \
    {                                                                                                                  \
        over_##_on_timeout(&s->end, p, c, e, o);                                                                       \
        annulus_out(&s->near, &s->end.w, e, o);                                                                        \
    }                                                                                                                  \
    NCC_CC_FN void name_##_on_restart(struct name_##_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,          \
                                      const struct ncc_cc_event *e, struct ncc_cc_out *o)                              \
    {                                                                                                                  \
        over_##_on_restart(&s->end, p, c, e, o);                                                                       \
        annulus_out(&s->near, &s->end.w, e, o);                                                                        \
    }                                                                                                                  \
    NCC_CC_FN void name_##_on_signal(struct name_##_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,           \
                                     const struct ncc_cc_event *e, const struct ncc_cc_signal *signal,                 \
                                     struct ncc_cc_out *o)                                                             \
    {                                                                                                                  \
        if (signal->kind == NCC_CC_QCN)                                                                                \
            annulus_signal(&s->near, &s->end.w, p + (n_), c, e, signal->value);                                        \
        annulus_out(&s->near, &s->end.w, e, o);                                                                        \
    }                                                                                                                  \
    NCC_CC_NO_TIMER(name_)

#endif
