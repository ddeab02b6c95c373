/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of transports whose receivers pull what switches trim. Pulls are numbered, so that each makes good for those
 * that were lost before it. */
#ifndef NCC_TP_PULLS_H
#define NCC_TP_PULLS_H

#include "transport.h"

#define NCC_PULL_TIMEOUT_PARAM                                                                                         \
    {"timeout_ns", 1000000, 1000, 60000000000,                                                                         \
     "ns without progress, after which what is not known to be there goes again"}
#define NCC_PULL_PACE_PARAM {"pace_permille", 1000, 500, 1000, "1/1000; share of the line at which pulls ask for data"}

struct ncc_pulled {
    ncc_u32 pulls; /* highest number of a pull */
    ncc_u32 acked;
    ncc_u32 nacks;
};

/* The sender obeys a word. A word that tells of nothing new is no progress. */
NCC_CC_FN void ncc_pulled(struct ncc_pulled *s, ncc_u64 timeout_ns, const struct ncc_tp_flow *f,
                          const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    int progress = f->acked > s->acked;

    s->acked = f->acked;
    if (k->kind == NCC_TP_NACK) {
        o->lost = k->number;
        o->lost_pkts = k->count;
        s->nacks++;
        progress = 1;
    } else if (k->kind == NCC_TP_CREDIT && k->count > s->pulls) {
        o->grant.pkts = k->count - s->pulls;
        s->pulls = k->count;
        progress = 1;
    }
    if (progress)
        o->timer_ns = timeout_ns;
}

struct ncc_pulls {
    ncc_u32 total; /* pulls that the flow takes in all */
    ncc_u32 sent;
    ncc_u32 owed; /* pulls that may be sent now */
    ncc_u32 trimmed;
    ncc_u32 began;
};

/* The flow asks its host for a turn, behind those that have asked. */
NCC_CC_FN void ncc_pull_owe(struct ncc_pulls *s, ncc_u32 pulls, const struct ncc_tp_flow *f, struct ncc_tp_out *o)
{
    if (!s->owed)
        o->urgency = ncc_max_u64(f->now_ns, 1);
    s->owed += pulls;
}

/* Says what has come, and owes a pull for it until all packets beyond the `unasked` ones, and all trimmed ones, have
 * one. */
NCC_CC_FN void ncc_pull_data(struct ncc_pulls *s, ncc_u64 unasked, const struct ncc_tp_flow *f,
                             const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    const ncc_u32 cut = (k->flags & NCC_TP_TRIMMED) != 0;
    struct ncc_tp_packet *said;

    if (!s->began) {
        s->began = 1;
        s->total = f->pkts - (ncc_u32)ncc_min_u64(unasked, f->pkts);
    }
    if (k->kind != NCC_TP_DATA)
        return;
    said = ncc_tp_say(o, cut ? NCC_TP_NACK : NCC_TP_ACK);
    said->number = k->number;
    said->count = cut;
    s->trimmed += cut;
    s->total += cut;
    if (s->sent + s->owed < s->total)
        ncc_pull_owe(s, 1, f, o);
}

/* The first flow gets a pull, and then waits behind the others. Returns the time in which its packet fills the line. */
NCC_CC_FN ncc_u64 ncc_pull_turn(struct ncc_pulls *s, ncc_u64 pace_permille, const struct ncc_tp_turn *t)
{
    s->owed--;
    ncc_tp_say(&t->o[0], NCC_TP_CREDIT)->count = ++s->sent;
    t->o[0].urgency = s->owed ? ncc_max_u64(t->f->now_ns, 1) : NCC_TP_OFF;
    return t->f->wire_bytes * NCC_NS_PER_S * 1000 / (t->f->line_bytes_per_s * pace_permille);
}

#endif
