/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FQ-CoDel (RFC 8290): a hash assigns each flow to a queue. The queues send in turn, and CoDel (codel.h) drops packets
 * of each queue. A queue that was empty until now goes first, so that a flow of few packets does not wait behind long
 * flows.
 */
#ifndef NCC_FQ_CODEL_H
#define NCC_FQ_CODEL_H

#include "codel.h"

enum { fq_codel_queues = 1024 }; /* all values of ncc_sw_flow_hash */
enum { FQ_CODEL_QUANTUM = CODEL_INTERVAL + 1 };

static const struct ncc_cc_param fq_codel_params[] = {
    {"target_ns", 5000000, 1, 1000000000, "ns: wait that is good enough (RFC 8290, section 5.2.2)"},
    {"interval_ns", 100000000, 1, 4000000000, "ns: for which it may be longer, an RTT or more (section 5.2.1)"},
    {"quantum_bytes", 1514, 256, 1000000, "bytes that a queue may send in its turn (section 5.2.4)"},
};

struct fq_codel_list { /* numbers of queues plus 1; 0: none */
    ncc_u32 first, last;
};

struct fq_codel_state {
    struct fq_codel_list fresh, old;
    ncc_u64 served; /* the queue that sends */
    struct {
        struct codel_state codel;
        ncc_s64 credit; /* bytes that it may still send in its turn */
        ncc_u32 behind; /* the next one in its list, plus 1 */
        ncc_u32 listed;
    } of[fq_codel_queues];
};

NCC_CC_FN void fq_codel_append(struct fq_codel_state *s, struct fq_codel_list *list, ncc_u32 queue)
{
    s->of[queue].behind = 0;
    if (list->first)
        s->of[list->last - 1].behind = queue + 1;
    else
        list->first = queue + 1;
    list->last = queue + 1;
}

NCC_CC_FN void fq_codel_init(struct fq_codel_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                             struct ncc_sw_out *o)
{
    (void)s, (void)p, (void)q, (void)o;
}

/* Section 4.1. */
NCC_CC_FN ncc_u32 fq_codel_classify(struct fq_codel_state *s, const ncc_u64 *p, const struct ncc_sw_packet *k)
{
    ncc_u32 queue = ncc_sw_flow_hash(k);

    if (!s->of[queue].listed) {
        s->of[queue].listed = 1;
        s->of[queue].credit = (ncc_s64)p[FQ_CODEL_QUANTUM];
        fq_codel_append(s, &s->fresh, queue);
    }
    return queue;
}

/* Section 4.2. It ends, because some queue has a packet and every turn gives it credit. */
NCC_CC_FN ncc_u32 fq_codel_next(struct fq_codel_state *s, const ncc_u64 *p, const struct ncc_sw_queue *of)
{
    for (;;) {
        struct fq_codel_list *list = s->fresh.first ? &s->fresh : &s->old;
        ncc_u32 queue = list->first - 1, spent = s->of[queue].credit <= 0;

        if (!spent && of[queue].head_bytes) {
            s->served = queue;
            return queue;
        }
        list->first = s->of[queue].behind;
        if (spent)
            s->of[queue].credit += (ncc_s64)p[FQ_CODEL_QUANTUM];
        else /* it is empty, which ends CoDel's dropping (RFC 8289, section 5.5) */
            s->of[queue].codel.first_above_ns = s->of[queue].codel.dropping = 0;
        if (spent || list == &s->fresh)
            fq_codel_append(s, &s->old, queue);
        else
            s->of[queue].listed = 0;
    }
}

NCC_CC_FN void fq_codel_dequeue(struct fq_codel_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                                struct ncc_sw_packet *k, struct ncc_sw_out *o)
{
    codel_dequeue(&s->of[s->served].codel, p, q, k, o);
    if (o->verdict != NCC_DROP)
        s->of[s->served].credit -= k->bytes;
}

NCC_SW_NO_HOOK(fq_codel, enqueue)
NCC_SW_NO_HOOK(fq_codel, reverse)
NCC_SW_NO_TIMER(fq_codel)
NCC_SW_REGISTER_QUEUES(fq_codel, NCC_SW_DEQUEUE, "a queue with CoDel for each flow, in turn (RFC 8290)")

#endif
