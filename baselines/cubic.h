/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUBIC: RFC 9438, with the slow start of RFC 9406 (HyStart++). Recovery, the reduction once per window and slow start
 * after a timeout are those of reno_window.h. See cards/cubic.md.
 */
#ifndef NCC_CUBIC_H
#define NCC_CUBIC_H

#include "reno_window.h"

#define CUBIC_TIME_SHIFT 18 /* times on the curve are in 2^-18 s (3.8 us) */
#define CUBIC_TIME_BITS 34  /* up to 2^34 of them (18 h): K of the largest window in packets of one byte is 14,010 s */
#define CUBIC_TIME_MAX_NS (1ULL << 45) /* 9.8 h: shifted by CUBIC_TIME_SHIFT it fits 64 bits */
#define CUBIC_RATIO_SHIFT 20           /* growth per acknowledged byte, at most 1/2, in 2^-20: times 2^40 it fits */
#define CUBIC_RATIO_ONE (1U << CUBIC_RATIO_SHIFT)

/* RFC 9406 section 4.3. */
#define CUBIC_MIN_RTT_THRESH_NS 4000000ULL
#define CUBIC_MAX_RTT_THRESH_NS 16000000ULL
#define CUBIC_MIN_RTT_DIVISOR 8
#define CUBIC_RTT_SAMPLES 8
#define CUBIC_CSS_GROWTH_DIVISOR 4
#define CUBIC_CSS_ROUNDS 5

enum { CUBIC_C, CUBIC_BETA, CUBIC_FAST_CONVERGENCE, CUBIC_HYSTART, CUBIC_ABC_LIMIT, CUBIC_MIN_CWND };

/* In the order of the enum; also for tables that begin with these parameters. */
#define CUBIC_PARAMS                                                                                                   \
    {"c_permille", 400, 10, 4000, "packets per 1000 s^3: C (0.4 in RFC 9438 section 5.1)"},                            \
        {"beta_permille", 700, 500, 900, "1/1000: what a reduction leaves (0.7 in RFC 9438 section 4.6)"},             \
        {"fast_convergence", 1, 0, 1, "1: a flow that lost window lowers W_max further (RFC 9438 section 4.7)"},       \
        {"hystart", 1, 0, 1, "1: leave the first slow start when delay grows (RFC 9406, RFC 9438 section 4.10)"},      \
        {"abc_limit_pkts", 8, 1, 65535, "packets: growth per ACK in slow start at most (L of RFC 9406 section 4.3)"},  \
        NCC_RENO_PARAM_MIN_CWND

static const struct ncc_cc_param cubic_params[] = {CUBIC_PARAMS};

/* State of the connection. */
enum cubic_stage {
    CUBIC_FIRST_SLOW_START, /* HyStart++ looks for a growing delay */
    CUBIC_CONSERVATIVE,     /* it found one: conservative slow start */
    CUBIC_BETWEEN,          /* reduced and not yet in avoidance: the window rests, is repaired or in slow start */
    CUBIC_AVOIDANCE,
};

/* A congestion avoidance stage. */
struct cubic_curve {
    ncc_u64 t_ns;      /* since it began, without times in which the window was not full */
    ncc_u64 last_ns;   /* the last ACK that counted; 0: the window was not full since */
    ncc_u64 k;         /* K, in 2^-CUBIC_TIME_SHIFT s */
    ncc_u64 est_bytes; /* W_est */
};

/* Rounds of HyStart++. */
struct cubic_hystart {
    ncc_u64 round_end_bytes;
    ncc_u64 last_rtt_ns;     /* smallest sample of the round before; 0: none */
    ncc_u64 rtt_ns;          /* smallest sample of this one; 0: none */
    ncc_u64 baseline_rtt_ns; /* rtt_ns when conservative slow start began */
};

struct cubic_state {
    struct ncc_reno_window w; /* credit_bytes: acknowledged, not yet turned into W_est */
    ncc_u64 w_max_bytes;      /* 0: none, the stage starts on the plateau */
    ncc_u64 prior_bytes;      /* cwnd_prior: the window when ssthresh was set */
    union {
        struct cubic_curve curve;
        struct cubic_hystart hystart;
    } u;
    ncc_u32 part_q; /* of a byte of window, in 2^-CUBIC_RATIO_SHIFT */
    ncc_u8 stage;   /* enum cubic_stage */
    ncc_u8 samples; /* RTT samples of this round */
    ncc_u8 rounds;  /* of conservative slow start */
    ncc_u8 unused;
};

/* a * b / 2^shift for 0 < shift < 64, or the largest value if that is more than 64 bits hold. */
NCC_CC_FN ncc_u64 cubic_mul_shift(ncc_u64 a, ncc_u64 b, ncc_u32 shift)
{
    ncc_u64 a_low = a & 0xffffffffULL, a_high = a >> 32, b_low = b & 0xffffffffULL, b_high = b >> 32;
    ncc_u64 low = a_low * b_low;
    ncc_u64 middle = a_high * b_low + (low >> 32);
    ncc_u64 other = a_low * b_high + (middle & 0xffffffffULL);
    ncc_u64 high = a_high * b_high + (middle >> 32) + (other >> 32);

    if (high >> shift)
        return ~0ULL;
    return (high << (64 - shift)) | (((other << 32) | (low & 0xffffffffULL)) >> shift);
}

/* C |t - K|^3 in bytes, for a distance in 2^-CUBIC_TIME_SHIFT s. */
NCC_CC_FN ncc_u64 cubic_rise(const ncc_u64 *p, ncc_u32 mss_bytes, ncc_u64 distance)
{
    ncc_u64 square = cubic_mul_shift(distance, distance, CUBIC_TIME_SHIFT);
    ncc_u64 cube = cubic_mul_shift(square, distance, CUBIC_TIME_SHIFT);

    return ncc_min_u64(cubic_mul_shift(cube, p[CUBIC_C] * mss_bytes, CUBIC_TIME_SHIFT) / 1000, NCC_CC_CWND_MAX);
}

/* K: the cube root of drop / C (RFC 9438 figure 2), bit by bit: the largest K at which C K^3 is at most the drop. The
 * curve then starts at the window, to the last bit of time. There is no branch on the bit, because the kernel's
 * verifier would follow both ways of each, 2^CUBIC_TIME_BITS in all. */
NCC_CC_FN ncc_u64 cubic_root(const ncc_u64 *p, ncc_u32 mss_bytes, ncc_u64 drop_bytes)
{
    ncc_u64 k = 0;
    ncc_u32 bit;

    for (bit = CUBIC_TIME_BITS; bit > 0; --bit) {
        ncc_u64 rise = cubic_rise(p, mss_bytes, k | 1ULL << (bit - 1));

        /* Both are below 2^63, so the top bit of the difference shows if rise <= drop. */
        k |= (rise - drop_bytes - 1) >> 63 << (bit - 1);
    }
    return k;
}

/* W_cubic(t) (RFC 9438 figure 1). */
NCC_CC_FN ncc_u64 cubic_window(const struct cubic_state *s, const ncc_u64 *p, ncc_u64 t_ns)
{
    ncc_u64 t = (ncc_min_u64(t_ns, CUBIC_TIME_MAX_NS) << CUBIC_TIME_SHIFT) / NCC_NS_PER_S;
    ncc_u64 k = s->u.curve.k;

    if (t < k) {
        ncc_u64 below = cubic_rise(p, s->w.mss_bytes, k - t);

        return s->w_max_bytes > below ? s->w_max_bytes - below : 0;
    }
    return ncc_min_u64(s->w_max_bytes + cubic_rise(p, s->w.mss_bytes, t - k), NCC_CC_CWND_MAX);
}

NCC_CC_FN void cubic_init(struct cubic_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    (void)p;
    ncc_reno_init(&s->w, c);
    s->stage = CUBIC_FIRST_SLOW_START;
    ncc_reno_state(&s->w, o);
}

/* Begin a stage at the current window. Without W_max (after a timeout or HyStart++) or above it, the stage begins on
 * the plateau with K = 0 (sections 4.8 and 4.10). */
NCC_CC_FN void cubic_begin(struct cubic_state *s, const ncc_u64 *p)
{
    ncc_u64 cwnd = s->w.cwnd_bytes;

    s->w_max_bytes = ncc_max_u64(s->w_max_bytes, cwnd);
    s->u.curve.t_ns = 0;
    s->u.curve.last_ns = 0;
    s->u.curve.k = cubic_root(p, s->w.mss_bytes, s->w_max_bytes - cwnd);
    s->u.curve.est_bytes = cwnd;
    s->w.credit_bytes = 0;
    s->part_q = 0;
    s->stage = CUBIC_AVOIDANCE;
}

/* W_est (section 4.3): alpha packets per window of acknowledged bytes, a packet at a time. */
NCC_CC_FN void cubic_estimate(struct cubic_state *s, const ncc_u64 *p, ncc_u64 acked)
{
    ncc_u64 need = s->w.cwnd_bytes; /* alpha = 1 */

    if (s->u.curve.est_bytes < s->prior_bytes) /* alpha = 3 (1 - beta) / (1 + beta) */
        need = need * (1000 + p[CUBIC_BETA]) / (3 * (1000 - p[CUBIC_BETA]));
    s->w.credit_bytes += acked;
    if (s->w.credit_bytes >= need) {
        s->w.credit_bytes -= need;
        s->u.curve.est_bytes = ncc_min_u64(s->u.curve.est_bytes + s->w.mss_bytes, NCC_CC_CWND_MAX);
    }
}

NCC_CC_FN void cubic_avoid(struct cubic_state *s, const ncc_u64 *p, const struct ncc_cc_event *e, ncc_u64 acked)
{
    ncc_u64 cwnd = s->w.cwnd_bytes, target, grown_q;

    if (s->stage != CUBIC_AVOIDANCE)
        cubic_begin(s, p);
    if (s->u.curve.last_ns)
        s->u.curve.t_ns = ncc_min_u64(s->u.curve.t_ns + (e->now_ns - s->u.curve.last_ns), CUBIC_TIME_MAX_NS);
    s->u.curve.last_ns = e->now_ns;
    cubic_estimate(s, p, acked);
    if (cubic_window(s, p, s->u.curve.t_ns) < s->u.curve.est_bytes) {
        s->w.cwnd_bytes = ncc_max_u64(cwnd, s->u.curve.est_bytes);
        return;
    }
    target = cubic_window(s, p, s->u.curve.t_ns + ncc_min_u64(e->srtt_ns, CUBIC_TIME_MAX_NS));
    target = ncc_min_u64(ncc_max_u64(target, cwnd), cwnd + cwnd / 2);
    /* (target - cwnd) / cwnd per packet, in bytes. */
    grown_q = (((target - cwnd) << CUBIC_RATIO_SHIFT) / cwnd) * acked + s->part_q;
    s->part_q = (ncc_u32)(grown_q & (CUBIC_RATIO_ONE - 1));
    s->w.cwnd_bytes = ncc_min_u64(cwnd + (grown_q >> CUBIC_RATIO_SHIFT), NCC_CC_CWND_MAX);
}

/* RFC 9406 section 4.2: use the RTT samples of this ACK to judge the round. */
NCC_CC_FN void cubic_hystart_sample(struct cubic_state *s, const struct ncc_cc_event *e)
{
    struct cubic_hystart *h = &s->u.hystart;

    if (!e->rtt_ns)
        return;
    h->rtt_ns = h->rtt_ns ? ncc_min_u64(h->rtt_ns, e->rtt_ns) : e->rtt_ns;
    if (s->samples < CUBIC_RTT_SAMPLES)
        ++s->samples;
    if (s->samples < CUBIC_RTT_SAMPLES)
        return;
    if (s->stage == CUBIC_CONSERVATIVE) {
        if (h->rtt_ns < h->baseline_rtt_ns) /* it was jitter: continue slow start */
            s->stage = CUBIC_FIRST_SLOW_START;
    } else if (h->last_rtt_ns) {
        ncc_u64 rise = ncc_min_u64(ncc_max_u64(h->last_rtt_ns / CUBIC_MIN_RTT_DIVISOR, CUBIC_MIN_RTT_THRESH_NS),
                                   CUBIC_MAX_RTT_THRESH_NS);

        if (h->rtt_ns >= h->last_rtt_ns + rise) {
            h->baseline_rtt_ns = h->rtt_ns;
            s->rounds = 0;
            s->stage = CUBIC_CONSERVATIVE;
        }
    }
}

/* A round ends when data sent at its start is acknowledged. Conservative slow start ends after five rounds. */
NCC_CC_FN void cubic_hystart_round(struct cubic_state *s, const struct ncc_cc_event *e)
{
    struct cubic_hystart *h = &s->u.hystart;

    if (!h->round_end_bytes) /* the first ACK: all data sent so far is the first round */
        h->round_end_bytes = e->nxt_bytes;
    if (e->una_bytes < h->round_end_bytes)
        return;
    if (s->stage == CUBIC_CONSERVATIVE && ++s->rounds >= CUBIC_CSS_ROUNDS) {
        s->w.ssthresh_bytes = s->prior_bytes = s->w.cwnd_bytes;
        s->stage = CUBIC_BETWEEN;
        return;
    }
    h->round_end_bytes = e->nxt_bytes;
    h->last_rtt_ns = h->rtt_ns;
    h->rtt_ns = 0;
    s->samples = 0;
}

NCC_CC_FN void cubic_grow(struct cubic_state *s, const ncc_u64 *p, const struct ncc_cc_event *e)
{
    ncc_u64 acked = ncc_reno_countable(&s->w, e);

    if (s->stage < CUBIC_BETWEEN && p[CUBIC_HYSTART]) {
        cubic_hystart_sample(s, e);
        cubic_hystart_round(s, e);
    }
    if (s->stage == CUBIC_AVOIDANCE && (e->flags & NCC_CC_ACK_APP_LIMITED))
        s->u.curve.last_ns = 0; /* section 5.8: t stands still */
    if (acked && s->w.cwnd_bytes < s->w.ssthresh_bytes) {
        if (s->stage == CUBIC_CONSERVATIVE)
            acked = ncc_min_u64(acked, p[CUBIC_ABC_LIMIT] * s->w.mss_bytes) / CUBIC_CSS_GROWTH_DIVISOR;
        acked = ncc_reno_slow_start(&s->w, acked, p[CUBIC_ABC_LIMIT]);
    }
    if (acked)
        cubic_avoid(s, p, e, acked);
}

/* Set W_max and cwnd_prior for a window that is reduced now (sections 4.6 and 4.7). */
NCC_CC_FN void cubic_remember(struct cubic_state *s, const ncc_u64 *p, ncc_u64 cwnd)
{
    int shrunk = p[CUBIC_FAST_CONVERGENCE] && cwnd < s->w_max_bytes;

    s->w_max_bytes = shrunk ? cwnd * (1000 + p[CUBIC_BETA]) / 2000 : cwnd;
    s->prior_bytes = cwnd;
}

NCC_CC_FN ncc_u64 cubic_target(const struct cubic_state *s, const ncc_u64 *p)
{
    return s->w.cwnd_bytes * p[CUBIC_BETA] / 1000;
}

NCC_CC_FN void cubic_on_ack(struct cubic_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                            const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)c;
    ncc_reno_advance(&s->w, e);
    if (ncc_reno_ecn_due(&s->w, e)) {
        ncc_u64 cwnd = s->w.cwnd_bytes, target = cubic_target(s, p);

        if (ncc_reno_cut(&s->w, e, target, p[CUBIC_MIN_CWND])) {
            cubic_remember(s, p, cwnd);
            /* Section 4.6: marks reduce the window to one packet, unlike ssthresh. */
            s->w.cwnd_bytes = ncc_max_u64(target, s->w.mss_bytes);
        }
        s->stage = CUBIC_BETWEEN;
    } else {
        cubic_grow(s, p, e);
    }
    ncc_reno_state(&s->w, o);
}

NCC_CC_FN void cubic_on_loss(struct cubic_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                             const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    ncc_u64 cwnd = s->w.cwnd_bytes;

    (void)c;
    if (ncc_reno_loss_to(&s->w, e, cubic_target(s, p), p[CUBIC_MIN_CWND]))
        cubic_remember(s, p, cwnd);
    s->stage = CUBIC_BETWEEN;
    ncc_reno_state(&s->w, o);
}

/* Section 4.8: like Reno, with beta; the next avoidance starts on its own plateau. */
NCC_CC_FN void cubic_on_timeout(struct cubic_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    ncc_u64 cwnd = s->w.cwnd_bytes;

    (void)c;
    if (ncc_reno_timeout_to(&s->w, e, cubic_target(s, p), p[CUBIC_MIN_CWND]))
        s->prior_bytes = cwnd;
    s->w_max_bytes = 0;
    s->stage = CUBIC_BETWEEN;
    ncc_reno_state(&s->w, o);
}

/* Section 5.8: t stands still (Linux: cubictcp_cwnd_event shifts the epoch). */
NCC_CC_FN void cubic_on_restart(struct cubic_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)p;
    if (s->stage == CUBIC_AVOIDANCE)
        s->u.curve.last_ns = 0;
    ncc_reno_restart(&s->w, c, e);
    ncc_reno_state(&s->w, o);
}

NCC_CC_REGISTER(cubic, NCC_CC_ECN_CLASSIC, "CUBIC (RFC 9438) with HyStart++ (RFC 9406) and ECN (RFC 3168)")

#endif
