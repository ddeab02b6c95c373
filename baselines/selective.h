/* SPDX-License-Identifier: BSD-3-Clause */
/* Selective dropping (Hu et al., SIGCOMM 2020, Aeolus): data that was sent before its sender knew of room is dropped
 * where a queue is not short; other data waits as usual. */
#ifndef NCC_SELECTIVE_H
#define NCC_SELECTIVE_H
#include "switch.h"

static const struct ncc_cc_param selective_params[] = {
    {"over_bytes", 3000, 0, 1099511627776,
     "bytes waiting, with the packet, above which expendable data is dropped; 2 packets of 1500 bytes (zeng2022 "
     "section "
     "4.3.1)"},
};

struct selective_state {
    ncc_u64 none;
};

NCC_CC_FN void selective_init(struct selective_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                              struct ncc_sw_out *o)
{
    (void)s, (void)p, (void)q, (void)o;
}

NCC_CC_FN void selective_enqueue(struct selective_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                                 struct ncc_sw_packet *k, struct ncc_sw_out *o)
{
    (void)s;
    if ((k->flags & NCC_SW_EXPENDABLE) && q->queue_bytes + k->bytes > p[0])
        o->verdict = NCC_DROP;
}

NCC_SW_NO_HOOK(selective, dequeue)
NCC_SW_NO_HOOK(selective, reverse)
NCC_SW_NO_TIMER(selective)
NCC_SW_REGISTER(selective, NCC_SW_ENQUEUE, "drops expendable data where a queue is not short (Hu 2020)")

#endif
