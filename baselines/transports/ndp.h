/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NDP (Handley et al., SIGCOMM 2017): a first window leaves at line rate; switches trim packets that meet a long queue
 * (trim.h); the receiver reports each packet as complete or trimmed, and pulls one for each, at the pace of its line.
 */
#ifndef NCC_TP_NDP_H
#define NCC_TP_NDP_H

#include "transports/pulls.h"

enum { NDP_WINDOW, NDP_TIMEOUT, NDP_PACE };

static const struct ncc_cc_param ndp_params[] = {
    {"window_pkts", 30, 1, 1000000, "packets sent unasked (section 3.2)"},
    NCC_PULL_TIMEOUT_PARAM,
    NCC_PULL_PACE_PARAM,
};

struct ndp_sender {
    struct ncc_pulled pulled;
};

NCC_CC_FN void ndp_start(struct ndp_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f, struct ncc_tp_out *o)
{
    (void)s;
    o->grant.pkts = (ncc_u32)ncc_min_u64(p[NDP_WINDOW], f->pkts);
    o->timer_ns = p[NDP_TIMEOUT];
}

NCC_CC_FN void ndp_heard(struct ndp_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                         const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    (void)f;
    ncc_pulled(&s->pulled, p[NDP_TIMEOUT], k, o);
}

NCC_CC_FN void ndp_sender_timer(struct ndp_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                struct ncc_tp_out *o)
{
    ncc_pulled_silence(&s->pulled, p[NDP_TIMEOUT], f, o);
}

struct ndp_receiver {
    struct ncc_pulls pulls;
};

NCC_CC_FN void ndp_got(struct ndp_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                       const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    ncc_pull_got(&s->pulls, p[NDP_WINDOW], p[NDP_WINDOW], p[NDP_TIMEOUT], f, k, o);
}

NCC_CC_FN void ndp_receiver_timer(struct ndp_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                  struct ncc_tp_out *o)
{
    ncc_pull_silence(&s->pulls, p[NDP_WINDOW], p[NDP_TIMEOUT], f, o);
}

struct ndp_host {
    ncc_u64 none;
};

NCC_CC_FN ncc_u64 ndp_turn(struct ndp_host *h, const ncc_u64 *p, const struct ncc_tp_turn *t)
{
    (void)h;
    return ncc_pull_turn(&((struct ndp_receiver *)t->rcv[0])->pulls, p[NDP_PACE], p[NDP_TIMEOUT], t);
}

NCC_TP_REGISTER(ndp, NCC_TP_TRIMS | NCC_TP_TURNS, 1, "receivers pull what switches trim (Handley 2017)")

#endif
