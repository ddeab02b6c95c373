/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FlashPass (Zeng et al., ICNP 2021; zeng2022 chapter 4): the sender rehearses its data with requests, small packets in
 * the shaped queues on the path of the data. The receiver answers each that arrives by a credit, and the data
 * leaves exactly `wait` after its request did, so that it meets the queues that the request met. Algorithm 2 sets the
 * rate of requests; those beyond the answers that are certain are expendable (over-provisioning, section 4.2.3).
 */
#ifndef NCC_TP_FLASHPASS_H
#define NCC_TP_FLASHPASS_H

#include "transports/credits.h"

enum {
    FLASHPASS_LOW,
    FLASHPASS_HIGH,
    FLASHPASS_JITTER,
    FLASHPASS_WAIT,
    FLASHPASS_SLACK,
    FLASHPASS_OVER,
    FLASHPASS_TIMEOUT,
    FLASHPASS_BLIND,
    FLASHPASS_MATCH,
    FLASHPASS_CUT,
    FLASHPASS_LEAST
};

#define FLASHPASS_MOST 64 /* requests in flight, for each packet that is left */
#define FLASHPASS_LOOKS 8 /* times per `wait` that it checks for fewer */

static const struct ncc_cc_param flashpass_params[] = {
    {"low_permille", 10, 0, 1000, "1/1000; least target loss of requests (section 4.3.3.1)"},
    {"high_permille", 100, 0, 1000, "1/1000; greatest target loss (section 4.3.3.1)"},
    {"jitter_permille", 100, 0, 900, "1/1000; largest jitter of the time between requests (that of ExpressPass)"},
    {"wait_ns", 0, 0, 60000000000, "ns from a request to its data; 0: the longest RTT of the run and `slack_ns`"},
    {"slack_ns", 50000, 0, 1000000000, "ns, for requests and credits that wait in queues; ours"},
    {"over", 1, 0, 1, "1: requests beyond what is left to send are expendable, 0: they are as the others"},
    {"timeout_ns", 200000000, 1000, 60000000000, "ns without an answer (section 4.3.1)"},
    NCC_TP_BLIND_PARAM,
    {"match", 1, 0, 1,
     "1: a rate is judged by the requests that were sent at it, 0: by what comes and goes in an RTT, "
     "as printed"},
    {"cut_permille", 700, 0, 1000, "1/1000; least factor of a decrease; ours. 0: any, as printed"},
    {"least_pkts", 32, 0, 1000000, "requests that a judgement takes; ours, to tell 1 % of loss from 10 %. 0: any"},
};

struct flashpass_sender {
    ncc_u64 rate; /* of requests, bytes/s on the wire */
    ncc_u64 updated_ns, rtt_ns, heard_ns;
    ncc_u32 seq;     /* of the next request */
    ncc_u32 next;    /* after the last that was answered */
    ncc_u32 in, out; /* requests answered, and sent, since the last update */
    ncc_u32 mark;    /* first request of the present rate */
    ncc_u32 quiet;   /* everything has left, and a timeout has begun */
    ncc_u32 waits;   /* PROBEs in a row without an answer */
    ncc_u32 sent;    /* transmissions that have had another credit */
};

NCC_CC_FN ncc_u64 flashpass_wait_ns(const ncc_u64 *p, const struct ncc_tp_flow *f)
{
    return p[FLASHPASS_WAIT] ? p[FLASHPASS_WAIT] : f->max_rtt_ns + p[FLASHPASS_SLACK];
}

NCC_CC_FN void flashpass_start(struct flashpass_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                               struct ncc_tp_out *o)
{
    s->rate = f->shaped_bytes_per_s;
    s->heard_ns = f->now_ns;
    o->timer_ns = 1;
    ncc_send_blind(p[FLASHPASS_BLIND], f, o);
}

/* With `match` an update takes two RTTs: what is answered in the first was sent at the rate before. */
NCC_CC_FN void flashpass_update(struct flashpass_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f)
{
    const ncc_u64 past_ns = f->now_ns - s->updated_ns;

    if (past_ns < (p[FLASHPASS_MATCH] ? 2 : 1) * s->rtt_ns)
        return;
    if (p[FLASHPASS_MATCH])
        s->out = s->next - s->mark;
    if (s->out < p[FLASHPASS_LEAST] && past_ns < 8 * s->rtt_ns)
        return;
    if (s->out) {
        const ncc_u64 in = ncc_min_u64(s->in, s->out), loss = (s->out - in) * 1000ULL;

        if (loss > p[FLASHPASS_HIGH] * s->out)
            s->rate = ncc_max_u64(s->rate * in / s->out * (1000 + p[FLASHPASS_LOW]) / 1000,
                                  s->rate * p[FLASHPASS_CUT] / 1000);
        else if (loss < p[FLASHPASS_LOW] * s->out)
            s->rate = s->rate * (1000 + p[FLASHPASS_HIGH]) / 1000;
        s->rate = ncc_credit_rate(f, s->rate, f->shaped_bytes_per_s, s->rtt_ns);
    }
    s->in = s->out = 0;
    s->mark = s->seq;
    s->updated_ns = f->now_ns;
}

NCC_CC_FN void flashpass_credit(struct flashpass_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    const ncc_u64 age_ns = ncc_stamp_age_ns(k->stamp, f->now_ns);
    const ncc_u32 seq = ncc_stamp_seq(k->stamp);

    if (!s->rtt_ns) { /* the first */
        s->updated_ns = p[FLASHPASS_MATCH] ? f->now_ns - age_ns : f->now_ns;
        s->out = 0; /* what was sent before cannot have been answered */
        o->revoke = p[FLASHPASS_BLIND] != 0;
    }
    s->rtt_ns = age_ns;
    s->next = s->seq - ncc_stamp_from(seq + 1, s->seq);
    if (!ncc_credit_counts(&s->sent, f, p[FLASHPASS_SLACK])) {
        o->wasted = 1;
        flashpass_update(s, p, f);
        return;
    }
    if (!p[FLASHPASS_MATCH] || ncc_stamp_from(s->mark, seq) < NCC_STAMP_SEQ / 2)
        s->in++;
    if (f->fresh + f->again > (o->revoke ? 0 : f->granted)) {
        o->grant.pkts = 1;
        o->grant.stamp = k->stamp;
        o->grant.due_ns = f->now_ns - age_ns + flashpass_wait_ns(p, f);
    } else {
        o->wasted = 1;
    }
    flashpass_update(s, p, f);
}

NCC_CC_FN void flashpass_heard(struct flashpass_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                               const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    s->heard_ns = f->now_ns;
    s->waits = 0;
    if (k->kind == NCC_TP_NACK) {
        o->lost = k->number;
        o->lost_pkts = k->count;
        if (s->quiet)
            o->timer_ns = 1;
        s->quiet = 0;
    } else if (k->kind == NCC_TP_CREDIT) {
        flashpass_credit(s, p, f, k, o);
    }
}

/* Everything has left. Without an answer for a timeout, something has not arrived. */
NCC_CC_FN void flashpass_wait(struct flashpass_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                              struct ncc_tp_out *o)
{
    if (s->quiet && !f->at_host && f->now_ns - s->heard_ns >= ncc_tp_wait_ns(p[FLASHPASS_TIMEOUT], s->waits)) {
        ncc_tp_say(o, NCC_TP_PROBE)->count = f->pkts - f->fresh;
        o->timed_out = 1;
        s->waits++;
        s->heard_ns = f->now_ns;
    }
    s->quiet = 1;
    o->timer_ns = p[FLASHPASS_TIMEOUT];
}

/* After a long silence no request is certain to be answered: they were lost, perhaps because they were expendable. */
NCC_CC_FN void flashpass_silence(struct flashpass_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f)
{
    if (f->now_ns - s->heard_ns <= NCC_CREDIT_SILENCE * flashpass_wait_ns(p, f))
        return;
    s->heard_ns = f->now_ns;
    s->rate = ncc_credit_back_off(f, s->rate, p[FLASHPASS_TIMEOUT]);
    s->next = s->mark = s->seq;
    s->in = s->out = 0;
}

NCC_CC_FN void flashpass_sender_timer(struct flashpass_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                      struct ncc_tp_out *o)
{
    /* Data sent without credits counts as not sent until the first credit arrives, and with it the first NACK. */
    const ncc_u32 left = s->rtt_ns ? f->fresh + f->again : f->pkts - f->acked, granted = s->rtt_ns ? f->granted : 0;
    ncc_u64 certain;
    struct ncc_tp_packet *k;

    if (!left) {
        flashpass_wait(s, p, f, o);
        return;
    }
    flashpass_silence(s, p, f);
    if (s->seq - s->next > (ncc_u64)FLASHPASS_MOST * left) { /* a small flow on a long path needs no more */
        o->timer_ns = flashpass_wait_ns(p, f) / FLASHPASS_LOOKS;
        return;
    }
    certain = granted + (ncc_u64)(s->seq - s->next) * (1000 - p[FLASHPASS_HIGH]) / 1000;
    k = ncc_tp_say(o, NCC_TP_REQUEST);
    k->flags = NCC_TP_IN_SHAPED | (p[FLASHPASS_OVER] && certain >= left ? (ncc_u32)NCC_TP_EXPENDABLE : 0);
    k->stamp = ncc_stamp(s->seq++, f->now_ns);
    s->out++;
    o->timer_ns = ncc_credit_gap_ns(f, s->rate, p[FLASHPASS_JITTER]);
    if (f->late_ns > p[FLASHPASS_SLACK]) /* it asks no faster than its data leaves */
        o->timer_ns = ncc_max_u64(o->timer_ns, f->late_ns / f->granted);
}

struct flashpass_receiver {
    ncc_u32 next; /* after the last request that was answered */
    struct ncc_credit_holes holes;
};

NCC_CC_FN void flashpass_got(struct flashpass_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                             const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    (void)p;
    ncc_say_holes(&s->holes, s->next, f, k, o);
    if (k->kind == NCC_TP_REQUEST) {
        ncc_tp_say(o, NCC_TP_CREDIT)->stamp = k->stamp;
        s->next = ncc_stamp_seq(k->stamp) + 1;
    }
}

NCC_TP_NO_RECEIVER_TIMER(flashpass)
NCC_TP_NO_TURN(flashpass)
NCC_TP_REGISTER(flashpass, NCC_TP_SHAPED | NCC_TP_ONE_WAY, 0,
                "data rehearsed by small requests in slow queues (Zeng 2021)")

#endif
