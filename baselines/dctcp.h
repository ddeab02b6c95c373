/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DCTCP: RFC 8257. The window shrinks in proportion to the fraction of bytes that met congestion. Everything else,
 * the reaction to losses included (section 3.5), is that of NewReno. See cards/dctcp.md.
 */
#ifndef NCC_DCTCP_H
#define NCC_DCTCP_H

#include "reno_window.h"

#define DCTCP_ALPHA_SHIFT 20         /* alpha = alpha_q / 2^20; times the largest window (2^40) it fits 64 bits */
#define DCTCP_PARAM_SHIFT 10         /* alpha_init is given in 1/1024, the unit of Linux' dctcp_alpha_on_init */
#define DCTCP_COUNT_MAX (1ULL << 43) /* counts saturate here, so that shifted by DCTCP_ALPHA_SHIFT they fit 64 bits */

enum { DCTCP_G_SHIFT, DCTCP_ALPHA_INIT, DCTCP_ABC_LIMIT, DCTCP_MIN_CWND };

/* In the order of the enum; also for tables that begin with these parameters. */
#define DCTCP_PARAMS                                                                                                   \
    {"g_shift", 4, 1, 10, "gain g = 2^-g_shift of alpha's moving average (1/16 in the DCTCP paper, Linux and ns-3)"},  \
        {"alpha_init", 1024, 0, 1024, "1/1024: alpha before the first window (RFC 8257 section 3.3 and Linux: 1)"},    \
        NCC_RENO_PARAM_ABC_LIMIT, NCC_RENO_PARAM_MIN_CWND

static const struct ncc_cc_param dctcp_params[] = {DCTCP_PARAMS};

struct dctcp_state {
    struct ncc_reno_window w;
    ncc_u64 window_end_bytes; /* DCTCP.WindowEnd: nxt when this observation window began */
    ncc_u64 delivered_bytes;  /* DCTCP.BytesAcked: in this window */
    ncc_u64 marked_bytes;     /* DCTCP.BytesMarked: of these, acknowledged with ECN-Echo */
    ncc_u32 alpha_q;          /* 0 .. 1 << DCTCP_ALPHA_SHIFT */
};

NCC_CC_FN void dctcp_init(struct dctcp_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    ncc_reno_init(&s->w, c);
    s->alpha_q = (ncc_u32)p[DCTCP_ALPHA_INIT] << (DCTCP_ALPHA_SHIFT - DCTCP_PARAM_SHIFT);
    ncc_reno_state(&s->w, o);
}

/* Counts what this ACK delivers. Returns true if it ends the window. */
NCC_CC_FN int dctcp_count(struct dctcp_state *s, const struct ncc_cc_event *e)
{
    ncc_u64 bytes = ncc_min_u64(e->delivered_bytes, DCTCP_COUNT_MAX - s->delivered_bytes);

    s->delivered_bytes += bytes;
    if (e->flags & NCC_CC_ACK_ECE)
        s->marked_bytes += bytes;
    return e->una_bytes >= s->window_end_bytes && s->delivered_bytes;
}

/* RFC 8257 section 3.3: M = marked / acked; alpha = (1 - g) alpha + g M, at the end of a window. */
NCC_CC_FN void dctcp_average(struct dctcp_state *s, const ncc_u64 *p, const struct ncc_cc_event *e)
{
    ncc_u32 g = (ncc_u32)p[DCTCP_G_SHIFT];
    ncc_u32 marked_q = (ncc_u32)((s->marked_bytes << DCTCP_ALPHA_SHIFT) / s->delivered_bytes);
    /* The decay rounds up, so that alpha without marks reaches 0 instead of sticking at 2^g - 1. */
    s->alpha_q = s->alpha_q - ((s->alpha_q + (1U << g) - 1) >> g) + (marked_q >> g);
    s->window_end_bytes = e->nxt_bytes;
    s->delivered_bytes = 0;
    s->marked_bytes = 0;
}

/* Returns true once per window, when alpha is new. */
NCC_CC_FN int dctcp_observe(struct dctcp_state *s, const ncc_u64 *p, const struct ncc_cc_event *e)
{
    int over = dctcp_count(s, e);

    if (over)
        dctcp_average(s, p, e);
    return over;
}

NCC_CC_FN void dctcp_on_ack(struct dctcp_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                            const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)c;
    (void)dctcp_observe(s, p, e);
    ncc_reno_advance(&s->w, e);
    if (ncc_reno_ecn_due(&s->w, e)) { /* cwnd = cwnd (1 - alpha / 2) */
        ncc_u64 cut = (s->w.cwnd_bytes * s->alpha_q) >> (DCTCP_ALPHA_SHIFT + 1);

        ncc_reno_reduce(&s->w, e, s->w.cwnd_bytes - cut, p[DCTCP_MIN_CWND]);
    } else {
        ncc_reno_grow(&s->w, e, p[DCTCP_ABC_LIMIT]);
    }
    ncc_reno_state(&s->w, o);
}

/* Section 3.5: a loss is treated as in conventional TCP, for any alpha, and also in a window that ECN has already
 * reduced. */
NCC_CC_FN void dctcp_on_loss(struct dctcp_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                             const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)c;
    ncc_reno_loss(&s->w, e, p[DCTCP_MIN_CWND]);
    ncc_reno_state(&s->w, o);
}

NCC_CC_FN void dctcp_on_timeout(struct dctcp_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)c;
    ncc_reno_timeout(&s->w, e, p[DCTCP_MIN_CWND]);
    ncc_reno_state(&s->w, o);
}

NCC_CC_FN void dctcp_on_restart(struct dctcp_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)p;
    ncc_reno_restart(&s->w, c, e);
    ncc_reno_state(&s->w, o);
}

NCC_CC_REGISTER(dctcp, NCC_CC_ECN_DCTCP, "DCTCP (RFC 8257), loss halves the window (section 3.5)")

#endif
