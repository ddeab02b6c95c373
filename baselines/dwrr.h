/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deficit weighted round robin (Shreedhar and Varghese 1995): the classes of a port send in turn. The weight of a class
 * sets the bytes that it may send in a turn. Bytes that are too few for its next packet are kept for its next turn.
 */
#ifndef NCC_DWRR_H
#define NCC_DWRR_H

#include "switch.h"

enum { dwrr_queues = NCC_SW_CLASSES };
enum { DWRR_QUANTUM, DWRR_WEIGHT };

#define DWRR_WEIGHT_OF(n_) {"weight" #n_, 1, 1, 1000, "quanta that class " #n_ " may send in its turn"}

static const struct ncc_cc_param dwrr_params[] = {
    {"quantum_bytes", 1500, 256, 1000000, "bytes; at least a full packet, or turns pass in which nothing is sent"},
    DWRR_WEIGHT_OF(0),
    DWRR_WEIGHT_OF(1),
    DWRR_WEIGHT_OF(2),
    DWRR_WEIGHT_OF(3),
    DWRR_WEIGHT_OF(4),
    DWRR_WEIGHT_OF(5),
    DWRR_WEIGHT_OF(6),
    DWRR_WEIGHT_OF(7),
};

struct dwrr_state {
    ncc_u64 deficit[dwrr_queues]; /* bytes that each class may still send */
    ncc_u32 turn;                 /* the class whose turn it is */
    ncc_u32 given;                /* it has got its quanta for this turn */
};

NCC_CC_FN void dwrr_init(struct dwrr_state *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_out *o)
{
    (void)s, (void)p, (void)q, (void)o;
}

NCC_CC_FN ncc_u32 dwrr_classify(struct dwrr_state *s, const ncc_u64 *p, const struct ncc_sw_packet *k)
{
    (void)s, (void)p;
    return k->prio < dwrr_queues ? k->prio : dwrr_queues - 1;
}

/* Section 3, figure 2. It ends, because some class has a packet and gets quanta in every turn. */
NCC_CC_FN ncc_u32 dwrr_next(struct dwrr_state *s, const ncc_u64 *p, const struct ncc_sw_queue *of)
{
    for (;;) {
        ncc_u32 turn = s->turn, head = of[turn].head_bytes;

        if (head && !s->given) {
            s->deficit[turn] += p[DWRR_QUANTUM] * p[DWRR_WEIGHT + turn];
            s->given = 1;
        }
        if (head && head <= s->deficit[turn]) {
            s->deficit[turn] = of[turn].bytes > head ? s->deficit[turn] - head : 0; /* an empty class keeps nothing */
            return turn;
        }
        if (!head)
            s->deficit[turn] = 0;
        s->turn = (turn + 1) % dwrr_queues;
        s->given = 0;
    }
}

NCC_SW_NO_HOOK(dwrr, enqueue)
NCC_SW_NO_HOOK(dwrr, dequeue)
NCC_SW_NO_HOOK(dwrr, reverse)
NCC_SW_NO_TIMER(dwrr)
NCC_SW_REGISTER_QUEUES(dwrr, 0, "classes that share a port by weights (Shreedhar and Varghese 1995)")

#endif
