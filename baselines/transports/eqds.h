/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * EQDS (Olteanu et al., NSDI 2022): as in NDP, receivers pull what switches trim. But unrequested data ends with the
 * first answer, since the receiver pulls from then on, and the sender states how many packets it is to pull.
 */
#ifndef NCC_TP_EQDS_H
#define NCC_TP_EQDS_H

#include "transports/pulls.h"

enum { EQDS_WINDOW, EQDS_TIMEOUT, EQDS_PACE };

static const struct ncc_cc_param eqds_params[] = {
    {"window_pkts", 50, 1, 1000000, "most packets on their way; what goes unasked is at most an RTT's"},
    NCC_PULL_TIMEOUT_PARAM,
    NCC_PULL_PACE_PARAM,
};

struct eqds_sender {
    struct ncc_pulled pulled;
    ncc_u32 heard;
};

/* Packets that leave unrequested: with an RTT of data, the first pull arrives when they have left. */
NCC_CC_FN ncc_u32 eqds_unasked(ncc_u64 window, const struct ncc_tp_flow *f)
{
    const ncc_u64 rtt_bytes = f->base_rtt_ns * (f->sender_bytes_per_s / 1000) / 1000000;

    return (ncc_u32)ncc_min_u64(ncc_min_u64(window, rtt_bytes / f->wire_bytes + 1), f->pkts);
}

NCC_CC_FN void eqds_start(struct eqds_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f, struct ncc_tp_out *o)
{
    (void)s;
    o->grant.pkts = eqds_unasked(p[EQDS_WINDOW], f);
    o->timer_ns = p[EQDS_TIMEOUT];
}

NCC_CC_FN void eqds_heard(struct eqds_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                          const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    if (!s->heard && f->granted) {
        o->revoke = 1;
        ncc_pulled_ask(&s->pulled, f->fresh + f->again, o);
    }
    s->heard = 1;
    ncc_pulled(&s->pulled, p[EQDS_TIMEOUT], k, o);
}

NCC_CC_FN void eqds_sender_timer(struct eqds_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                 struct ncc_tp_out *o)
{
    ncc_pulled_silence(&s->pulled, p[EQDS_TIMEOUT], f, o);
}

struct eqds_receiver {
    struct ncc_pulls pulls;
};

NCC_CC_FN void eqds_got(struct eqds_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                        const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    ncc_pull_got(&s->pulls, eqds_unasked(p[EQDS_WINDOW], f), p[EQDS_WINDOW], p[EQDS_TIMEOUT], f, k, o);
}

NCC_CC_FN void eqds_receiver_timer(struct eqds_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                   struct ncc_tp_out *o)
{
    ncc_pull_silence(&s->pulls, p[EQDS_WINDOW], p[EQDS_TIMEOUT], f, o);
}

struct eqds_host {
    ncc_u64 none;
};

NCC_CC_FN ncc_u64 eqds_turn(struct eqds_host *h, const ncc_u64 *p, const struct ncc_tp_turn *t)
{
    (void)h;
    return ncc_pull_turn(&((struct eqds_receiver *)t->rcv[0])->pulls, p[EQDS_PACE], p[EQDS_TIMEOUT], t);
}

NCC_TP_REGISTER(eqds, NCC_TP_TRIMS | NCC_TP_TURNS, 1,
                "receivers pull, unrequested data ends with the first answer (Olteanu 2022)")

#endif
