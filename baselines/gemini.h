/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GEMINI: Zeng, PhD thesis 2022, chapter 3, algorithm 1. It reacts to queues inside a datacentre by DCTCP's alpha, and
 * to queues between datacentres by delay. The cut and the growth depend on the bandwidth-delay product. Its parameters
 * begin with those of DCTCP, and its state extends DCTCP's. See cards/gemini.md.
 */
#ifndef NCC_GEMINI_H
#define NCC_GEMINI_H

#include "dctcp.h"

#define GEMINI_SHIFT DCTCP_ALPHA_SHIFT /* fractions are in 2^-20, as alpha is */
#define GEMINI_RTT_MAX_NS (1ULL << 40) /* 18 min: times the largest capacity (2^20 Mbit/s) it fits 64 bits */
#define GEMINI_H_MIN 100ULL            /* 1/1000 packet: 0.1 and 5 (section 3.3.3) */
#define GEMINI_H_MAX 5000ULL
#define GEMINI_SPAN_SHIFT 13         /* bytes per byte of growth are in 2^-13: 1000 of the largest window fit */
#define GEMINI_PACE_SHIFT 23         /* bytes per ns are in 2^-23: of the largest window they fit */
#define GEMINI_PACE_MAX (1ULL << 33) /* 8 Tbit/s */

enum {
    GEMINI_K = DCTCP_MIN_CWND + 1,
    GEMINI_CAPACITY,
    GEMINI_T,
    GEMINI_BETA,
    GEMINI_H,
    GEMINI_MAX_CUT,
    GEMINI_PACING_SS,
    GEMINI_PACING_CA,
    GEMINI_GROWTH_SRTT,
};

static const struct ncc_cc_param gemini_params[] = {
    DCTCP_PARAMS,
    {"k_pkts_per_gbps", 50, 1, 1000, "packets per Gbit/s of capacity: marking threshold K (table 3.4)"},
    {"capacity_mbps", 1000, 1, 1000000,
     "Mbit/s: capacity C of the network, a constant (table 3.3; the testbed's 1000)"},
    {"t_us", 5000, 1, 10000000,
     "us: T, delay above the base RTT that means congestion between data centers (table 3.4)"},
    {"beta_permille", 200, 1, 900, "1/1000: beta, the cut when delay says congestion (table 3.4)"},
    {"h_pkts_per_gbit", 120, 1, 100000, "packets per Gbit of C x RTT: H, growth per RTT (table 3.4: 1.2e-7 per bit)"},
    {"max_cut_permille", 500, 1, 900, "1/1000: the largest cut by ECN, where alpha F is more (DCTCP's at alpha = 1)"},
    {"pacing_ss_pct", 200, 100, 1000, "%: of cwnd / srtt, pacing while cwnd < ssthresh / 2 (Linux)"},
    {"pacing_ca_pct", 120, 100, 1000, "%: of cwnd / srtt, pacing elsewhere (Linux)"},
    {"growth_srtt", 0, 0, 1,
     "1: h grows with the smoothed RTT, queues included (what theorem 3.3.2 needs); 0: with RTT_base (as printed)"},
};

struct gemini_state {
    struct dctcp_state d;
    ncc_u64 rtt_ns;    /* smallest sample of this observation window; 0: none */
    ncc_u32 congested; /* the window before had congestion, by its delay */
    ncc_u32 stale;     /* this window's samples are of packets sent before a cut that they would repeat */
};

NCC_CC_FN void gemini_out(const struct gemini_state *s, const ncc_u64 *p, ncc_u64 srtt_ns, struct ncc_cc_out *o)
{
    const struct ncc_reno_window *w = &s->d.w;
    ncc_u64 gain = w->cwnd_bytes < w->ssthresh_bytes / 2 ? p[GEMINI_PACING_SS] : p[GEMINI_PACING_CA];

    ncc_reno_state(w, o);
    if (srtt_ns) { /* without it no rate is known, and the first window goes out at once */
        ncc_u64 rate = ncc_min_u64((w->cwnd_bytes << GEMINI_PACE_SHIFT) / srtt_ns, GEMINI_PACE_MAX);

        o->pacing_bytes_per_s = ncc_max_u64(((rate * NCC_NS_PER_S) >> GEMINI_PACE_SHIFT) * gain / 100, 1);
    }
}

NCC_CC_FN void gemini_init(struct gemini_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    dctcp_init(&s->d, p, c, o);
}

/* C x RTT in bits. */
NCC_CC_FN ncc_u64 gemini_bdp_bits(const ncc_u64 *p, ncc_u64 rtt_ns)
{
    return p[GEMINI_CAPACITY] * ncc_min_u64(rtt_ns, GEMINI_RTT_MAX_NS) / 1000;
}

/* F = 4 K / (C x RTT_base + K) in 2^-20: from 0 to 4. */
NCC_CC_FN ncc_u64 gemini_factor(const struct gemini_state *s, const ncc_u64 *p, const struct ncc_cc_event *e)
{
    ncc_u64 k = p[GEMINI_K] * p[GEMINI_CAPACITY] * s->d.w.mss_bytes / 1000;

    k = ncc_min_u64(ncc_max_u64(k, 1), NCC_CC_CWND_MAX);
    return (4 * k << GEMINI_SHIFT) / (gemini_bdp_bits(p, e->min_rtt_ns) / 8 + k);
}

/* max(f_dcn, f_wan) in 2^-20. */
NCC_CC_FN ncc_u64 gemini_cut(const struct gemini_state *s, const ncc_u64 *p, const struct ncc_cc_event *e)
{
    ncc_u64 dcn = 0, wan = s->congested ? (p[GEMINI_BETA] << GEMINI_SHIFT) / 1000 : 0;

    if (e->flags & NCC_CC_ACK_ECE)
        dcn = ncc_min_u64((s->d.alpha_q * gemini_factor(s, p, e)) >> GEMINI_SHIFT,
                          (p[GEMINI_MAX_CUT] << GEMINI_SHIFT) / 1000);
    return ncc_max_u64(dcn, wan);
}

/* h = H x C x RTT, in 1/1000 packet. */
NCC_CC_FN ncc_u64 gemini_step(const ncc_u64 *p, const struct ncc_cc_event *e)
{
    ncc_u64 rtt_ns = p[GEMINI_GROWTH_SRTT] ? e->srtt_ns : e->min_rtt_ns;
    /* The bits beyond which every H, at least 1 packet per Gbit, gives the largest step. */
    ncc_u64 bits = ncc_min_u64(gemini_bdp_bits(p, rtt_ns), GEMINI_H_MAX * 1000000);

    return ncc_min_u64(ncc_max_u64(bits * p[GEMINI_H] / 1000000, GEMINI_H_MIN), GEMINI_H_MAX);
}

/* h packets per window of acknowledged bytes, byte by byte: a step of 0.1 packet must not wait for ten windows. */
NCC_CC_FN void gemini_avoid(struct gemini_state *s, const ncc_u64 *p, const struct ncc_cc_event *e, ncc_u64 acked)
{
    struct ncc_reno_window *w = &s->d.w;
    ncc_u64 span = ((w->cwnd_bytes * 1000) << GEMINI_SPAN_SHIFT) / (gemini_step(p, e) * w->mss_bytes);
    ncc_u64 credit = (w->credit_bytes + acked) << GEMINI_SPAN_SHIFT, bytes = credit / span;

    w->credit_bytes = (credit - bytes * span) >> GEMINI_SPAN_SHIFT;
    w->cwnd_bytes = ncc_min_u64(w->cwnd_bytes + bytes, NCC_CC_CWND_MAX);
}

/* RTT_min > RTT_base + T, once per observation window. */
NCC_CC_FN void gemini_observe(struct gemini_state *s, const ncc_u64 *p, const struct ncc_cc_event *e)
{
    if (e->rtt_ns)
        s->rtt_ns = s->rtt_ns ? ncc_min_u64(s->rtt_ns, e->rtt_ns) : e->rtt_ns;
    if (!dctcp_observe(&s->d, p, e))
        return;
    if (s->rtt_ns || s->stale)
        s->congested = !s->stale && s->rtt_ns > e->min_rtt_ns && s->rtt_ns - e->min_rtt_ns > p[GEMINI_T] * 1000;
    s->rtt_ns = 0;
    s->stale = 0;
}

/* The window has changed, so the delay measured in the one before is dealt with. */
NCC_CC_FN void gemini_forget(struct gemini_state *s)
{
    s->congested = 0;
    s->stale = 1;
}

NCC_CC_FN void gemini_on_ack(struct gemini_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                             const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    struct ncc_reno_window *w = &s->d.w;
    int ready;

    (void)c;
    gemini_observe(s, p, e);
    ncc_reno_advance(w, e);
    ready = !(w->flags & NCC_RENO_REACTED) && !(e->flags & NCC_CC_ACK_IN_RECOVERY);
    if (ready && (s->congested || (e->flags & NCC_CC_ACK_ECE))) {
        ncc_u64 cut = (w->cwnd_bytes * gemini_cut(s, p, e)) >> GEMINI_SHIFT;

        ncc_reno_reduce(w, e, w->cwnd_bytes - cut, p[DCTCP_MIN_CWND]);
        if (s->congested)
            gemini_forget(s);
    } else if (!s->congested) {
        ncc_u64 acked = ncc_reno_countable(w, e);

        if (acked && w->cwnd_bytes < w->ssthresh_bytes)
            acked = ncc_reno_slow_start(w, acked, p[DCTCP_ABC_LIMIT]);
        if (acked)
            gemini_avoid(s, p, e, acked);
    }
    gemini_out(s, p, e->srtt_ns, o);
}

/* "The same fast recovery and fast retransmission mechanism from TCP" (section 3.2.2). */
NCC_CC_FN void gemini_on_loss(struct gemini_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                              const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    dctcp_on_loss(&s->d, p, c, e, o);
    gemini_forget(s);
    gemini_out(s, p, e->srtt_ns, o);
}

NCC_CC_FN void gemini_on_timeout(struct gemini_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                 const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    dctcp_on_timeout(&s->d, p, c, e, o);
    gemini_forget(s);
    gemini_out(s, p, e->srtt_ns, o);
}

NCC_CC_FN void gemini_on_restart(struct gemini_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                 const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    if (e->idle_rtos) { /* delays of the time before say nothing about the path now */
        s->congested = 0;
        s->rtt_ns = 0;
    }
    ncc_reno_restart(&s->d.w, c, e);
    gemini_out(s, p, e->srtt_ns, o);
}

NCC_CC_REGISTER(gemini, NCC_CC_ECN_DCTCP, "GEMINI (Zeng 2022, ch. 3): ECN inside a data center, delay between them")

#endif
