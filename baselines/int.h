/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In-band network telemetry: each port writes its rate, its queue, the bytes that it has sent and the time into data
 * packets that leave. HPCC's senders read this (Li et al., SIGCOMM 2019, section 3.1). The numbers are exact.
 */
#ifndef NCC_INT_H
#define NCC_INT_H

#include "switch.h"

static const struct ncc_cc_param int_params[] = {
    {"wrap_bytes", 0, 0, 1099511627776,
     "bytes sent are counted modulo this, as in a narrow field; 0: all of them (ours)"},
};

struct int_state {
    ncc_u64 none;
};

NCC_CC_FN void int_init(struct int_state *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_out *o)
{
    (void)s, (void)p, (void)q, (void)o;
}

NCC_CC_FN void int_dequeue(struct int_state *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_packet *k,
                           struct ncc_sw_out *o)
{
    (void)s, (void)k;
    o->hop.rate_bytes_per_s = q->rate_bytes_per_s;
    o->hop.queue_bytes = q->queue_bytes;
    o->hop.tx_bytes = p[0] ? q->tx_bytes % p[0] : q->tx_bytes;
    o->hop.at_ns = q->now_ns;
}

NCC_SW_NO_HOOK(int, enqueue)
NCC_SW_NO_HOOK(int, reverse)
NCC_SW_NO_TIMER(int)
NCC_SW_REGISTER(int, NCC_SW_DEQUEUE | NCC_SW_TELEMETRY, "writes rate, queue, bytes sent and time into data (Li 2019)")

#endif
