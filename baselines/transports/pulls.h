/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of transports whose receivers pull packets that switches trim. Pulls are numbered, so that each replaces those
 * that were lost before it. */
#ifndef NCC_TP_PULLS_H
#define NCC_TP_PULLS_H

#include "transport.h"

#define NCC_PULL_SENDER_WAITS 16 /* factor by which a sender waits longer once the receiver knows of the flow */
#define NCC_PULL_TIMEOUT_PARAM                                                                                         \
    {"timeout_ns", 1000000, 1000, 60000000000, "ns of silence, after which what is missing is pulled again"}
#define NCC_PULL_PACE_PARAM {"pace_permille", 1000, 500, 1000, "1/1000; share of the line at which pulls ask for data"}

struct ncc_pulled {
    ncc_u32 pulls; /* highest number of a pull */
    ncc_u32 nacks; /* of trimmed packets */
    ncc_u32 waits; /* timeouts in a row without an answer */
};

/* The sender handles a control packet. */
NCC_CC_FN void ncc_pulled(struct ncc_pulled *s, ncc_u64 timeout_ns, const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    s->waits = 0;
    o->timer_ns = NCC_PULL_SENDER_WAITS * timeout_ns;
    if (k->kind == NCC_TP_NACK) {
        o->lost = k->number;
        o->lost_pkts = k->count;
        s->nacks += (k->flags & NCC_TP_TRIMMED) != 0;
    } else if (k->kind == NCC_TP_CREDIT && k->count > s->pulls) {
        o->grant.pkts = k->count - s->pulls;
        s->pulls = k->count;
    }
}

/* The sender states how many pulls the flow needs in all, after `nacks` NACKs. */
NCC_CC_FN void ncc_pulled_ask(const struct ncc_pulled *s, ncc_u32 left, struct ncc_tp_out *o)
{
    struct ncc_tp_packet *k = ncc_tp_say(o, NCC_TP_REQUEST);

    k->count = s->pulls + left;
    k->number = s->nacks;
}

/* No answer has come: the receiver may not know of the flow, or the last ACK was lost. Nothing is sent again before it
 * is pulled, since a link that lost it would lose it again. */
NCC_CC_FN void ncc_pulled_silence(struct ncc_pulled *s, ncc_u64 timeout_ns, const struct ncc_tp_flow *f,
                                  struct ncc_tp_out *o)
{
    if (f->at_host) { /* what waits here is not lost */
        o->timer_ns = ncc_tp_wait_ns(timeout_ns, s->waits);
        return;
    }
    o->revoke = 1;
    o->lost = f->below;
    o->lost_pkts = NCC_TP_ALL;
    o->timed_out = 1;
    s->waits++;
    o->timer_ns = ncc_tp_wait_ns(timeout_ns, s->waits);
    ncc_pulled_ask(s, f->pkts - f->acked, o);
}

struct ncc_pulls {
    ncc_u32 total; /* pulls that the flow needs in all */
    ncc_u32 sent;
    ncc_u32 owed; /* pulls that may be sent now */
    ncc_u32 trimmed;
    ncc_u32 began;
    ncc_u32 waits; /* timeouts in a row without a packet */
    ncc_u32 brief; /* 1: the flow's last packet, which may be short, is to be pulled */
};

/* The flow asks its host for a turn, behind those that have asked. */
NCC_CC_FN void ncc_pull_owe(struct ncc_pulls *s, ncc_u32 pulls, const struct ncc_tp_flow *f, struct ncc_tp_out *o)
{
    if (!s->owed)
        o->urgency = ncc_max_u64(f->now_ns, 1);
    s->owed += pulls;
}

/* A REQUEST: owes the pulls that it adds, within a window, and at least one, since earlier ones may be lost. */
NCC_CC_FN void ncc_pull_asked(struct ncc_pulls *s, ncc_u64 window, const struct ncc_tp_flow *f,
                              const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    const ncc_u32 total = k->count + s->trimmed - k->number;
    const ncc_u64 more = total > s->total ? total - s->total : 0;

    s->total = total;
    if (s->owed < window)
        ncc_pull_owe(s, (ncc_u32)ncc_max_u64(ncc_min_u64(more, window - s->owed), !s->owed), f, o);
}

/* Reports an arrival, and owes a pull for it until all packets beyond the first window, and all trimmed ones, have
 * one. */
NCC_CC_FN void ncc_pull_data(struct ncc_pulls *s, const struct ncc_tp_flow *f, const struct ncc_tp_packet *k,
                             struct ncc_tp_out *o)
{
    const ncc_u32 cut = (k->flags & NCC_TP_TRIMMED) != 0;
    struct ncc_tp_packet *said = ncc_tp_say(o, cut ? NCC_TP_NACK : NCC_TP_ACK);

    said->number = k->number;
    said->count = cut;
    said->flags = k->flags & NCC_TP_TRIMMED;
    s->trimmed += cut;
    s->total += cut;
    if (k->number == f->pkts - 1)
        s->brief = cut;
    if (s->sent + s->owed < s->total)
        ncc_pull_owe(s, 1, f, o);
}

/* Data, a header or a REQUEST has arrived. */
NCC_CC_FN void ncc_pull_got(struct ncc_pulls *s, ncc_u64 unasked, ncc_u64 window, ncc_u64 timeout_ns,
                            const struct ncc_tp_flow *f, const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    if (!s->began) {
        s->began = 1;
        s->total = f->pkts - (ncc_u32)ncc_min_u64(unasked, f->pkts);
        s->brief = s->total > 0;
    }
    s->waits = 0;
    o->timer_ns = timeout_ns;
    if (k->kind == NCC_TP_DATA)
        ncc_pull_data(s, f, k, o);
    else if (k->kind == NCC_TP_REQUEST)
        ncc_pull_asked(s, window, f, k, o);
}

/* Nothing has arrived since the last pull: missing packets are lost, and pulled again. */
NCC_CC_FN void ncc_pull_silence(struct ncc_pulls *s, ncc_u64 window, ncc_u64 timeout_ns, const struct ncc_tp_flow *f,
                                struct ncc_tp_out *o)
{
    const ncc_u32 missing = f->pkts - f->here;

    if (!s->owed) { /* else its turn will come */
        s->waits++;
        s->total = s->sent + missing;
        o->holes = f->pkts;
        o->timed_out = 1;
        ncc_pull_owe(s, (ncc_u32)ncc_min_u64(missing, window), f, o);
    }
    o->timer_ns = ncc_tp_wait_ns(timeout_ns, s->waits);
}

/* The first flow gets a pull, and then waits behind the others. Returns the time in which its packet fills the line:
 * packets leave by their numbers, so that the last pull brings the last one. */
NCC_CC_FN ncc_u64 ncc_pull_turn(struct ncc_pulls *s, ncc_u64 pace_permille, ncc_u64 timeout_ns,
                                const struct ncc_tp_turn *t)
{
    ncc_u64 bytes = t->f->wire_bytes;

    s->owed--;
    ncc_tp_say(&t->o[0], NCC_TP_CREDIT)->count = ++s->sent;
    t->o[0].urgency = s->owed ? ncc_max_u64(t->f->now_ns, 1) : NCC_TP_OFF;
    t->o[0].timer_ns = ncc_tp_wait_ns(timeout_ns, s->waits);
    if (s->brief && s->sent == s->total)
        bytes = t->f->last_wire_bytes;
    return bytes * NCC_NS_PER_S * 1000 / (t->f->line_bytes_per_s * pace_permille);
}

#endif
