/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Homa (Montazeri et al., SIGCOMM 2018): the first `rtt_pkts` of a message leave without a grant, in a class by its
 * size; the receiver grants the rest, so that as much is in flight for each of the `overcommit` messages with the least
 * left, in classes by their order. A host's order of sending is `srpt` of orders/.
 */
#ifndef NCC_TP_HOMA_H
#define NCC_TP_HOMA_H

#include "transport.h"

#define HOMA_CLASSES 8      /* of the ports; the last ones are for what is granted */
#define HOMA_SENDER_WAITS 5 /* factor by which a sender waits longer than a receiver, which knows more */

enum { HOMA_RTT, HOMA_OVER, HOMA_RESEND, HOMA_SCHEDULED, HOMA_SECOND, HOMA_EXPENDABLE };

static const struct ncc_cc_param homa_params[] = {
    {"rtt_pkts", 7, 1, 1000000, "packets on their way: RTTbytes, 10 kB at 10 Gbit/s (section 3.2)"},
    {"overcommit", 6, 1, NCC_TP_TOP, "messages with grants at a time (section 3.5)"},
    {"resend_ns", 1000000, 1000, 60000000000, "ns of silence, after which what is missing is asked for again"},
    {"scheduled", 6, 1, HOMA_CLASSES, "classes for granted data, the last ones of 8 (section 3.4)"},
    {"second_bytes", 0, 0, 1000000000000,
     "bytes; messages of this size or more go unasked in the second class; 0: none"},
    {"expendable", 0, 0, 1, "1: ports drop first what goes unasked, and a PROBE behind it finds what was (Hu 2020)"},
};

struct homa_sender {
    ncc_u32 granted; /* packets that the receiver has allowed, from the first */
    ncc_u32 prio;    /* class of the last grant */
    ncc_u32 waits;   /* timeouts in a row without an answer */
};

/* Permits packets up to a number; grants may be lost or late. */
NCC_CC_FN void homa_permit(struct homa_sender *s, ncc_u32 upto, struct ncc_tp_out *o)
{
    o->grant.prio = s->prio;
    if (upto <= s->granted)
        return;
    o->grant.pkts = upto - s->granted;
    s->granted = upto;
}

NCC_CC_FN void homa_start(struct homa_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f, struct ncc_tp_out *o)
{
    s->prio = p[HOMA_SECOND] && (ncc_u64)f->pkts * f->mtu_bytes >= p[HOMA_SECOND];
    homa_permit(s, (ncc_u32)ncc_min_u64(p[HOMA_RTT], f->pkts), o);
    if (p[HOMA_EXPENDABLE])
        o->grant.flags = NCC_TP_EXPENDABLE | NCC_TP_THEN_PROBE;
    o->timer_ns = HOMA_SENDER_WAITS * p[HOMA_RESEND];
}

NCC_CC_FN void homa_heard(struct homa_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                          const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    (void)f;
    s->waits = 0;
    o->timer_ns = HOMA_SENDER_WAITS * p[HOMA_RESEND];
    if (k->kind == NCC_TP_CREDIT) {
        s->prio = k->number; /* the class */
        homa_permit(s, k->count, o);
    } else if (k->kind == NCC_TP_NACK) { /* a packet that is asked for again is granted, since its grant may be lost */
        o->lost = k->number;
        o->lost_pkts = k->count;
        o->lost_go = 1;
        homa_permit(s, k->number + k->count, o);
    }
}

/* No answer came: the first packets, which announce the message, may be lost, or the last ACK. Senders that lost theirs
 * at the same time do not try again at the same time. */
NCC_CC_FN void homa_sender_timer(struct homa_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                 struct ncc_tp_out *o)
{
    const ncc_u64 wait_ns = ncc_tp_wait_ns(HOMA_SENDER_WAITS * p[HOMA_RESEND], s->waits);

    if (f->at_host) { /* what waits here is not lost */
        o->timer_ns = wait_ns;
        return;
    }
    s->waits++;
    o->lost = f->below;
    o->lost_pkts = 1;
    o->lost_go = 1;
    o->timed_out = 1;
    o->timer_ns = wait_ns + (wait_ns >> 8) * (f->random >> 24);
}

/* Steps before missing packets are asked for again. */
enum homa_asks {
    HOMA_CONTENT,
    HOMA_SILENT, /* no new packet has arrived */
    HOMA_FIRST,  /* nor of more urgent messages; packets that waited behind their last `rtt_pkts` may arrive now */
    HOMA_LOST,   /* they have not */
};

struct homa_receiver {
    ncc_u32 granted;
    ncc_u32 here;  /* packets that had arrived at the last new one */
    ncc_u32 waits; /* timeouts in a row without a new one; 0: they arrive */
    ncc_u32 asks;  /* enum homa_asks */
    ncc_u32 mends; /* 1: it asked; it keeps its place until it is complete, so that not all are repaired at once */
};

/* SRPT. Each wait changes the key, so that a turn follows it. */
NCC_CC_FN ncc_u64 homa_urgency(const struct homa_receiver *s, const struct ncc_tp_flow *f)
{
    if (s->granted == f->pkts && s->asks == HOMA_CONTENT && !s->mends)
        return NCC_TP_OFF;
    return ((ncc_u64)(f->pkts - f->here) << 8) + 255 - s->waits;
}

NCC_CC_FN void homa_got(struct homa_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                        const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    (void)k;
    if (!s->granted)
        s->granted = (ncc_u32)ncc_min_u64(p[HOMA_RTT], f->pkts);
    if (f->here == f->pkts) {
        ncc_tp_say(o, NCC_TP_ACK);
        return;
    }
    if (f->here > s->here) {
        s->here = f->here;
        s->waits = 0;
        s->asks = HOMA_CONTENT;
        o->timer_ns = p[HOMA_RESEND];
    }
    o->urgency = homa_urgency(s, f);
}

NCC_CC_FN void homa_receiver_timer(struct homa_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                   struct ncc_tp_out *o)
{
    (void)p;
    if (s->granted == f->here) /* it waits for a grant */
        return;
    s->waits = s->waits % 255 + 1;
    s->asks = s->asks == HOMA_FIRST ? HOMA_LOST : HOMA_SILENT;
    o->urgency = homa_urgency(s, f);
}

struct homa_host {
    ncc_u64 none;
};

/* Asks for all missing granted packets of a silent message again, if the more urgent messages are silent too. */
NCC_CC_FN void homa_resend(struct homa_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f, struct ncc_tp_out *o)
{
    if (s->asks == HOMA_SILENT) {
        s->asks = HOMA_FIRST;
        o->timer_ns = f->base_rtt_ns + p[HOMA_RTT] * f->wire_bytes * NCC_NS_PER_S / f->line_bytes_per_s;
    } else if (s->asks == HOMA_LOST) {
        s->asks = HOMA_CONTENT;
        s->mends = 1;
        o->holes = s->granted;
        o->timed_out = 1;
        o->timer_ns = ncc_tp_wait_ns(p[HOMA_RESEND], s->waits);
    }
}

NCC_CC_FN ncc_u64 homa_turn(struct homa_host *h, const ncc_u64 *p, const struct ncc_tp_turn *t)
{
    ncc_u32 silent = 1; /* no packet arrives of more urgent messages, behind which one could wait */

    (void)h;
    for (ncc_u32 i = 0; i < t->n && i < p[HOMA_OVER] && i < NCC_TP_TOP; i++) {
        struct homa_receiver *s = (struct homa_receiver *)t->rcv[i];
        const ncc_u32 upto = (ncc_u32)ncc_min_u64(t->f[i].here + p[HOMA_RTT], t->f[i].pkts);
        struct ncc_tp_packet *k;

        if (silent)
            homa_resend(s, p, &t->f[i], &t->o[i]);
        silent &= s->waits > 0;
        if (upto <= s->granted)
            continue;
        s->granted = upto;
        k = ncc_tp_say(&t->o[i], NCC_TP_CREDIT);
        k->count = upto;
        k->number = (ncc_u32)(HOMA_CLASSES - p[HOMA_SCHEDULED] + ncc_min_u64(i, p[HOMA_SCHEDULED] - 1));
        t->o[i].timer_ns = ncc_max_u64(t->o[i].timer_ns, p[HOMA_RESEND]);
        if (homa_urgency(s, &t->f[i]) == NCC_TP_OFF)
            t->o[i].urgency = NCC_TP_OFF;
    }
    return 0;
}

NCC_TP_REGISTER(homa, NCC_TP_CLASSES | NCC_TP_TURNS, NCC_TP_TOP,
                "receivers grant the messages with the least left (Montazeri 2018)")

#endif
