/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TIMELY: Mittal et al., SIGCOMM 2015, Algorithm 1. A flow is paced at a rate, which rises while the RTT falls or is
 * below T_low, and is cut in proportion to the RTT's gradient, or to its excess over T_high. Each segment of
 * acknowledged bytes decides once. See cards/timely.md.
 */
#ifndef NCC_TIMELY_H
#define NCC_TIMELY_H

#include "cc.h"

#define TIMELY_SHIFT 20
#define TIMELY_RTT_MAX (1ULL << 32) /* ns; longer samples count as this */

enum {
    TIMELY_ALPHA,
    TIMELY_BETA,
    TIMELY_LOW,
    TIMELY_HIGH,
    TIMELY_MIN_RTT,
    TIMELY_DELTA,
    TIMELY_HAI,
    TIMELY_HAI_AFTER,
    TIMELY_SEGMENT,
    TIMELY_START,
    TIMELY_MIN,
    TIMELY_STRETCH,
};

static const struct ncc_cc_param timely_params[] = {
    {"alpha_permille", 875, 1, 1000, "1/1000: weight of a new difference of RTTs (section 5: 0.875)"},
    {"beta_permille", 800, 1, 999, "1/1000: beta, multiplicative decrease (section 5: 0.8)"},
    {"low_ns", 50000, 1000, 1000000000, "ns: T_low, below which the rate always rises (section 5: 50 us)"},
    {"high_ns", 500000, 1000, 1000000000, "ns: T_high, above which it always falls (section 5: 500 us)"},
    {"min_rtt_ns", 20000, 1000, 1000000000, "ns by which the gradient is divided (section 4.3; 20 us in HPCC's code)"},
    {"delta_kbps", 10000, 1, 100000000, "kbit/s: delta, additive step (section 5: 10 Mbit/s)"},
    {"hai", 5, 1, 1000, "delta of hyperactive increase (section 4.3: N = 5)"},
    {"hai_after", 5, 1, 1000, "decisions in a row without a rising RTT before hyperactive increase (section 4.3: 5)"},
    {"segment_bytes", 16000, 1, 1000000, "acknowledged bytes of a decision (section 4: segments of 16 to 64 KB)"},
    {"start_permille", 1000, 1, 1000, "1/1000 of the line: rate at the start (ours)"},
    {"min_kbps", 10000, 8, 1000000000, "kbit/s, lowest rate (ours)"},
    {"stretch_pct", 125, 0, 1000,
     "%: where the smallest RTT measured is above T_high, this share of it is T_low, and T_high grows in proportion, "
     "or "
     "a path so long would starve (ours); 0: as printed"},
};

struct timely_state {
    ncc_u64 rate_bytes_per_s;
    ncc_u64 rtt_ns;       /* of the decision before; 0: none */
    ncc_u64 repair_bytes; /* window since a timeout; 0: none, the rate alone limits */
    ncc_s64 diff_ns;      /* smoothed difference of RTTs */
    ncc_u32 acked_bytes;  /* of this segment */
    ncc_u32 fallen;       /* decisions in a row with a gradient of 0 or less */
};

/* The link's rate; 10 Gbit/s where it is not known. */
NCC_CC_FN ncc_u64 timely_line(const struct ncc_cc_conn *c)
{
    return c->line_bytes_per_s ? c->line_bytes_per_s : 1250000000ULL;
}

NCC_CC_FN void timely_out(const struct timely_state *s, struct ncc_cc_out *o)
{
    o->cwnd_bytes = s->repair_bytes ? ncc_min_u64(s->repair_bytes, NCC_CC_CWND_MAX) : NCC_CC_CWND_MAX;
    o->ssthresh_bytes = NCC_CC_CWND_MAX;
    o->pacing_bytes_per_s = s->rate_bytes_per_s;
}

NCC_CC_FN void timely_init(struct timely_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    s->rate_bytes_per_s = ncc_max_u64(timely_line(c) * p[TIMELY_START] / 1000, 1);
    timely_out(s, o);
}

NCC_CC_FN void timely_raise(struct timely_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, ncc_u64 steps)
{
    s->rate_bytes_per_s = ncc_min_u64(s->rate_bytes_per_s + steps * p[TIMELY_DELTA] * 125, timely_line(c));
}

/* Takes a part of the rate away, in 2^-20. */
NCC_CC_FN void timely_cut(struct timely_state *s, const ncc_u64 *p, ncc_u64 part_q20)
{
    const ncc_u64 part = ncc_min_u64(part_q20, 1U << TIMELY_SHIFT), rate = s->rate_bytes_per_s;
    const ncc_u64 less = rate < 1ULL << 40 ? (rate * part) >> TIMELY_SHIFT : (rate >> TIMELY_SHIFT) * part;

    s->rate_bytes_per_s = ncc_max_u64(rate - less, ncc_min_u64(rate, p[TIMELY_MIN] * 125));
}

/* rtt_diff = (1 - alpha) rtt_diff + alpha (rtt - the one before). BPF has no signed division: magnitudes are divided.
 */
NCC_CC_FN void timely_smooth(struct timely_state *s, const ncc_u64 *p, ncc_u64 rtt)
{
    const ncc_s64 alpha = (ncc_s64)p[TIMELY_ALPHA];
    const ncc_s64 sum = (1000 - alpha) * s->diff_ns + alpha * ((ncc_s64)rtt - (ncc_s64)s->rtt_ns);

    s->diff_ns = sum < 0 ? -(ncc_s64)((ncc_u64)-sum / 1000) : (ncc_s64)((ncc_u64)sum / 1000);
}

/* Algorithm 1, for a segment with this RTT. */
NCC_CC_FN void timely_decide(struct timely_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                             const struct ncc_cc_event *e, ncc_u64 rtt)
{
    const ncc_u64 beta = (p[TIMELY_BETA] << TIMELY_SHIFT) / 1000;
    const ncc_u64 path = ncc_min_u64(e->min_rtt_ns, TIMELY_RTT_MAX) * p[TIMELY_STRETCH] / 100;
    const ncc_u64 low = e->min_rtt_ns > p[TIMELY_HIGH] ? ncc_max_u64(p[TIMELY_LOW], path) : p[TIMELY_LOW];
    const ncc_u64 high = low > p[TIMELY_LOW] ? p[TIMELY_HIGH] / 1000 * low / p[TIMELY_LOW] * 1000 : p[TIMELY_HIGH];
    const int rising = s->diff_ns > 0;

    s->fallen = rising ? 0 : s->fallen + (s->fallen < p[TIMELY_HAI_AFTER]);
    if (rtt < low) {
        timely_raise(s, p, c, 1);
    } else if (rtt > high) {
        timely_cut(s, p, beta * (rtt - high) / rtt);
    } else if (!rising) {
        timely_raise(s, p, c, s->fallen >= p[TIMELY_HAI_AFTER] ? p[TIMELY_HAI] : 1);
    } else { /* beta x gradient, up to 1 */
        const ncc_u64 unit = ncc_max_u64(p[TIMELY_MIN_RTT], ncc_min_u64(e->min_rtt_ns, TIMELY_RTT_MAX));

        timely_cut(s, p, beta * ncc_min_u64((ncc_u64)s->diff_ns, unit) / unit);
    }
}

NCC_CC_FN void timely_on_ack(struct timely_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                             const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    if (s->repair_bytes)
        s->repair_bytes = e->flags & NCC_CC_ACK_IN_RECOVERY ? s->repair_bytes + e->delivered_bytes : 0;
    s->acked_bytes += (ncc_u32)ncc_min_u64(e->delivered_bytes, 1U << 30);
    if (e->rtt_ns && s->acked_bytes >= p[TIMELY_SEGMENT]) {
        const ncc_u64 rtt = ncc_min_u64(e->rtt_ns, TIMELY_RTT_MAX);

        if (s->rtt_ns) {
            timely_smooth(s, p, rtt);
            timely_decide(s, p, c, e, rtt);
        }
        s->rtt_ns = rtt;
        s->acked_bytes = 0;
    }
    s->acked_bytes = (ncc_u32)ncc_min_u64(s->acked_bytes, 1U << 30);
    timely_out(s, o);
}

/* The paper's fabric loses nothing: a loss changes no rate. After a timeout ACKs clock the repairs, as in slow start.
 */
NCC_CC_FN void timely_on_loss(struct timely_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                              const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)p, (void)c, (void)e;
    timely_out(s, o);
}

NCC_CC_FN void timely_on_timeout(struct timely_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                 const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)p, (void)e;
    s->repair_bytes = c->mss_bytes;
    timely_out(s, o);
}

/* RTTs from before a pause say nothing about the path now. */
NCC_CC_FN void timely_on_restart(struct timely_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                 const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)p, (void)c;
    if (e->idle_rtos) {
        s->rtt_ns = 0;
        s->diff_ns = 0;
    }
    timely_out(s, o);
}

NCC_CC_REGISTER(timely, NCC_CC_ECN_NONE, "TIMELY (Mittal et al. 2015): rate by the RTT's gradient, paced; no ECN")

#endif
