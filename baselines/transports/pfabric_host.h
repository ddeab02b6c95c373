/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pFabric's host (Alizadeh et al., SIGCOMM 2013, section 4.3): a window of a BDP, an ACK for each packet, a short
 * timeout without back-off, after which the window is that of slow start, and probes alone after several of them. Slow
 * start and probes are as in released code: NetSys/simulator, commit 31abb1f, and the ns-2 patch of PIAS-NS2, commit
 * 5fb5867. Its packets have the ranks of tags/remaining.h, its ports the program pfabric.
 */
#ifndef NCC_TP_PFABRIC_HOST_H
#define NCC_TP_PFABRIC_HOST_H

#include "transport.h"

enum { PFABRIC_HOST_WINDOW, PFABRIC_HOST_RTO, PFABRIC_HOST_PROBES };

static const struct ncc_cc_param pfabric_host_params[] = {
    {"window_pkts", 12, 1, 1000000, "packets without an ACK: a BDP (section 4.3)"},
    {"rto_ns", 45000, 1000, 60000000000, "ns, or 3 base RTTs if that is longer (section 4.3)"},
    {"probe_after", 5, 1, 1000, "timeouts in a row, from the last of which on only probes are sent (section 4.3)"},
};

struct pfabric_host_sender {
    ncc_u32 window;
    ncc_u32 threshold; /* of slow start: half of the window at a timeout, at least 2 */
    ncc_u32 gained;    /* ACKs since the window has grown, from the threshold on */
    ncc_u32 acked;
    ncc_u32 timeouts; /* in a row, since an ACK of a new packet */
};

NCC_CC_FN ncc_u64 pfabric_host_rto_ns(const ncc_u64 *p, const struct ncc_tp_flow *f)
{
    return ncc_max_u64(p[PFABRIC_HOST_RTO], 3 * f->base_rtt_ns);
}

/* Fills the window, of which `out` packets are in flight or permitted, by at most `left` packets. */
NCC_CC_FN void pfabric_host_fill(const struct pfabric_host_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                 ncc_u32 out, ncc_u32 left, struct ncc_tp_out *o)
{
    o->grant.pkts = out < s->window ? (ncc_u32)ncc_min_u64(s->window - out, left) : 0;
    o->timer_ns = pfabric_host_rto_ns(p, f);
}

NCC_CC_FN void pfabric_host_start(struct pfabric_host_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                  struct ncc_tp_out *o)
{
    s->window = s->threshold = (ncc_u32)p[PFABRIC_HOST_WINDOW];
    pfabric_host_fill(s, p, f, 0, f->pkts, o);
}

NCC_CC_FN void pfabric_host_heard(struct pfabric_host_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                  const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    const ncc_u32 left = f->fresh + f->again;

    (void)k;
    if (f->acked > s->acked) {
        s->acked = f->acked;
        s->timeouts = 0;
        if (s->window < s->threshold || ++s->gained >= s->window) {
            s->window = (ncc_u32)ncc_min_u64(s->window + 1, p[PFABRIC_HOST_WINDOW]);
            s->gained = 0;
        }
    }
    pfabric_host_fill(s, p, f, f->pkts - f->acked - left + f->granted, left > f->granted ? left - f->granted : 0, o);
}

NCC_CC_FN void pfabric_host_sender_timer(struct pfabric_host_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                         struct ncc_tp_out *o)
{
    if (f->at_host) { /* what waits here is not lost */
        o->timer_ns = pfabric_host_rto_ns(p, f);
        return;
    }
    s->timeouts++;
    s->threshold = (ncc_u32)ncc_max_u64(s->window / 2, 2);
    s->window = 1;
    s->gained = 0;
    o->timed_out = 1;
    o->revoke = 1;
    o->lost = f->below;
    o->lost_pkts = NCC_TP_ALL;
    if (s->timeouts < p[PFABRIC_HOST_PROBES]) {
        pfabric_host_fill(s, p, f, 0, 1, o);
    } else {
        ncc_tp_say(o, NCC_TP_PROBE);
        o->timer_ns = pfabric_host_rto_ns(p, f);
    }
}

struct pfabric_host_receiver {
    ncc_u32 none;
};

NCC_CC_FN void pfabric_host_got(struct pfabric_host_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    (void)s, (void)p, (void)f;
    if (k->kind == NCC_TP_DATA && !(k->flags & NCC_TP_TRIMMED))
        ncc_tp_say(o, NCC_TP_ACK)->number = k->number;
}

NCC_TP_NO_RECEIVER_TIMER(pfabric_host)
NCC_TP_NO_TURN(pfabric_host)
NCC_TP_REGISTER(pfabric_host, NCC_TP_RANKED, 0, "a window of a BDP and short timeouts (Alizadeh 2013, pFabric)")

#endif
