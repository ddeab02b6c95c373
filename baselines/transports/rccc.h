/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RCCC, the receiver's credits of Ultra Ethernet (specification 1.0, section 3.6.14), as its consortium's simulator has
 * them: EQDS (eqds.h) with credits for several packets, a target that senders state, and credits for idle flows.
 * Packets spread over paths by their entropies (reps.h).
 */
#ifndef NCC_TP_RCCC_H
#define NCC_TP_RCCC_H

#include "transports/reps.h"

enum { RCCC_QUANTUM, RCCC_PACE, RCCC_WINDOW, RCCC_IDLE, RCCC_RTO, RCCC_ACK, RCCC_CHOICE, RCCC_PATHS };

static const struct ncc_cc_param rccc_params[] = {
    {"quantum_pkts", 4, 1, 64, "packets of a credit"},
    {"pace_permille", 990, 500, 1000, "1/1000; share of the line at which credits ask for data"},
    {"window_percent", 150, 1, 1000,
     "1/100 of a BDP; a window, which bounds data sent without credit, credit asked for at a time, and idle credit"},
    {"idle", 1, 0, 1, "1: flows that ask for no more get credit when no other flow does"},
    {"rto_ns", 200000, 1000, 60000000000, "ns of silence beyond an RTT, after which the sender asks again"},
    {"ack_bytes", 16384, 0, 1000000, "bytes on the wire of data that an ACK may wait for; 0: each packet has an ACK"},
    NCC_REPS_CHOICE_PARAM,
    NCC_REPS_PATHS_PARAM,
};

#define RCCC_LATER (1ULL << 62) /* added to the urgency of idle flows, which wait behind all others */
#define RCCC_MOST (1U << 30)    /* packets of a window */

struct rccc_sender {
    struct ncc_reps reps;
    ncc_u32 credited; /* packets so far */
    ncc_u32 heard;
    ncc_u32 waits; /* timeouts in a row */
};

/* A window, in packets. */
NCC_CC_FN ncc_u32 rccc_window(const ncc_u64 *p, const struct ncc_tp_flow *f)
{
    const ncc_u64 bdp = ncc_reps_bdp(f, ncc_min_u64(f->longest_rtt_ns, NCC_NS_PER_S));

    return (ncc_u32)ncc_min_u64(bdp * p[RCCC_WINDOW] / 100 / f->wire_bytes + 1, RCCC_MOST);
}

NCC_CC_FN ncc_u32 rccc_word_entropy(const ncc_u64 *p, const struct ncc_tp_flow *f)
{
    return ncc_reps_of_word(p[RCCC_CHOICE], p[RCCC_PATHS], f->random);
}

NCC_CC_FN ncc_u64 rccc_timeout_ns(const struct rccc_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f)
{
    return ncc_tp_wait_ns(f->longest_rtt_ns + p[RCCC_RTO], s->waits);
}

/* Packets that a sender with `left` to send would like to be credited in all by now: at most a window ahead, and its
 * share of its line. One that has more credit than it needs states this, or idle credit would never end. */
NCC_CC_FN ncc_u32 rccc_target(const struct rccc_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f, ncc_u32 left)
{
    const ncc_u32 ahead = (ncc_u32)ncc_min_u64(left, rccc_window(p, f));
    const ncc_u32 more = ahead > f->granted ? ahead - f->granted : ahead && !s->heard;

    if (s->heard && f->granted > ahead)
        return s->credited - (ncc_u32)ncc_min_u64(s->credited, f->granted - ahead);
    return s->credited + (more + f->rivals - 1) / f->rivals;
}

NCC_CC_FN void rccc_start(struct rccc_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f, struct ncc_tp_out *o)
{
    o->grant.pkts = rccc_window(p, f);
    o->grant.flags = NCC_TP_ECT;
    o->timer_ns = rccc_timeout_ns(s, p, f);
}

NCC_CC_FN void rccc_heard(struct rccc_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                          const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    o->revoke = !s->heard; /* data without credits ends with the first answer */
    s->heard = 1;
    s->waits = 0;
    if (k->kind == NCC_TP_ACK && !k->stamp && !(k->flags & NCC_TP_CE))
        ncc_reps_good(&s->reps, k->entropy);
    if (k->kind == NCC_TP_NACK) {
        o->lost = k->number;
        o->lost_pkts = k->count;
    } else if (k->kind == NCC_TP_CREDIT && k->count > s->credited) {
        o->grant.pkts = k->count - s->credited;
        o->grant.flags = NCC_TP_ECT;
        s->credited = k->count;
    }
    o->timer_ns = rccc_timeout_ns(s, p, f);
}

NCC_CC_FN void rccc_sender_timer(struct rccc_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                 struct ncc_tp_out *o)
{
    if (!f->at_host) { /* what waits there is not lost */
        struct ncc_tp_packet *asked = ncc_tp_say(o, NCC_TP_REQUEST);

        asked->count = rccc_target(s, p, f, f->pkts - f->acked);
        asked->entropy = rccc_word_entropy(p, f);
        o->lost = f->below;
        o->lost_pkts = NCC_TP_ALL;
        o->timed_out = 1;
        s->waits++;
        ncc_reps_freeze(&s->reps, f->now_ns);
    }
    o->timer_ns = rccc_timeout_ns(s, p, f);
}

NCC_CC_FN void rccc_leaves(struct rccc_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                           struct ncc_tp_packet *k)
{
    k->entropy = ncc_reps_next(&s->reps, p[RCCC_CHOICE], p[RCCC_PATHS], f->now_ns, f->random);
    k->count = rccc_target(s, p, f, f->fresh + f->again);
    k->stamp = ncc_reps_asks(f, k);
}

struct rccc_receiver {
    struct ncc_reps_acks acks;
    ncc_u32 wanted, given; /* packets so far */
};

NCC_CC_FN void rccc_got(struct rccc_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                        const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    const int idle = s->given >= s->wanted;

    if (k->kind != NCC_TP_DATA && k->kind != NCC_TP_REQUEST)
        return;
    ncc_reps_answer(&s->acks, p[RCCC_ACK], f, k, o);
    if (k->count > s->wanted)
        s->wanted = k->count;
    s->wanted += (k->flags & NCC_TP_TRIMMED) != 0;
    /* Credit may be lost, so that a REQUEST brings one in any case. */
    if (idle && (s->given < s->wanted || k->kind == NCC_TP_REQUEST))
        o->urgency = ncc_max_u64(f->now_ns, 1);
}

NCC_CC_FN void rccc_receiver_timer(struct rccc_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                   struct ncc_tp_out *o)
{
    ncc_reps_late(&s->acks, rccc_word_entropy(p, f), o);
}

struct rccc_host {
    ncc_u64 none;
};

/* The first flow gets a credit, and then waits behind the others. What a sender asks for is a round trip old: a flow
 * that asks for no more gets up to a window in advance, after all others. Returns the time in which the data fills the
 * line. */
NCC_CC_FN ncc_u64 rccc_turn(struct rccc_host *h, const ncc_u64 *p, const struct ncc_tp_turn *t)
{
    struct rccc_receiver *s = (struct rccc_receiver *)t->rcv[0];
    const ncc_u64 now_ns = ncc_max_u64(t->f->now_ns, 1);
    const ncc_u32 lacks = s->given < s->wanted ? s->wanted - s->given : (ncc_u32)p[RCCC_QUANTUM];
    const ncc_u32 pkts = (ncc_u32)ncc_min_u64(p[RCCC_QUANTUM], lacks);
    struct ncc_tp_packet *credit = ncc_tp_say(&t->o[0], NCC_TP_CREDIT);

    (void)h;
    s->given += pkts;
    credit->count = s->given;
    credit->entropy = rccc_word_entropy(p, t->f);
    if (s->given < s->wanted)
        t->o[0].urgency = now_ns;
    else if (p[RCCC_IDLE] && s->given - s->wanted < rccc_window(p, t->f))
        t->o[0].urgency = now_ns | RCCC_LATER;
    else
        t->o[0].urgency = NCC_TP_OFF;
    /* At least 1 ns, so that credits on very fast lines do not all leave at one instant. */
    return ncc_max_u64(pkts * NCC_NS_PER_S * 1000 * t->f->wire_bytes / (t->f->line_bytes_per_s * p[RCCC_PACE]), 1);
}

NCC_TP_REGISTER_LEAVES(rccc, NCC_TP_TRIMS | NCC_TP_MARKS | NCC_TP_TURNS, 1,
                       "the receiver's credits of Ultra Ethernet (UE 1.0, RCCC)")

#endif
