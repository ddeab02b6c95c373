/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of transports in which each packet of data needs a credit: stamps, jitter, a first window without credits, and
 * the receiver's report of holes. */
#ifndef NCC_TP_CREDITS_H
#define NCC_TP_CREDITS_H

#include "transport.h"

#define NCC_STAMP_SEQ 0xffffffU /* 24 bits of a number, above 40 bits of a time: 18 minutes in ns */
#define NCC_STAMP_NS ((1ULL << 40) - 1)

/* A stamp is never 0. */
NCC_CC_FN ncc_u64 ncc_stamp(ncc_u32 seq, ncc_u64 now_ns)
{
    const ncc_u64 stamp = (ncc_u64)(seq & NCC_STAMP_SEQ) << 40 | (now_ns & NCC_STAMP_NS);

    return stamp ? stamp : 1;
}
NCC_CC_FN ncc_u32 ncc_stamp_seq(ncc_u64 stamp) { return (ncc_u32)(stamp >> 40); }
NCC_CC_FN ncc_u64 ncc_stamp_age_ns(ncc_u64 stamp, ncc_u64 now_ns) { return (now_ns - stamp) & NCC_STAMP_NS; }

/* Distance from `from` to `to` modulo the number of stamps; half of that or more means that `to` is before `from`. */
NCC_CC_FN ncc_u32 ncc_stamp_from(ncc_u32 from, ncc_u32 to) { return (to - from) & NCC_STAMP_SEQ; }

/* Time between control packets at a rate in bytes/s on the wire, spread evenly by +- permille / 1000. It is rounded at
 * random, so that its mean is exact to 1/256 ns. Otherwise control packets and their data could be faster than a shaped
 * queue of that rate, and fill it. */
NCC_CC_FN ncc_u64 ncc_credit_gap_ns(const struct ncc_tp_flow *f, ncc_u64 rate, ncc_u64 permille)
{
    const ncc_u64 fraction = rate * (f->random & 255) >> 8;
    const ncc_u64 gap_ns = (f->say_wire_bytes * NCC_NS_PER_S + fraction) / rate,
                  spread_ns = 2 * gap_ns * permille / 1000;

    return ncc_max_u64(gap_ns - spread_ns / 2 + (spread_ns * (f->random >> 8) >> 24), 1);
}

/* Packets that a sender may send before the first answer (Aeolus): at most what its line takes in an RTT. Ports
 * drop them first (selective.h), and a PROBE behind the last finds what was dropped. */
#define NCC_TP_BLIND_PARAM                                                                                             \
    {"blind_pkts", 0, 0, 1000000000, "packets sent before the first credit, at most one RTT's (Hu 2020); 0: none"}
NCC_CC_FN void ncc_send_blind(ncc_u64 most, const struct ncc_tp_flow *f, struct ncc_tp_out *o)
{
    const ncc_u64 rtt_pkts = f->base_rtt_ns * (f->line_bytes_per_s / 1000) / 1000000 / f->wire_bytes;

    o->grant.pkts = (ncc_u32)ncc_min_u64(ncc_min_u64(most, rtt_pkts), f->pkts);
    o->grant.flags = NCC_TP_EXPENDABLE | NCC_TP_THEN_PROBE;
}

/* A rate between one control packet per RTT and `most`. */
NCC_CC_FN ncc_u64 ncc_credit_rate(const struct ncc_tp_flow *f, ncc_u64 rate, ncc_u64 most, ncc_u64 rtt_ns)
{
    return ncc_max_u64(ncc_min_u64(rate, most), f->say_wire_bytes * NCC_NS_PER_S / rtt_ns + 1);
}

/* True if a credit releases a packet. While data has been late for more than `most_ns`, because the host has other work
 * or a limit, only one credit counts for each packet that has left; `sent` counts these packets. Wasted credits make
 * the other end or the sender ask for fewer. */
NCC_CC_FN int ncc_credit_counts(ncc_u32 *sent, const struct ncc_tp_flow *f, ncc_u64 most_ns)
{
    if (f->late_ns <= most_ns)
        *sent = f->sent;
    else if (*sent == f->sent)
        return 0;
    else
        ++*sent;
    return 1;
}

#define NCC_CREDIT_SILENCE 8 /* RTTs without an answer */

/* The rate after a silence that long: half, and at least one control packet per timeout. */
NCC_CC_FN ncc_u64 ncc_credit_back_off(const struct ncc_tp_flow *f, ncc_u64 rate, ncc_u64 timeout_ns)
{
    return ncc_max_u64(rate / 2, f->say_wire_bytes * NCC_NS_PER_S / timeout_ns + 1);
}

/* Holes that a receiver has reported. */
struct ncc_credit_holes {
    ncc_u32 reached; /* end of the packets that arrived before this one */
    ncc_u32 said;    /* holes below it were reported before credit `since` was sent */
    ncc_u32 since;
};

/*
 * Reports that everything has arrived, or which packets the data `k` has overtaken. A lost repair is not overtaken. But
 * data carries the number of its credit, and a sender repairs first, lowest number first: so data of a credit that was
 * sent after the report of the holes left after their repairs. Holes below it that are still open are reported again.
 * `next`: number of the next credit.
 */
NCC_CC_FN void ncc_say_holes(struct ncc_credit_holes *s, ncc_u32 next, const struct ncc_tp_flow *f,
                             const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    if (f->here == f->pkts) {
        ncc_tp_say(o, NCC_TP_ACK);
    } else if (k->kind == NCC_TP_DATA) {
        if (!(k->flags & NCC_TP_AGAIN) && k->number > s->reached) {
            struct ncc_tp_packet *nack = ncc_tp_say(o, NCC_TP_NACK);

            nack->number = s->reached;
            nack->count = k->number - s->reached;
        }
        if (k->stamp && ncc_stamp_from(s->since, ncc_stamp_seq(k->stamp)) < NCC_STAMP_SEQ / 2) {
            o->holes = k->number < s->said ? k->number : s->said;
            s->said = f->reached;
            s->since = next;
        }
    }
    s->reached = f->reached;
}

#endif
