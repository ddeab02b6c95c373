/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NewReno: slow start, congestion avoidance and halving of RFC 5681, byte counting of RFC 3465, cwnd = ssthresh while
 * losses are repaired (RFC 6582, RFC 6675), and classic ECN (RFC 3168). See cards/newreno.md.
 */
#ifndef NCC_NEWRENO_H
#define NCC_NEWRENO_H

#include "reno_window.h"

enum { NEWRENO_ABC_LIMIT, NEWRENO_MIN_CWND };

static const struct ncc_cc_param newreno_params[] = {NCC_RENO_PARAM_ABC_LIMIT, NCC_RENO_PARAM_MIN_CWND};

struct newreno_state {
    struct ncc_reno_window w;
};

NCC_CC_FN void newreno_init(struct newreno_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                            struct ncc_cc_out *o)
{
    (void)p;
    ncc_reno_init(&s->w, c);
    ncc_reno_state(&s->w, o);
}

NCC_CC_FN void newreno_on_ack(struct newreno_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                              const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)c;
    ncc_reno_advance(&s->w, e);
    if (ncc_reno_ecn_due(&s->w, e)) /* RFC 3168: as if a packet had been lost */
        ncc_reno_halve(&s->w, e, p[NEWRENO_MIN_CWND]);
    else
        ncc_reno_grow(&s->w, e, p[NEWRENO_ABC_LIMIT]);
    ncc_reno_state(&s->w, o);
}

NCC_CC_FN void newreno_on_loss(struct newreno_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                               const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)c;
    ncc_reno_loss(&s->w, e, p[NEWRENO_MIN_CWND]);
    ncc_reno_state(&s->w, o);
}

NCC_CC_FN void newreno_on_timeout(struct newreno_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                  const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)c;
    ncc_reno_timeout(&s->w, e, p[NEWRENO_MIN_CWND]);
    ncc_reno_state(&s->w, o);
}

NCC_CC_FN void newreno_on_restart(struct newreno_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                  const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)p;
    ncc_reno_restart(&s->w, c, e);
    ncc_reno_state(&s->w, o);
}

NCC_CC_REGISTER(newreno, NCC_CC_ECN_CLASSIC,
                "NewReno (RFC 5681, 6582, 6675) with byte counting (RFC 3465) and ECN (RFC 3168)")

#endif
