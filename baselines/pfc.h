/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Priority flow control (IEEE 802.1Qbb) of a link with one priority: a port pauses the far end of its link while too
 * many bytes that came over this link wait in the switch. The thresholds are static, as in Zhu et al., Congestion
 * Control for Large-Scale RDMA Deployments (SIGCOMM 2015), section 4.
 */
#ifndef NCC_PFC_H
#define NCC_PFC_H

#include "switch.h"

enum { PFC_XOFF_BYTES, PFC_XON_GAP_BYTES };

static const struct ncc_cc_param pfc_params[] = {
    {"xoff_bytes", 24470, 1500, 1000000000, "bytes from a link that may wait before it is paused: t_PFC (section 4)"},
    {"xon_gap_bytes", 3000, 0, 1000000000,
     "bytes below that, down to 0, at which it may send again: two MTU (section 4)"},
};

struct pfc_state {
    ncc_u64 paused;
};

NCC_CC_FN void pfc_init(struct pfc_state *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_out *o)
{
    (void)s, (void)p, (void)q, (void)o;
}

NCC_CC_FN void pfc_ingress(struct pfc_state *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_out *o)
{
    if (!s->paused && q->ingress_bytes > p[PFC_XOFF_BYTES]) {
        s->paused = 1;
        o->pause = NCC_SW_PAUSE;
    } else if (s->paused &&
               q->ingress_bytes <= p[PFC_XOFF_BYTES] - ncc_min_u64(p[PFC_XON_GAP_BYTES], p[PFC_XOFF_BYTES])) {
        s->paused = 0;
        o->pause = NCC_SW_RESUME;
    }
}

NCC_SW_NO_HOOK(pfc, enqueue)
NCC_SW_NO_HOOK(pfc, dequeue)
NCC_SW_NO_HOOK(pfc, reverse)
NCC_SW_NO_TIMER(pfc)
NCC_SW_REGISTER_INGRESS(pfc, 0, "pauses a link while too much of what came over it waits in the switch (PFC)")

#endif
