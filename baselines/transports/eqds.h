/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * EQDS (Olteanu et al., NSDI 2022): as in NDP, receivers pull what switches trim. But what goes unasked ends with the
 * first word, since this tells that the receiver pulls from now on; and the sender says how much it is to pull.
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

/* Packets that go unasked: with what the line takes in an RTT, the first pull comes when they have left. */
NCC_CC_FN ncc_u32 eqds_unasked(ncc_u64 window, const struct ncc_tp_flow *f)
{
    const ncc_u64 rtt_bytes = f->base_rtt_ns * (f->line_bytes_per_s / 1000) / 1000000;

    return (ncc_u32)ncc_min_u64(ncc_min_u64(window, rtt_bytes / f->wire_bytes + 1), f->pkts);
}

NCC_CC_FN void eqds_start(struct eqds_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f, struct ncc_tp_out *o)
{
    (void)s;
    o->grant.pkts = eqds_unasked(p[EQDS_WINDOW], f);
    o->timer_ns = p[EQDS_TIMEOUT];
}

/* Says how many pulls the flow takes in all, as `nacks` NACKs have left it. */
NCC_CC_FN void eqds_ask(const struct eqds_sender *s, ncc_u32 left, struct ncc_tp_out *o)
{
    struct ncc_tp_packet *k = ncc_tp_say(o, NCC_TP_REQUEST);

    k->count = s->pulled.pulls + left;
    k->number = s->pulled.nacks;
}

NCC_CC_FN void eqds_heard(struct eqds_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                          const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    if (!s->heard && f->granted) {
        o->revoke = 1;
        eqds_ask(s, f->fresh + f->again, o);
    }
    s->heard = 1;
    ncc_pulled(&s->pulled, p[EQDS_TIMEOUT], f, k, o);
}

/* What is not known to be there is to be pulled again. */
NCC_CC_FN void eqds_sender_timer(struct eqds_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                 struct ncc_tp_out *o)
{
    o->revoke = 1;
    o->lost = f->below;
    o->lost_pkts = NCC_TP_ALL;
    o->timed_out = 1;
    o->timer_ns = p[EQDS_TIMEOUT];
    eqds_ask(s, f->pkts - f->acked, o);
}

struct eqds_receiver {
    struct ncc_pulls pulls;
};

/* At least one pull answers a REQUEST: those sent before may be lost. */
NCC_CC_FN void eqds_asked(struct ncc_pulls *s, ncc_u64 window, const struct ncc_tp_flow *f,
                          const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    const ncc_u32 total = k->count + s->trimmed - k->number;
    const ncc_u64 more = total > s->total ? total - s->total : 0;

    s->total = total;
    if (s->owed < window)
        ncc_pull_owe(s, (ncc_u32)ncc_max_u64(ncc_min_u64(more, window - s->owed), !s->owed), f, o);
}

NCC_CC_FN void eqds_got(struct eqds_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                        const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    ncc_pull_data(&s->pulls, eqds_unasked(p[EQDS_WINDOW], f), f, k, o);
    if (k->kind == NCC_TP_REQUEST)
        eqds_asked(&s->pulls, p[EQDS_WINDOW], f, k, o);
}

NCC_TP_NO_RECEIVER_TIMER(eqds)

struct eqds_host {
    ncc_u64 none;
};

NCC_CC_FN ncc_u64 eqds_turn(struct eqds_host *h, const ncc_u64 *p, const struct ncc_tp_turn *t)
{
    (void)h;
    return ncc_pull_turn(&((struct eqds_receiver *)t->rcv[0])->pulls, p[EQDS_PACE], t);
}

NCC_TP_REGISTER(eqds, NCC_TP_TRIMS | NCC_TP_TURNS, 1,
                "receivers pull, unasked data ends with the first word (Olteanu 2022)")

#endif
