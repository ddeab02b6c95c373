/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QCN's congestion point (IEEE 802.1Qau; Saeed et al., Annulus, section 3.2): a port samples one arriving packet in
 * about every M bytes, and tells the packet's sender how congested the queue is.
 */
#ifndef NCC_QCN_H
#define NCC_QCN_H

#include "switch.h"

#define QCN_LEVELS 63 /* most of 6 bits of quantised feedback */

enum { QCN_TARGET_BYTES, QCN_W, QCN_SAMPLE_BYTES, QCN_MAX_HOPS };

static const struct ncc_cc_param qcn_params[] = {
    {"target_bytes", 90000, 1500, 1000000000, "bytes of queue that count as no congestion: Qeq (section 5.2)"},
    {"w", 2, 0, 100, "weight of the queue's change (section 3.2; the testbed: 8)"},
    {"sample_bytes", 150000, 1500, 1000000000, "bytes between samples without congestion: M (802.1Qau)"},
    {"max_hops", 0, 0, 8, "most switches between a sender and this port for a signal; 1: its own ToR; 0: any number"},
};

struct qcn_state {
    ncc_s64 left_bytes;  /* until the next sample */
    ncc_u64 queue_bytes; /* Qold */
};

/* Fb = (Q - Qeq) + w (Q - Qold) of this sample in levels of the largest, Qeq (2 w + 1); 0: not congested. */
NCC_CC_FN ncc_u32 qcn_feedback(struct qcn_state *s, const ncc_u64 *p, ncc_u64 queue_bytes)
{
    const ncc_s64 target = (ncc_s64)p[QCN_TARGET_BYTES], queue = (ncc_s64)queue_bytes;
    const ncc_s64 fb = queue - target + (ncc_s64)p[QCN_W] * (queue - (ncc_s64)s->queue_bytes);

    s->queue_bytes = queue_bytes;
    if (fb <= 0)
        return 0;
    return (ncc_u32)ncc_min_u64((ncc_u64)fb * QCN_LEVELS / (p[QCN_TARGET_BYTES] * (2 * p[QCN_W] + 1)), QCN_LEVELS);
}

/* M shrinks with the three highest bits of the feedback, down to an eighth, and is drawn within 15 % of that. */
NCC_CC_FN ncc_s64 qcn_interval_bytes(const ncc_u64 *p, ncc_u32 feedback, ncc_u32 random)
{
    const ncc_u64 bytes = p[QCN_SAMPLE_BYTES] / (1 + (feedback >> 3));

    return (ncc_s64)(bytes * 85 / 100 + (bytes * 30 / 100 * (random >> 16) >> 16));
}

NCC_CC_FN void qcn_init(struct qcn_state *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_out *o)
{
    (void)o;
    s->left_bytes = qcn_interval_bytes(p, 0, q->random);
}

NCC_CC_FN void qcn_enqueue(struct qcn_state *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_packet *k,
                           struct ncc_sw_out *o)
{
    s->left_bytes -= k->bytes;
    if (s->left_bytes > 0)
        return;
    const ncc_u32 feedback = qcn_feedback(s, p, q->queue_bytes);

    s->left_bytes = qcn_interval_bytes(p, feedback, q->random);
    if (feedback && (!p[QCN_MAX_HOPS] || k->hops <= p[QCN_MAX_HOPS])) {
        o->signal.kind = NCC_CC_QCN;
        o->signal.value = feedback;
    }
}

NCC_SW_NO_HOOK(qcn, dequeue)
NCC_SW_NO_HOOK(qcn, reverse)
NCC_SW_NO_TIMER(qcn)
NCC_SW_REGISTER(qcn, NCC_SW_ENQUEUE | NCC_SW_SIGNALS, "tells senders of sampled packets how congested a port is (QCN)")

#endif
