/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NSCC, the sender's window of Ultra Ethernet (specification 1.0, section 3.6.13): it follows marks, delay and trimmed
 * packets (trim.h). Packets spread over paths by their entropies (reps.h). Constants that the specification leaves open
 * are those of its consortium's simulator.
 */
#ifndef NCC_TP_NSCC_H
#define NCC_TP_NSCC_H

#include "transports/reps.h"

enum { NSCC_TARGET, NSCC_QUICK_SHIFT, NSCC_MEDIAN, NSCC_RTO, NSCC_RTT, NSCC_ACK, NSCC_CHOICE, NSCC_PATHS };

static const struct ncc_cc_param nscc_params[] = {
    {"target_permille", 750, 1, 10000, "1/1000; target of the queueing delay, as a share of the network's longest RTT"},
    {"quick_shift", 3, 0, 16, "QuickAdapt acts if less has arrived than the largest window / 2^this"},
    {"median", 0, 0, 1, "1: the delay is the median of the last ones (MNSCC), 0: the last"},
    {"rto_ns", 200000, 1000, 60000000000, "ns of silence beyond an RTT, after which what has no ACK goes again"},
    {"base_rtt_ns", 0, 0, 1000000000, "ns; the network's longest RTT through empty queues; 0: as the links make it"},
    {"ack_bytes", 16384, 0, 1000000, "bytes on the wire of data that an ACK may wait for; 0: each packet has an ACK"},
    NCC_REPS_CHOICE_PARAM,
    NCC_REPS_PATHS_PARAM,
};

#define NSCC_CLEAR_NS 1000     /* a delay below it counts as none */
#define NSCC_BDP 150000        /* the network whose gains are 1: bytes, */
#define NSCC_RTT_NS 12000      /* and target delay */
#define NSCC_MOST (1ULL << 30) /* bytes of a window, ns of a delay */
#define NSCC_ACKED (1U << 20)  /* most bytes of one ACK by which the window grows */
#define NSCC_AVERAGE 80        /* samples of the average delay */
#define NSCC_DELAYS 4          /* most delays of a median */

struct nscc_sender {
    ncc_u64 period_end_ns; /* of QuickAdapt; 0: none has begun */
    ncc_u64 added_ns;      /* time of the last constant increase */
    ncc_u64 cut_ns;        /* time of the last cut by delay */
    ncc_u64 pending;       /* increase that waits, bytes x the window */
    ncc_u64 average;       /* delay, 1/256 ns */
    struct ncc_reps reps;
    ncc_u32 base_rtt_ns;
    ncc_u32 cwnd;          /* bytes on the wire, as all others */
    ncc_u32 period_bytes;  /* data that has arrived in QuickAdapt's period */
    ncc_u32 pending_bytes; /* data that has arrived since `pending` was applied */
    ncc_u32 clear_bytes;   /* data that has arrived since the last delay */
    ncc_u32 ignore_bytes;  /* data in flight when QuickAdapt acted: its marks do not count */
    ncc_u32 acked;         /* packets that had arrived by the last ACK */
    ncc_u32 delays[NSCC_DELAYS];
    ncc_u8 n_delays; /* mod 4 the place of the next, at least 4: all places are filled */
    ncc_u8 trimmed;  /* since the last QuickAdapt */
    ncc_u8 waits;    /* timeouts in a row */
};

NCC_CC_FN ncc_u64 nscc_rtt_ns(const ncc_u64 *p, const struct ncc_tp_flow *f)
{
    return ncc_min_u64(p[NSCC_RTT] ? p[NSCC_RTT] : f->longest_rtt_ns, NSCC_MOST);
}

NCC_CC_FN ncc_u64 nscc_target_ns(const ncc_u64 *p, const struct ncc_tp_flow *f)
{
    return nscc_rtt_ns(p, f) * p[NSCC_TARGET] / 1000;
}

NCC_CC_FN ncc_u64 nscc_bdp(const struct ncc_tp_flow *f, ncc_u64 rtt_ns)
{
    return ncc_min_u64(ncc_reps_bdp(f, rtt_ns), NSCC_MOST / 2);
}

/* The largest window: 1.5 BDP (3.6.13.4). */
NCC_CC_FN ncc_u64 nscc_most(const struct nscc_sender *s, const struct ncc_tp_flow *f)
{
    return ncc_max_u64(nscc_bdp(f, s->base_rtt_ns) * 3 / 2, f->wire_bytes);
}

NCC_CC_FN void nscc_set(struct nscc_sender *s, const struct ncc_tp_flow *f, ncc_u64 cwnd)
{
    s->cwnd = (ncc_u32)ncc_min_u64(ncc_max_u64(cwnd, f->wire_bytes), nscc_most(s, f));
}

NCC_CC_FN ncc_u64 nscc_inflight(const struct ncc_tp_flow *f)
{
    return (ncc_u64)(f->pkts - f->fresh - f->acked - f->again) * f->wire_bytes;
}

/* Permits the packets that fit the window. */
NCC_CC_FN void nscc_allow(struct nscc_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f, ncc_u64 inflight,
                          struct ncc_tp_out *o)
{
    o->revoke = 1;
    o->grant.pkts = s->cwnd > inflight ? (ncc_u32)((s->cwnd - inflight) / f->wire_bytes) : 0;
    o->grant.flags = NCC_TP_ECT;
    o->timer_ns = ncc_tp_wait_ns(nscc_rtt_ns(p, f) + p[NSCC_RTO], s->waits);
}

NCC_CC_FN void nscc_start(struct nscc_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f, struct ncc_tp_out *o)
{
    s->base_rtt_ns = (ncc_u32)nscc_rtt_ns(p, f);
    s->added_ns = f->now_ns;
    nscc_set(s, f, NSCC_MOST);
    nscc_allow(s, p, f, 0, o);
}

NCC_CC_FN void nscc_average(struct nscc_sender *s, ncc_u64 delay_ns)
{
    s->average = (s->average * (NSCC_AVERAGE - 1) + (delay_ns << 8)) / NSCC_AVERAGE;
}

/* The median of the last delays: as many as half the window has packets, at most NSCC_DELAYS. */
NCC_CC_FN ncc_u64 nscc_median_ns(struct nscc_sender *s, const struct ncc_tp_flow *f, ncc_u64 delay_ns)
{
    ncc_u32 sorted[NSCC_DELAYS], i, j;
    const ncc_u32 half = (ncc_u32)ncc_max_u64(s->cwnd / f->wire_bytes / 2, 1);
    ncc_u32 n;

    s->delays[s->n_delays % NSCC_DELAYS] = (ncc_u32)delay_ns;
    s->n_delays = (ncc_u8)(s->n_delays == 2 * NSCC_DELAYS - 1 ? NSCC_DELAYS : s->n_delays + 1);
    n = (ncc_u32)ncc_min_u64(ncc_min_u64(half, NSCC_DELAYS), s->n_delays);
    for (i = 0; i < n; i++) {
        const ncc_u32 value = s->delays[(s->n_delays - 1 - i) % NSCC_DELAYS];
        for (j = i; j > 0 && sorted[j - 1] > value; j--)
            sorted[j] = sorted[j - 1];
        sorted[j] = value;
    }
    return n % 2 ? sorted[n / 2] : ((ncc_u64)sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* QuickAdapt (3.6.13.8): at most once in a period, after trims or a long delay, the window becomes what has arrived.
 * Returns true if nothing else changes the window now. */
NCC_CC_FN int nscc_quick(struct nscc_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f, int marked,
                         ncc_u64 delay_ns)
{
    const ncc_u64 target_ns = nscc_target_ns(p, f);
    int quick = s->ignore_bytes && marked;

    if (!quick && f->now_ns > s->period_end_ns) {
        if (s->period_end_ns && (s->trimmed || delay_ns > 4 * target_ns) &&
            s->period_bytes < nscc_most(s, f) >> p[NSCC_QUICK_SHIFT]) {
            nscc_set(s, f, s->period_bytes);
            s->ignore_bytes = (ncc_u32)ncc_min_u64(nscc_inflight(f), NSCC_MOST);
            s->trimmed = 0;
            quick = 1;
        }
        s->period_bytes = 0;
        s->period_end_ns = f->now_ns + s->base_rtt_ns + target_ns;
    }
    if (quick)
        s->pending = s->pending_bytes = 0;
    return quick;
}

NCC_CC_FN void nscc_arrived(struct nscc_sender *s, ncc_u64 bytes)
{
    s->ignore_bytes -= (ncc_u32)ncc_min_u64(bytes, s->ignore_bytes);
}

/* The payload of a packet, scaled to the network, in 1/16 bytes. */
NCC_CC_FN ncc_u64 nscc_gain(const ncc_u64 *p, const struct ncc_tp_flow *f)
{
    return 16 * (ncc_u64)(f->mtu_bytes - 40) * nscc_bdp(f, nscc_rtt_ns(p, f)) / NSCC_BDP;
}

/* The increase without a mark: it is added up, to be applied later. With empty queues for more than a window, the
 * window grows at once. `acked`: bytes; beyond NSCC_ACKED they do not count. Products stay below 2^64 for packets of up
 * to 9000 bytes and an RTT of up to 10 ms, at any rate, since a BDP is at most NSCC_MOST / 2. */
NCC_CC_FN void nscc_grow(struct nscc_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f, ncc_u64 acked,
                         ncc_u64 delay_ns)
{
    const ncc_u64 target_ns = nscc_target_ns(p, f), bytes = ncc_min_u64(acked, NSCC_ACKED);

    if (delay_ns >= target_ns) {
        s->clear_bytes = 0;
        s->pending += 5 * nscc_gain(p, f) * bytes / 16;
        return;
    }
    s->clear_bytes = delay_ns < NSCC_CLEAR_NS ? (ncc_u32)ncc_min_u64(s->clear_bytes + bytes, NSCC_MOST) : 0;
    if (s->clear_bytes > s->cwnd) {
        s->clear_bytes = (ncc_u32)NSCC_MOST; /* until the first delay */
        nscc_set(s, f, s->cwnd + bytes * nscc_bdp(f, nscc_rtt_ns(p, f)) / NSCC_BDP / 4);
        return;
    }
    s->pending += 4 * nscc_gain(p, f) * (target_ns - delay_ns) / NSCC_RTT_NS * bytes / 16;
}

NCC_CC_FN void nscc_acked(struct nscc_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f, ncc_u64 bytes,
                          ncc_u64 rtt_ns, int marked)
{
    const ncc_u64 target_ns = nscc_target_ns(p, f), net_ns = nscc_rtt_ns(p, f);
    ncc_u64 delay_ns, average_ns;

    s->period_bytes = (ncc_u32)ncc_min_u64(s->period_bytes + bytes, NSCC_MOST);
    s->pending_bytes = (ncc_u32)ncc_min_u64(s->pending_bytes + bytes, NSCC_MOST);
    nscc_arrived(s, bytes);
    s->base_rtt_ns = (ncc_u32)ncc_min_u64(s->base_rtt_ns, rtt_ns);
    delay_ns = ncc_min_u64(rtt_ns - s->base_rtt_ns, NSCC_MOST);
    nscc_average(s, !marked && delay_ns > target_ns ? s->base_rtt_ns / 4 : delay_ns);
    if (p[NSCC_MEDIAN])
        delay_ns = nscc_median_ns(s, f, delay_ns);
    if (nscc_quick(s, p, f, marked, delay_ns))
        return;
    average_ns = s->average >> 8;
    if (!marked) {
        nscc_grow(s, p, f, bytes, delay_ns);
    } else if (delay_ns >= target_ns) {
        s->clear_bytes = 0;
        if (average_ns > target_ns && f->now_ns - s->cut_ns > s->base_rtt_ns) {
            const ncc_u64 cut = (ncc_u64)s->cwnd * 8 * (average_ns - target_ns) / (10 * average_ns);
            nscc_set(s, f, ncc_max_u64(s->cwnd - cut, s->cwnd / 2));
            s->cut_ns = f->now_ns;
        }
    }
    if (s->pending_bytes > 8 * f->wire_bytes || f->now_ns - s->added_ns > net_ns) {
        ncc_u64 cwnd = s->cwnd + s->pending / s->cwnd;
        if (f->now_ns - s->added_ns >= net_ns) {
            cwnd += 15 * nscc_gain(p, f) / 1600;
            s->added_ns = f->now_ns;
        }
        nscc_set(s, f, cwnd);
        s->pending = s->pending_bytes = 0;
    }
    nscc_set(s, f, s->cwnd); /* the largest window follows the base RTT */
}

NCC_CC_FN void nscc_heard(struct nscc_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                          const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    ncc_u64 inflight = nscc_inflight(f);
    const int marked = (k->flags & NCC_TP_CE) != 0;

    s->waits = 0;
    if (k->kind == NCC_TP_ACK && !k->stamp) {
        const ncc_u64 bytes = (ncc_u64)(f->acked - s->acked) * f->wire_bytes;
        s->acked = f->acked;
        nscc_acked(s, p, f, bytes, f->now_ns - k->sent_ns, marked);
        if (!marked)
            ncc_reps_good(&s->reps, k->entropy);
    } else if (k->kind == NCC_TP_NACK) {
        o->lost = k->number;
        o->lost_pkts = k->count;
        s->base_rtt_ns = (ncc_u32)ncc_min_u64(s->base_rtt_ns, f->now_ns - k->sent_ns);
        nscc_arrived(s, f->wire_bytes);
        nscc_average(s, nscc_rtt_ns(p, f));
        s->trimmed = 1;
        if (!nscc_quick(s, p, f, 1, 0))
            nscc_set(s, f, s->cwnd - ncc_min_u64(s->cwnd, f->wire_bytes));
        inflight -= ncc_min_u64(inflight, f->wire_bytes);
    }
    nscc_allow(s, p, f, inflight, o);
}

NCC_CC_FN void nscc_sender_timer(struct nscc_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                 struct ncc_tp_out *o)
{
    if (f->at_host) { /* what waits here is not lost */
        nscc_allow(s, p, f, nscc_inflight(f), o);
        return;
    }
    o->lost = f->below;
    o->lost_pkts = NCC_TP_ALL;
    o->timed_out = 1;
    s->waits = (ncc_u8)(s->waits + (s->waits < NCC_TP_DOUBLINGS));
    ncc_reps_freeze(&s->reps, f->now_ns);
    nscc_set(s, f, s->cwnd - ncc_min_u64(s->cwnd, f->wire_bytes));
    nscc_allow(s, p, f, 0, o);
}

NCC_CC_FN void nscc_leaves(struct nscc_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                           struct ncc_tp_packet *k)
{
    k->entropy = ncc_reps_next(&s->reps, p[NSCC_CHOICE], p[NSCC_PATHS], f->now_ns, f->random);
    k->stamp = ncc_reps_asks(f, k);
}

struct nscc_receiver {
    struct ncc_reps_acks acks;
};

NCC_CC_FN void nscc_got(struct nscc_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                        const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    ncc_reps_answer(&s->acks, p[NSCC_ACK], f, k, o);
}

NCC_CC_FN void nscc_receiver_timer(struct nscc_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                   struct ncc_tp_out *o)
{
    ncc_reps_late(&s->acks, ncc_reps_of_word(p[NSCC_CHOICE], p[NSCC_PATHS], f->random), o);
}

NCC_TP_NO_TURN(nscc)
NCC_TP_REGISTER_LEAVES(nscc, NCC_TP_TRIMS | NCC_TP_MARKS, 1,
                       "the sender's window of Ultra Ethernet, by marks, delay and trims (UE 1.0, 3.6.13)")

#endif
