/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue of pFabric's switches (Alizadeh et al., SIGCOMM 2013, section 4.2). The flow with the least left to send goes
 * first, with its earliest packet. When the buffer, which is small, is full, a packet of the flow with the most left is
 * dropped. Hosts give packets their ranks (tags/remaining.h). Packets without data go first. pFabric's sender is not
 * included.
 */
#ifndef NCC_PFABRIC_H
#define NCC_PFABRIC_H

#include "switch.h"

static const struct ncc_cc_param pfabric_params[] = {
    {"control_rank", 0, 0, 1099511627776, "rank of packets without data; ours, 0: before everything"},
};

struct pfabric_state {
    ncc_u64 none;
};

NCC_CC_FN void pfabric_init(struct pfabric_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                            struct ncc_sw_out *o)
{
    (void)s, (void)p, (void)q, (void)o;
}

NCC_CC_FN void pfabric_enqueue(struct pfabric_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                               struct ncc_sw_packet *k, struct ncc_sw_out *o)
{
    (void)s, (void)q, (void)o;
    if (!k->payload_bytes)
        k->rank = p[0];
}

NCC_SW_NO_HOOK(pfabric, dequeue)
NCC_SW_NO_HOOK(pfabric, reverse)
NCC_SW_NO_TIMER(pfabric)
NCC_SW_REGISTER(pfabric, NCC_SW_ENQUEUE | NCC_SW_RANKED, "least left first, most left dropped (Alizadeh 2013, pFabric)")

#endif
