/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CoDel (RFC 8289, sections 4.2 and 5) keeps the wait in a queue short. Once packets have waited longer than a target
 * for an interval, it drops some of the packets that leave, or marks them if they are ECN-capable. It does so ever more
 * often, until the wait is short again. It measures the time that packets wait, so that the link's rate is irrelevant.
 */
#ifndef NCC_CODEL_H
#define NCC_CODEL_H

#include "switch.h"

enum { CODEL_TARGET, CODEL_INTERVAL };

static const struct ncc_cc_param codel_params[] = {
    {"target_ns", 5000000, 1, 1000000000, "ns: wait that is good enough (RFC 8289, section 4.3)"},
    {"interval_ns", 100000000, 1, 4000000000, "ns: for which it may be longer, an RTT or more (RFC 8289, section 4.3)"},
};

struct codel_state {
    ncc_u64 first_above_ns; /* from then on packets may be dropped; 0: the wait was short */
    ncc_u64 next_ns;        /* time of the next drop, while dropping */
    ncc_u64 count;          /* drops since dropping began */
    ncc_u64 last_count;     /* value of count when dropping last began */
    ncc_u64 dropping;
    ncc_u64 dropped; /* the packet before this one was dropped, at the same time */
};

NCC_CC_FN ncc_u64 codel_root(ncc_u64 square) /* rounded down */
{
    ncc_u64 root = 0;
    for (ncc_u64 bit = 1ULL << 31; bit; bit >>= 1)
        if ((root | bit) * (root | bit) <= square)
            root |= bit;
    return root;
}

/* Drops follow each other after interval / sqrt(count) (section 5.5, control_law). */
NCC_CC_FN ncc_u64 codel_after(const struct codel_state *s, const ncc_u64 *p, ncc_u64 ns)
{
    return ns + codel_root(p[CODEL_INTERVAL] * p[CODEL_INTERVAL] / s->count);
}

/* True if packets have waited too long for an interval (section 5.6, dodequeue). */
NCC_CC_FN ncc_u64 codel_above(struct codel_state *s, const ncc_u64 *p, const struct ncc_sw_port *q, ncc_u64 queued_ns)
{
    if (q->now_ns - queued_ns < p[CODEL_TARGET] || q->queue_bytes <= q->mtu_bytes) {
        s->first_above_ns = 0;
        return 0;
    }
    if (!s->first_above_ns) {
        s->first_above_ns = q->now_ns + p[CODEL_INTERVAL];
        return 0;
    }
    return q->now_ns >= s->first_above_ns;
}

NCC_CC_FN void codel_init(struct codel_state *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_out *o)
{
    (void)s, (void)p, (void)q, (void)o;
}

/* Section 5.5, dequeue, a packet at a time. */
NCC_CC_FN void codel_dequeue(struct codel_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                             struct ncc_sw_packet *k, struct ncc_sw_out *o)
{
    ncc_u64 above = codel_above(s, p, q, k->queued_ns), again = s->dropped && above;
    s->dropped = 0;
    if (s->dropping) {
        s->dropping = above;
        if (again)
            s->next_ns = codel_after(s, p, s->next_ns);
        if (!above || q->now_ns < s->next_ns)
            return;
        ++s->count;
    } else {
        ncc_u64 more = s->count - s->last_count;
        if (!above)
            return;
        s->dropping = 1;
        s->count = more > 1 && q->now_ns < s->next_ns + 16 * p[CODEL_INTERVAL] ? more : 1;
        s->last_count = s->count;
        s->next_ns = codel_after(s, p, q->now_ns);
        o->verdict = k->flags & NCC_SW_ECT ? NCC_MARK : NCC_DROP;
        return;
    }
    if (k->flags & NCC_SW_ECT) {
        o->verdict = NCC_MARK;
        s->next_ns = codel_after(s, p, s->next_ns);
    } else {
        o->verdict = NCC_DROP;
        s->dropped = 1; /* the time of the next drop is set if the next packet has waited too long as well */
    }
}

NCC_SW_NO_HOOK(codel, enqueue)
NCC_SW_NO_HOOK(codel, reverse)
NCC_SW_NO_TIMER(codel)
NCC_SW_REGISTER(codel, NCC_SW_DEQUEUE, "drops or marks what leaves while packets wait too long (RFC 8289)")

#endif
