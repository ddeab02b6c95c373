/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DualPI2 (RFC 9332, appendix A): two queues at one port, of which senders get equal shares. Senders with ECT(1) (L4S,
 * RFC 9331) have a queue of about a millisecond and are marked in proportion to a probability p; others (Classic) have
 * a queue held at a target by a PI controller, and are marked or dropped with the square of p / k.
 */
#ifndef NCC_DUALPI2_H
#define NCC_DUALPI2_H

#include "switch.h"

#define DUALPI2_ONE (1ULL << 32)            /* probability 1 */
#define DUALPI2_WAIT_MAX ((1ULL << 28) - 1) /* ns; longer waits count as this: 268 ms */

enum { dualpi2_queues = 2 };
enum { DUALPI2_CLASSIC, DUALPI2_L4S };
enum {
    DUALPI2_TARGET,
    DUALPI2_UPDATE,
    DUALPI2_ALPHA,
    DUALPI2_BETA,
    DUALPI2_COUPLING,
    DUALPI2_THRESHOLD,
    DUALPI2_RANGE,
    DUALPI2_WEIGHT,
};

static const struct ncc_cc_param dualpi2_params[] = {
    {"target_ns", 15000000, 1, 268435455, "ns: wait at which the Classic queue is held (appendix A.1)"},
    {"update_ns", 15000000, 1000, 1000000000,
     "ns between updates of p': Tupdate, the smaller of the target and a third of the longest RTT, 100 ms (A.1)"},
    {"alpha_mhz", 150, 0, 30000, "1/1000 Hz: integral gain, 0.1 Tupdate / RTT_max^2 (appendix A.1)"},
    {"beta_mhz", 3000, 0, 30000, "1/1000 Hz: proportional gain, 0.3 / RTT_max (appendix A.1)"},
    {"coupling", 2, 1, 16, "k: p of L4S over p' (appendix A.1)"},
    {"threshold_ns", 800000, 0, 1000000000, "ns: wait in the L4S queue above which it marks by itself (appendix A.1)"},
    {"range_ns", 400000, 0, 1000000000, "ns above it from which all are marked; 0: a step (appendix A.1)"},
    {"classic_pct", 10, 1, 99, "%: share of the line that the Classic queue has at least while both wait (Linux: 10)"},
};

struct dualpi2_state {
    ncc_u64 p;                     /* p', of DUALPI2_ONE */
    ncc_u64 wait_ns;               /* at the last update */
    ncc_u64 count[dualpi2_queues]; /* sums of probabilities, of DUALPI2_ONE */
    ncc_s64 owed;                  /* bytes x %, that L4S has had beyond its share while both waited */
    ncc_u32 served, both;          /* the queue that sends, and if both waited then */
};

NCC_CC_FN void dualpi2_init(struct dualpi2_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                            struct ncc_sw_out *o)
{
    (void)s, (void)q;
    o->timer_ns = p[DUALPI2_UPDATE];
}

/* ECT(1) or CE (RFC 9331, section 5.1). */
NCC_CC_FN ncc_u32 dualpi2_classify(struct dualpi2_state *s, const ncc_u64 *p, const struct ncc_sw_packet *k)
{
    (void)s, (void)p;
    return k->flags & (NCC_SW_ECT1 | NCC_SW_CE) ? DUALPI2_L4S : DUALPI2_CLASSIC;
}

/* Weighted round robin by bytes: L4S first, unless it has had its share. */
NCC_CC_FN ncc_u32 dualpi2_next(struct dualpi2_state *s, const ncc_u64 *p, const struct ncc_sw_queue *of)
{
    (void)p;
    s->both = of[DUALPI2_CLASSIC].head_bytes && of[DUALPI2_L4S].head_bytes;
    if (!s->both)
        s->owed = 0;
    if (s->both)
        s->served = s->owed > 0 ? DUALPI2_CLASSIC : DUALPI2_L4S;
    else
        s->served = of[DUALPI2_L4S].head_bytes ? DUALPI2_L4S : DUALPI2_CLASSIC;
    return s->served;
}

/* recur of A.1: true for a share of packets that is the probability, evenly spaced. */
NCC_CC_FN int dualpi2_recur(ncc_u64 *count, ncc_u64 probability)
{
    *count += probability;
    if (*count <= DUALPI2_ONE)
        return 0;
    *count -= DUALPI2_ONE;
    return 1;
}

/* p'_L of A.1: the ramp of the L4S queue's own marks; none while one packet at most is left. */
NCC_CC_FN ncc_u64 dualpi2_ramp(const ncc_u64 *p, const struct ncc_sw_port *q, ncc_u64 wait_ns)
{
    if (q->queues[DUALPI2_L4S].bytes <= q->mtu_bytes || wait_ns <= p[DUALPI2_THRESHOLD])
        return 0;
    if (wait_ns >= p[DUALPI2_THRESHOLD] + p[DUALPI2_RANGE])
        return DUALPI2_ONE;
    return ((wait_ns - p[DUALPI2_THRESHOLD]) << 32) / p[DUALPI2_RANGE];
}

/* dualpi2_dequeue of A.2: overload begins where k p' reaches 1, from where on L4S is dropped like Classic. */
NCC_CC_FN void dualpi2_dequeue(struct dualpi2_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                               struct ncc_sw_packet *k, struct ncc_sw_out *o)
{
    const ncc_u64 coupled = s->p * p[DUALPI2_COUPLING];
    const ncc_u64 classic = ((s->p >> 1) * (s->p >> 1)) >> 30; /* p'^2 */
    const int overload = coupled >= DUALPI2_ONE;

    if (s->served == DUALPI2_L4S) {
        const ncc_u64 own = overload ? 0 : dualpi2_ramp(p, q, q->now_ns - k->queued_ns);

        if (overload && dualpi2_recur(&s->count[DUALPI2_L4S], classic))
            o->verdict = NCC_DROP;
        else if (overload || dualpi2_recur(&s->count[DUALPI2_L4S], ncc_max_u64(own, coupled)))
            o->verdict = NCC_MARK;
    } else if (dualpi2_recur(&s->count[DUALPI2_CLASSIC], classic)) {
        o->verdict = (k->flags & NCC_SW_ECT) && !overload ? NCC_MARK : NCC_DROP;
    }
    if (s->both && o->verdict != NCC_DROP)
        s->owed += s->served == DUALPI2_L4S ? (ncc_s64)(k->bytes * p[DUALPI2_WEIGHT])
                                            : -(ncc_s64)(k->bytes * (100 - p[DUALPI2_WEIGHT]));
}

/* Gain x difference of waits, of DUALPI2_ONE: 2^32 / (10^3 x 10^9) = 2^20 / 5^12. */
NCC_CC_FN ncc_s64 dualpi2_gain(ncc_u64 gain_mhz, ncc_u64 wait_ns, ncc_u64 other_ns)
{
    return ncc_div_s64((ncc_s64)gain_mhz * ((ncc_s64)wait_ns - (ncc_s64)other_ns) * (1 << 20), 244140625);
}

NCC_CC_FN ncc_u64 dualpi2_wait(const struct ncc_sw_port *q, ncc_u32 queue)
{
    const struct ncc_sw_queue *of = &q->queues[queue];

    return of->head_bytes ? ncc_min_u64(q->now_ns - of->head_ns, DUALPI2_WAIT_MAX) : 0;
}

/* dualpi2_update of A.2: p' = p' + alpha (wait - target) + beta (wait - wait before), of the first packet that has
 * waited the longest. */
NCC_CC_FN void dualpi2_timer(struct dualpi2_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                             struct ncc_sw_out *o)
{
    const ncc_u64 wait_ns = ncc_max_u64(dualpi2_wait(q, DUALPI2_CLASSIC), dualpi2_wait(q, DUALPI2_L4S));
    const ncc_s64 next = (ncc_s64)s->p + dualpi2_gain(p[DUALPI2_ALPHA], wait_ns, p[DUALPI2_TARGET]) +
                         dualpi2_gain(p[DUALPI2_BETA], wait_ns, s->wait_ns);

    s->p = next < 0 ? 0 : ncc_min_u64((ncc_u64)next, DUALPI2_ONE);
    s->wait_ns = wait_ns;
    o->timer_ns = p[DUALPI2_UPDATE];
}

NCC_SW_NO_HOOK(dualpi2, enqueue)
NCC_SW_NO_HOOK(dualpi2, reverse)
NCC_SW_REGISTER_QUEUES(dualpi2, NCC_SW_DEQUEUE | NCC_SW_TIMER,
                       "two queues with coupled marks, for L4S and for others (RFC 9332)")

#endif
