/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DCQCN's reaction point (Zhu et al., SIGCOMM 2015, sections 3.1 and 5): a flow is paced at a rate. Marks cut the rate,
 * by more if they come more often. A timer and a counter of bytes raise it again. See cards/dcqcn.md.
 *
 * ECN-Echo takes the place of the receiver's congestion notification packets (CNP). After an echo has cut the rate,
 * further echoes are ignored for `cnp_ns`.
 */
#ifndef NCC_DCQCN_H
#define NCC_DCQCN_H

#include "cc.h"

#define DCQCN_SHIFT 20 /* alpha = alpha_q / 2^20 */

enum {
    DCQCN_CNP_NS,
    DCQCN_G_SHIFT,
    DCQCN_ALPHA_NS,
    DCQCN_TIMER_NS,
    DCQCN_BYTES,
    DCQCN_FAST,
    DCQCN_AI,
    DCQCN_HAI,
    DCQCN_MIN,
};

static const struct ncc_cc_param dcqcn_params[] = {
    {"cnp_ns", 50000, 1000, 1000000000, "ns between cuts: N, between a flow's CNPs (section 3.1)"},
    {"g_shift", 8, 1, 16, "gain g = 2^-g_shift of alpha (1/256, figure 14)"},
    {"alpha_ns", 55000, 1000, 1000000000, "ns without a CNP after which alpha falls: K (equation 2)"},
    {"timer_ns", 55000, 1000, 1000000000, "ns between rises by the timer: T (figure 14)"},
    {"count_bytes", 10000000, 1500, 1000000000000, "bytes sent between rises by the counter: B (figure 14)"},
    {"fast_steps", 5, 1, 100, "rises of fast recovery: F (equation 3)"},
    {"ai_kbps", 40000, 1, 1000000000, "kbit/s of an additive rise: R_AI (equation 4)"},
    {"hai_kbps", 400000, 1, 1000000000, "kbit/s of a hyper rise: R_HAI (section 3.1; the size is ours)"},
    {"min_kbps", 10000, 8, 1000000000, "kbit/s, lowest rate (ours)"},
};

struct dcqcn_state {
    ncc_u64 rate_bytes_per_s;   /* R_C */
    ncc_u64 target_bytes_per_s; /* R_T */
    ncc_u64 cut_ns;             /* time of the last cut; 0: none */
    ncc_u64 alpha_due_ns, rise_due_ns;
    ncc_u64 counted_from_bytes; /* nxt when the counter of bytes began */
    ncc_u64 repair_bytes;       /* window since a timeout; 0: none, the rate alone limits */
    ncc_u32 alpha_q;
    ncc_u32 by_timer, by_bytes; /* rises since the last cut */
};

/* The link's rate; 10 Gbit/s where it is not known. */
NCC_CC_FN ncc_u64 dcqcn_line(const struct ncc_cc_conn *c)
{
    return c->line_bytes_per_s ? c->line_bytes_per_s : 1250000000ULL;
}

NCC_CC_FN void dcqcn_out(struct dcqcn_state *s, struct ncc_cc_out *o)
{
    o->cwnd_bytes = s->repair_bytes ? ncc_min_u64(s->repair_bytes, NCC_CC_CWND_MAX) : NCC_CC_CWND_MAX;
    o->ssthresh_bytes = NCC_CC_CWND_MAX;
    o->pacing_bytes_per_s = s->rate_bytes_per_s;
}

NCC_CC_FN void dcqcn_rearm(const struct dcqcn_state *s, const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    const ncc_u64 due_ns = ncc_min_u64(s->alpha_due_ns, s->rise_due_ns);

    if (s->cut_ns) /* nothing rises before the first cut */
        o->timer_ns = due_ns > e->now_ns ? due_ns - e->now_ns : 1;
}

NCC_CC_FN void dcqcn_init(struct dcqcn_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    (void)p;
    s->rate_bytes_per_s = s->target_bytes_per_s = dcqcn_line(c); /* flows start at line rate */
    s->alpha_q = 1U << DCQCN_SHIFT;
    dcqcn_out(s, o);
}

/* Equation 1, and the start of recovery. */
NCC_CC_FN void dcqcn_cut(struct dcqcn_state *s, const ncc_u64 *p, const struct ncc_cc_event *e)
{
    const ncc_u32 g = (ncc_u32)p[DCQCN_G_SHIFT];

    s->target_bytes_per_s = s->rate_bytes_per_s;
    s->rate_bytes_per_s -= (s->rate_bytes_per_s >> 10) * s->alpha_q >> (DCQCN_SHIFT + 1 - 10);
    s->rate_bytes_per_s = ncc_max_u64(s->rate_bytes_per_s, p[DCQCN_MIN] * 125);
    s->alpha_q += ((1U << DCQCN_SHIFT) - s->alpha_q) >> g;
    s->cut_ns = e->now_ns;
    s->alpha_due_ns = e->now_ns + p[DCQCN_ALPHA_NS];
    s->rise_due_ns = e->now_ns + p[DCQCN_TIMER_NS];
    s->counted_from_bytes = e->nxt_bytes;
    s->by_timer = s->by_bytes = 0;
}

/* Equations 3 and 4. */
NCC_CC_FN void dcqcn_rise(struct dcqcn_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c)
{
    const ncc_u64 fast = p[DCQCN_FAST];

    if (s->by_timer > fast && s->by_bytes > fast)
        s->target_bytes_per_s += p[DCQCN_HAI] * 125;
    else if (s->by_timer > fast || s->by_bytes > fast)
        s->target_bytes_per_s += p[DCQCN_AI] * 125;
    s->target_bytes_per_s = ncc_min_u64(s->target_bytes_per_s, dcqcn_line(c));
    s->rate_bytes_per_s = (s->rate_bytes_per_s + s->target_bytes_per_s) / 2;
}

NCC_CC_FN void dcqcn_on_ack(struct dcqcn_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                            const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    if (s->repair_bytes)
        s->repair_bytes = e->flags & NCC_CC_ACK_IN_RECOVERY ? s->repair_bytes + e->delivered_bytes : 0;
    if ((e->flags & NCC_CC_ACK_ECE) && (!s->cut_ns || e->now_ns >= s->cut_ns + p[DCQCN_CNP_NS])) {
        dcqcn_cut(s, p, e);
        dcqcn_rearm(s, e, o);
    } else if (s->cut_ns && e->nxt_bytes - s->counted_from_bytes >= p[DCQCN_BYTES]) {
        s->counted_from_bytes = e->nxt_bytes;
        s->by_bytes++;
        dcqcn_rise(s, p, c);
    }
    dcqcn_out(s, o);
}

NCC_CC_FN void dcqcn_on_timer(struct dcqcn_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                              const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    if (e->now_ns >= s->alpha_due_ns) { /* equation 2 */
        s->alpha_q -= s->alpha_q >> p[DCQCN_G_SHIFT];
        s->alpha_due_ns = e->now_ns + p[DCQCN_ALPHA_NS];
    }
    if (e->now_ns >= s->rise_due_ns) {
        s->rise_due_ns = e->now_ns + p[DCQCN_TIMER_NS];
        s->by_timer++;
        dcqcn_rise(s, p, c);
    }
    dcqcn_rearm(s, e, o);
    dcqcn_out(s, o);
}

/* The paper's fabric loses nothing: a loss changes no rate. After a timeout ACKs clock the repairs, as in slow start.
 */
NCC_CC_FN void dcqcn_on_loss(struct dcqcn_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                             const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)p, (void)c, (void)e;
    dcqcn_out(s, o);
}

NCC_CC_FN void dcqcn_on_timeout(struct dcqcn_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)p, (void)e;
    s->repair_bytes = c->mss_bytes;
    dcqcn_out(s, o);
}

NCC_CC_FN void dcqcn_on_restart(struct dcqcn_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)p, (void)c;
    dcqcn_rearm(s, e, o);
    dcqcn_out(s, o);
}

NCC_CC_NO_SIGNAL(dcqcn)
NCC_CC_REGISTER_WITH(dcqcn, NCC_CC_ECN_DCTCP, NCC_CC_TIMER, "DCQCN's sender (Zhu et al. 2015), paced, ECN-Echo as CNP")

#endif
