/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ExpressPass (Cho, Jang & Han, SIGCOMM 2017): the receiver sends credits, which shaped queues on the reverse path
 * thin out; each credit that arrives releases one packet. The rate of credits is set by Algorithm 1 of the paper,
 * with the constants of its released code (ns2-xpass, commit f4e38bc). Recovery is ours: the paper leaves it open.
 * With `blind_pkts` the first round trip goes at line rate, as in Aeolus (Hu et al., SIGCOMM 2020).
 */
#ifndef NCC_TP_EXPRESSPASS_H
#define NCC_TP_EXPRESSPASS_H

#include "transports/credits.h"

enum {
    EXPRESSPASS_ALPHA,
    EXPRESSPASS_LOSS,
    EXPRESSPASS_W_INIT,
    EXPRESSPASS_W_MIN,
    EXPRESSPASS_W_MAX,
    EXPRESSPASS_W_STEP,
    EXPRESSPASS_JITTER,
    EXPRESSPASS_SMALL,
    EXPRESSPASS_STOPS,
    EXPRESSPASS_TIMEOUT,
    EXPRESSPASS_BLIND
};

static const struct ncc_cc_param expresspass_params[] = {
    {"alpha_permille", 500, 1, 1000, "1/1000 of the highest rate of credits, at which a flow begins (released code)"},
    {"loss_permille", 125, 0, 1000, "1/1000; target loss of credits of a flow without a rate (released code)"},
    {"w_init_permille", 500, 1, 500, "1/1000; weight of the highest rate at first (released code)"},
    {"w_min_permille", 10, 1, 500, "1/1000; least weight (released code)"},
    {"w_max_permille", 500, 1, 500, "1/1000; greatest weight (section 3.2)"},
    {"w_step_permille", 50, 0, 500,
     "1/1000; growth of the weight per update (released code); 0: to its mean with the greatest (Algorithm 1)"},
    {"jitter_permille", 100, 0, 900, "1/1000; largest jitter of the time between credits (released code)"},
    {"small_pkts", 40, 0, 1000000, "packets; shorter flows begin slower in proportion (released code); 0: none"},
    {"stops", 1, 0, 2,
     "end of credits; 0: when all data is here, 1: by the sender's STOP, which comes when those of an RTT cover what "
     "is "
     "left (released code), 2: after as many as packets"},
    {"timeout_ns", 100000000, 1000, 60000000000, "ns without progress, after which credits are asked for again"},
    NCC_TP_BLIND_PARAM,
};

struct expresspass_sender {
    ncc_u64 began_ns, rtt_ns; /* RTT in which credits are counted, or that follows a STOP */
    ncc_u32 credits;          /* in it */
    ncc_u32 acked;            /* at the last control packet */
    ncc_u32 sent;             /* transmissions that have had another credit */
    ncc_u32 waits;            /* timeouts in a row */
    ncc_u8 asked, stopped;    /* no credit has come since the last REQUEST; a STOP was sent last */
};

NCC_CC_FN void expresspass_ask(struct expresspass_sender *s, const struct ncc_tp_flow *f, ncc_u32 pkts,
                               struct ncc_tp_out *o)
{
    ncc_tp_say(o, NCC_TP_REQUEST)->count = pkts;
    s->began_ns = f->now_ns;
    s->stopped = 0;
    s->asked = 1;
}

NCC_CC_FN void expresspass_start(struct expresspass_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                 struct ncc_tp_out *o)
{
    ncc_send_blind(p[EXPRESSPASS_BLIND], f, o);
    expresspass_ask(s, f, (ncc_u32)ncc_max_u64(f->pkts - o->grant.pkts, 1), o);
    o->timer_ns = p[EXPRESSPASS_TIMEOUT];
}

/* Sends STOP when the credits of an RTT cover what is left, and again if credits still come an RTT later: then it was
 * lost. */
NCC_CC_FN void expresspass_stop(struct expresspass_sender *s, const struct ncc_tp_flow *f, ncc_u32 left,
                                struct ncc_tp_out *o)
{
    const int round = f->now_ns - s->began_ns >= s->rtt_ns;

    if (s->stopped ? !left && round : !left || (round && s->credits >= left)) {
        ncc_tp_say(o, NCC_TP_STOP);
        if (!s->stopped)
            o->timer_ns = 2 * s->rtt_ns;
        s->stopped = 1;
        s->began_ns = f->now_ns;
    } else if (round && !s->stopped) {
        s->began_ns = f->now_ns;
        s->credits = 0;
    }
}

NCC_CC_FN void expresspass_credit(struct expresspass_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                  const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    ncc_u32 left = f->fresh + f->again > f->granted ? f->fresh + f->again - f->granted : 0;

    if (s->asked) {
        s->asked = 0;
        s->rtt_ns = f->now_ns - s->began_ns;
        s->began_ns = f->now_ns;
        s->credits = 0;
        if (p[EXPRESSPASS_BLIND] && f->acked == 0) { /* the round trip of data without credits is over */
            o->revoke = 1;
            left = f->fresh + f->again;
        }
    }
    s->credits++;
    if (left && ncc_credit_counts(&s->sent, f, f->base_rtt_ns)) { /* a wasted one is no progress: it sets no timer */
        o->grant.pkts = 1;
        o->grant.stamp = k->stamp;
        o->timer_ns = p[EXPRESSPASS_TIMEOUT];
        s->waits = 0;
        left--;
    } else {
        o->wasted = 1;
    }
    if (s->stopped && o->timer_ns)
        o->timer_ns = 2 * s->rtt_ns;
    if (p[EXPRESSPASS_STOPS] == 1)
        expresspass_stop(s, f, left, o);
}

NCC_CC_FN void expresspass_heard(struct expresspass_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                 const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    if (f->acked > s->acked || k->kind == NCC_TP_NACK) {
        o->timer_ns = p[EXPRESSPASS_TIMEOUT];
        s->waits = 0;
    }
    s->acked = f->acked;
    if (k->kind == NCC_TP_CREDIT) {
        expresspass_credit(s, p, f, k, o);
    } else if (k->kind == NCC_TP_NACK) {
        o->lost = k->number;
        o->lost_pkts = k->count;
        if (s->stopped)
            expresspass_ask(s, f, k->count, o);
    }
}

NCC_CC_FN void expresspass_sender_timer(struct expresspass_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                        struct ncc_tp_out *o)
{
    const ncc_u32 left = f->fresh + f->again;

    if (f->at_host) { /* what waits here is not lost */
        o->timer_ns = s->stopped ? 2 * s->rtt_ns : p[EXPRESSPASS_TIMEOUT];
        return;
    }
    if (!left) { /* something that has left has not arrived */
        ncc_tp_say(o, NCC_TP_PROBE)->count = f->pkts;
        o->timed_out = 1;
    } else {
        expresspass_ask(s, f, left, o);
    }
    o->timer_ns = ncc_tp_wait_ns(p[EXPRESSPASS_TIMEOUT], ++s->waits);
}

struct expresspass_receiver {
    ncc_u64 rate;       /* of credits, bytes/s on the wire; 0: none are sent */
    ncc_u64 updated_ns; /* time of the last update of the rate */
    ncc_u64 rtt_ns;
    ncc_u64 heard_ns; /* when data came, or the rate was halved since */
    ncc_u32 w;        /* weight of the highest rate, in 1/1000 */
    ncc_u32 grew;
    ncc_u32 seq, expected; /* numbers of the next credit, and of the next one to be echoed */
    ncc_u32 seen, lost;    /* credits of this update, by what data echoes */
    ncc_u32 quota;         /* credits left to send; 0: no bound */
    struct ncc_credit_holes holes;
};

NCC_CC_FN void expresspass_update(struct expresspass_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f)
{
    const ncc_u64 top = f->shaped_bytes_per_s, all = (ncc_u64)s->seen + s->lost, past_ns = f->now_ns - s->updated_ns;
    ncc_u64 target;

    if (!all || !s->rtt_ns || past_ns < s->rtt_ns)
        return;
    target = s->rate < top ? (top - s->rate) * p[EXPRESSPASS_LOSS] / top : 0; /* one credit per RTT may exceed `top` */
    if (s->lost * 1000ULL > target * all) {
        const ncc_u64 passed = (ncc_u64)s->seen * f->say_wire_bytes * NCC_NS_PER_S / past_ns;

        s->rate = ncc_min_u64(s->rate, passed * (1000 + target) / 1000);
        s->w = (ncc_u32)ncc_max_u64(s->w / 2, p[EXPRESSPASS_W_MIN]);
        s->grew = 0;
    } else {
        if (s->grew && p[EXPRESSPASS_W_STEP])
            s->w = (ncc_u32)ncc_min_u64(s->w + p[EXPRESSPASS_W_STEP], p[EXPRESSPASS_W_MAX]);
        else if (s->grew)
            s->w = (ncc_u32)((s->w + p[EXPRESSPASS_W_MAX]) / 2);
        s->grew = 1;
        s->rate = (s->w * top + (1000 - s->w) * s->rate) / 1000;
    }
    s->rate = ncc_credit_rate(f, s->rate, top, s->rtt_ns);
    s->seen = s->lost = 0;
    s->updated_ns = f->now_ns;
}

NCC_CC_FN void expresspass_asked(struct expresspass_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                 ncc_u32 pkts, struct ncc_tp_out *o)
{
    s->quota = p[EXPRESSPASS_STOPS] == 2 ? pkts : 0;
    if (s->rate)
        return;
    s->rate = f->shaped_bytes_per_s * p[EXPRESSPASS_ALPHA] / 1000;
    if (pkts < p[EXPRESSPASS_SMALL])
        s->rate = s->rate * pkts / p[EXPRESSPASS_SMALL] + 1;
    s->w = (ncc_u32)p[EXPRESSPASS_W_INIT];
    s->updated_ns = s->heard_ns = f->now_ns;
    s->seen = s->lost = s->grew = 0;
    s->expected = s->seq;
    o->timer_ns = 1;
}

NCC_CC_FN void expresspass_got(struct expresspass_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                               const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    ncc_say_holes(&s->holes, s->seq, f, k, o);
    if (k->kind == NCC_TP_REQUEST && f->here < f->pkts) {
        expresspass_asked(s, p, f, k->count, o);
    } else if (k->kind == NCC_TP_DATA && k->stamp) {
        const ncc_u64 rtt_ns = ncc_stamp_age_ns(k->stamp, f->now_ns);
        const ncc_u32 gap = ncc_stamp_from(s->expected, ncc_stamp_seq(k->stamp));

        s->heard_ns = f->now_ns;
        s->rtt_ns = s->rtt_ns ? (4 * s->rtt_ns + rtt_ns) / 5 : rtt_ns;
        if (gap < NCC_STAMP_SEQ / 2) {
            s->lost += gap;
            s->seen++;
            s->expected += gap + 1;
        }
    } else if (k->kind == NCC_TP_STOP) {
        s->rate = 0;
        o->timer_ns = NCC_TP_OFF;
    }
}

NCC_CC_FN void expresspass_receiver_timer(struct expresspass_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                          struct ncc_tp_out *o)
{
    struct ncc_tp_packet *k = ncc_tp_say(o, NCC_TP_CREDIT);

    expresspass_update(s, p, f);
    if (f->now_ns - s->heard_ns > NCC_CREDIT_SILENCE * ncc_max_u64(s->rtt_ns, f->max_rtt_ns)) {
        s->rate = ncc_credit_back_off(f, s->rate, p[EXPRESSPASS_TIMEOUT]);
        s->heard_ns = f->now_ns;
    }
    k->flags = NCC_TP_IN_SHAPED;
    k->stamp = ncc_stamp(s->seq++, f->now_ns);
    if (s->quota && --s->quota == 0)
        s->rate = 0;
    else
        o->timer_ns = ncc_credit_gap_ns(f, s->rate, p[EXPRESSPASS_JITTER]);
}

NCC_TP_NO_TURN(expresspass)
NCC_TP_REGISTER(expresspass, NCC_TP_SHAPED | NCC_TP_SYMMETRIC | NCC_TP_ONE_WAY, 0,
                "credits of receivers, thinned out on the way back (Cho 2017)")

#endif
