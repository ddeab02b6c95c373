/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LetFlow (Vanini et al., NSDI 2017): a switch sends each flowlet over a path drawn at random. A flowlet is a burst of
 * a flow's packets, with a gap before the next burst. Flowlets are short on a congested path, so that traffic moves to
 * other paths without being steered.
 */
#ifndef NCC_LETFLOW_H
#define NCC_LETFLOW_H

#include "switch.h"

#define LETFLOW_ENTRIES 1024 /* of a switch's table: all values of ncc_sw_flow_hash */

static const struct ncc_cc_param letflow_params[] = {
    {"gap_ns", 500000, 1, 1000000000000, "ns without a packet after which a new flowlet begins; 500 us (section 4)"},
};

struct letflow_state {
    ncc_u64 none;
};

/* The table of flowlets. Flows that share an entry share their flowlets, as in hardware. */
struct letflow_node {
    struct {
        ncc_u64 until_ns; /* end of the flowlet, if no packet comes before; 0: none has come */
        ncc_u32 way;
    } flowlets[LETFLOW_ENTRIES];
};

NCC_CC_FN void letflow_init(struct letflow_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                            struct ncc_sw_out *o)
{
    (void)s, (void)p, (void)q, (void)o;
}

NCC_CC_FN ncc_u32 letflow_route(struct letflow_node *d, const ncc_u64 *p, const struct ncc_sw_ways *w,
                                struct ncc_sw_packet *k)
{
    ncc_u32 at = ncc_sw_flow_hash(k);

    if (w->now_ns >= d->flowlets[at].until_ns)
        d->flowlets[at].way = w->random;
    d->flowlets[at].until_ns = w->now_ns + p[0];
    return d->flowlets[at].way % w->n;
}

NCC_SW_NO_HOOK(letflow, enqueue)
NCC_SW_NO_HOOK(letflow, dequeue)
NCC_SW_NO_HOOK(letflow, reverse)
NCC_SW_NO_TIMER(letflow)
NCC_SW_REGISTER_ROUTE(letflow, 0, "a way at random for each flowlet (Vanini 2017)")

#endif
