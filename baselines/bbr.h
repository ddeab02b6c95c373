/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BBR version 1: draft-cardwell-iccrg-bbr-congestion-control-00, and Linux' tcp_bbr.c where the two differ. The pacing
 * rate and the window come from a model of the path: the highest delivery rate of ten rounds, and the lowest RTT of ten
 * seconds. Losses change the window only in the round that follows them. See cards/bbr.md.
 */
#ifndef NCC_BBR_H
#define NCC_BBR_H

#include "cc.h"

#define BBR_UNIT_BYTES_PER_S 64U                           /* unit of rates, which 32 bits hold up to 2.2 Tbit/s */
#define BBR_UNITS_NS (NCC_NS_PER_S / BBR_UNIT_BYTES_PER_S) /* 1 byte/ns in this unit */
#define BBR_RATE_MAX 0xFFFFFFFFULL
#define BBR_GAIN_SHIFT 8
#define BBR_GAIN_ONE (1U << BBR_GAIN_SHIFT)
#define BBR_CYCLE 8U      /* phases of PROBE_BW: gains 5/4, 3/4 and six times 1 */
#define BBR_FULL_ROUNDS 3 /* rounds without growth by a quarter: the pipe is full */
#define BBR_MIN_PKTS 4U   /* the window of PROBE_RTT, and the least otherwise */

enum {
    BBR_HIGH_GAIN,
    BBR_CWND_GAIN,
    BBR_RATE_ROUNDS,
    BBR_MIN_RTT_WINDOW,
    BBR_PROBE_RTT_US,
    BBR_PACING_MARGIN,
    BBR_QUANTUM,
    BBR_INIT_RTT,
};

static const struct ncc_cc_param bbr_params[] = {
    {"high_gain", 739, 257, 1024,
     "1/256: gain of STARTUP, its inverse that of DRAIN (draft 4.3.2: 2/ln 2; Linux: 739)"},
    {"cwnd_gain", 512, 256, 2048, "1/256: window over rate x RTT in PROBE_BW (draft 4.2.3.2 and Linux: 2)"},
    {"rate_rounds", 10, 1, 1000, "rounds: window of the maximum of delivery rates (draft 4.1.1.3 and Linux: 10)"},
    {"min_rtt_window_us", 10000000, 1, 4000000000U, "us: window of the minimum RTT (draft 4.1.2.2 and Linux: 10 s)"},
    {"probe_rtt_us", 200000, 0, 10000000, "us: length of PROBE_RTT; 0: never (draft 4.3.5 and Linux: 200 ms)"},
    {"pacing_margin_pct", 1, 0, 50, "%: paced below the estimated rate (Linux and ns-3: 1; the draft: 0)"},
    {"quantum_pkts", 1, 1, 127, "packets: largest burst of the host, three of which fit the window (Linux: TSO size)"},
    {"init_rtt_us", 1000, 1, 1000000, "us: RTT that paces the first window (draft 4.2.1 and Linux: 1 ms)"},
};

enum bbr_mode { BBR_STARTUP, BBR_DRAIN, BBR_PROBE_BW, BBR_PROBE_RTT };

enum bbr_flags {
    BBR_FULL = 1,         /* the pipe has been filled */
    BBR_SEEN_RTT = 2,     /* the initial pacing rate has its RTT */
    BBR_REPAIRING = 4,    /* a loss or timeout, and no ACK beyond recovery since */
    BBR_CONSERVE = 8,     /* first round of a recovery: send as much as arrives */
    BBR_ROUND_DONE = 16,  /* PROBE_RTT has lasted a round */
    BBR_IDLE = 32,        /* nothing is in flight for lack of data */
    BBR_ROUND_START = 64, /* this ACK begins a round */
    BBR_LIMITED = 128,    /* this ACK's rate sample is application-limited */
};

struct bbr_peak {
    ncc_u32 round, rate;
};

struct bbr_state {
    ncc_u64 cwnd_bytes;
    ncc_u64 prior_cwnd_bytes; /* before the last loss or PROBE_RTT */
    ncc_u64 round_end_bytes;  /* delivered when this round began; data sent later ends it */
    ncc_u64 phase_ns;         /* start of a phase of PROBE_BW; end of PROBE_RTT, 0: not yet known */
    ncc_u64 min_rtt_stamp_ns; /* time at which min_rtt_ns was measured */
    ncc_u64 dip_from_bytes;   /* packets sent at [from, until] delivered bytes met the window of PROBE_RTT, ... */
    ncc_u64 dip_until_bytes;  /* ... so their rates are application-limited */
    struct bbr_peak peaks[3]; /* highest rates in the window, by age */
    ncc_u32 round;            /* count */
    ncc_u32 full_rate;        /* rate in STARTUP when it last grew by a quarter */
    ncc_u32 pacing_rate;
    ncc_u32 min_rtt_ns; /* 0: none */
    ncc_u32 random;
    ncc_u8 mode, phase, full_rounds, flags;
};

NCC_CC_FN ncc_u32 bbr_clamp(ncc_u64 rate) { return (ncc_u32)ncc_min_u64(rate, BBR_RATE_MAX); }

/* Rate of `bytes` in `ns`; 2^40 bytes x BBR_UNITS_NS fit 64 bits. */
NCC_CC_FN ncc_u32 bbr_rate(ncc_u64 bytes, ncc_u64 ns)
{
    return bbr_clamp(ncc_min_u64(bytes, NCC_CC_CWND_MAX) * BBR_UNITS_NS / ncc_max_u64(ns, 1));
}

/*
 * Maximum over the last `window` rounds: the three highest, each after the one before it (K. Nichols' filter, Linux'
 * win_minmax). A second and third choice are taken anew each quarter and half of the window.
 */
NCC_CC_FN void bbr_peak(struct bbr_peak *peaks, ncc_u32 round, ncc_u32 rate, ncc_u64 window)
{
    struct bbr_peak now = {round, rate};

    if (rate >= peaks[0].rate || round - peaks[2].round > window) {
        peaks[0] = peaks[1] = peaks[2] = now;
        return;
    }
    if (rate >= peaks[1].rate)
        peaks[1] = peaks[2] = now;
    else if (rate >= peaks[2].rate)
        peaks[2] = now;
    for (int i = 0; i < 2 && round - peaks[0].round > window; ++i) {
        peaks[0] = peaks[1];
        peaks[1] = peaks[2];
        peaks[2] = now;
    }
    ncc_u32 age = round - peaks[0].round;

    if (peaks[1].round == peaks[0].round && age > window / 4)
        peaks[1] = peaks[2] = now;
    else if (peaks[2].round == peaks[1].round && age > window / 2)
        peaks[2] = now;
}

NCC_CC_FN ncc_u64 bbr_pacing_gain(const struct bbr_state *s, const ncc_u64 *p)
{
    if (s->mode == BBR_STARTUP)
        return p[BBR_HIGH_GAIN];
    if (s->mode == BBR_DRAIN)
        return BBR_GAIN_ONE * BBR_GAIN_ONE / p[BBR_HIGH_GAIN];
    if (s->mode == BBR_PROBE_BW && s->phase < 2)
        return s->phase ? BBR_GAIN_ONE * 3 / 4 : BBR_GAIN_ONE * 5 / 4;
    return BBR_GAIN_ONE;
}

/* rate x RTT x gain, and room for the bursts of both ends, in bytes (draft 4.2.3.2, with Linux' quantization). */
NCC_CC_FN ncc_u64 bbr_inflight(const struct bbr_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, ncc_u64 gain)
{
    ncc_u64 pair = 2ULL * c->mss_bytes, bytes = c->init_cwnd_bytes;

    if (s->min_rtt_ns) {
        ncc_u64 bdp = ((ncc_u64)s->peaks[0].rate * s->min_rtt_ns + BBR_UNITS_NS - 1) / BBR_UNITS_NS;

        bytes = (bdp * gain + BBR_GAIN_ONE - 1) >> BBR_GAIN_SHIFT;
    }
    bytes += 3 * p[BBR_QUANTUM] * c->mss_bytes;
    bytes = (bytes + pair - 1) / pair * pair; /* an even number of packets: a delayed ACK waits for the second */
    return s->mode == BBR_PROBE_BW && s->phase == 0 ? bytes + pair : bytes;
}

NCC_CC_FN void bbr_pace(struct bbr_state *s, const ncc_u64 *p, ncc_u64 rate, ncc_u64 gain)
{
    ncc_u64 paced = (rate * gain >> BBR_GAIN_SHIFT) * (100 - p[BBR_PACING_MARGIN]) / 100;

    s->pacing_rate = bbr_clamp(ncc_max_u64(paced, 1));
}

NCC_CC_FN void bbr_out(const struct bbr_state *s, struct ncc_cc_out *o)
{
    o->cwnd_bytes = s->cwnd_bytes;
    o->ssthresh_bytes = s->flags & BBR_FULL ? s->cwnd_bytes : NCC_CC_CWND_MAX;
    o->pacing_bytes_per_s = (ncc_u64)s->pacing_rate * BBR_UNIT_BYTES_PER_S;
}

NCC_CC_FN void bbr_init(struct bbr_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    s->cwnd_bytes = ncc_max_u64(c->init_cwnd_bytes, c->mss_bytes);
    s->dip_from_bytes = 1; /* larger than dip_until_bytes: none */
    bbr_pace(s, p, bbr_rate(s->cwnd_bytes, p[BBR_INIT_RTT] * 1000), p[BBR_HIGH_GAIN]);
    bbr_out(s, o);
}

NCC_CC_FN void bbr_next_phase(struct bbr_state *s, const struct ncc_cc_event *e)
{
    s->phase = (ncc_u8)((s->phase + 1U) % BBR_CYCLE);
    s->phase_ns = e->now_ns;
}

/* Enter PROBE_BW in a phase other than 3/4, by a hash of time and measurements; or go back to STARTUP. */
NCC_CC_FN void bbr_resume(struct bbr_state *s, const struct ncc_cc_event *e)
{
    if (!(s->flags & BBR_FULL)) {
        s->mode = BBR_STARTUP;
        return;
    }
    ncc_u64 mixed = (e->now_ns + s->random + s->min_rtt_ns) * 0x9E3779B97F4A7C15ULL;

    s->random = (ncc_u32)((mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9ULL >> 32);
    s->mode = BBR_PROBE_BW;
    s->phase = (ncc_u8)(BBR_CYCLE - 1 - ((ncc_u64)s->random * (BBR_CYCLE - 1) >> 32));
    bbr_next_phase(s, e);
}

/* The end of PROBE_RTT. */
NCC_CC_FN void bbr_end_dip(struct bbr_state *s, const struct ncc_cc_event *e)
{
    s->min_rtt_stamp_ns = e->now_ns;
    s->cwnd_bytes = ncc_max_u64(s->cwnd_bytes, s->prior_cwnd_bytes);
    bbr_resume(s, e);
}

/* Draft 4.1.1: rounds, and the delivery rate. */
NCC_CC_FN void bbr_update_rate(struct bbr_state *s, const ncc_u64 *p, const struct ncc_cc_event *e)
{
    s->flags &= (ncc_u8) ~(BBR_ROUND_START | BBR_LIMITED);
    if (!e->interval_ns || e->prior_delivered_bytes > e->total_delivered_bytes)
        return;
    if ((e->flags & NCC_CC_ACK_RATE_APP_LIMITED) ||
        (e->prior_delivered_bytes >= s->dip_from_bytes && e->prior_delivered_bytes <= s->dip_until_bytes))
        s->flags |= BBR_LIMITED;
    if (e->prior_delivered_bytes >= s->round_end_bytes) {
        s->round_end_bytes = e->total_delivered_bytes;
        ++s->round;
        s->flags = (ncc_u8)((s->flags & ~BBR_CONSERVE) | BBR_ROUND_START);
    }
    ncc_u32 rate = bbr_rate(e->total_delivered_bytes - e->prior_delivered_bytes, e->interval_ns);

    if (!(s->flags & BBR_LIMITED) || rate >= s->peaks[0].rate)
        bbr_peak(s->peaks, s->round, rate, p[BBR_RATE_ROUNDS]);
}

/* Draft 4.3.4.3: a phase lasts min_rtt; 5/4 until it has filled the pipe or lost, 3/4 at most until it is drained. */
NCC_CC_FN void bbr_update_phase(struct bbr_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                const struct ncc_cc_event *e)
{
    if (s->mode != BBR_PROBE_BW)
        return;
    ncc_u64 gain = bbr_pacing_gain(s, p);
    ncc_u64 before = e->inflight_bytes + e->delivered_bytes + e->lost_bytes; /* in flight before this ACK */
    int over = e->now_ns - s->phase_ns > s->min_rtt_ns;

    if (gain > BBR_GAIN_ONE)
        over = over && (e->lost_bytes || before >= bbr_inflight(s, p, c, gain));
    else if (gain < BBR_GAIN_ONE)
        over = over || before <= bbr_inflight(s, p, c, BBR_GAIN_ONE);
    if (over)
        bbr_next_phase(s, e);
}

/* Draft 4.3.2 and 4.3.3: STARTUP until the rate has stopped growing, DRAIN until its queue is gone. */
NCC_CC_FN void bbr_update_full(struct bbr_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                               const struct ncc_cc_event *e)
{
    if (!(s->flags & (BBR_FULL | BBR_LIMITED)) && (s->flags & BBR_ROUND_START)) {
        if ((ncc_u64)s->peaks[0].rate * 4 >= (ncc_u64)s->full_rate * 5) {
            s->full_rate = s->peaks[0].rate;
            s->full_rounds = 0;
        } else if (++s->full_rounds >= BBR_FULL_ROUNDS) {
            s->flags |= BBR_FULL;
        }
    }
    if (s->mode == BBR_STARTUP && (s->flags & BBR_FULL))
        s->mode = BBR_DRAIN;
    if (s->mode == BBR_DRAIN && e->inflight_bytes <= bbr_inflight(s, p, c, BBR_GAIN_ONE))
        bbr_resume(s, e);
}

/* Draft 4.1.2 and 4.3.5: the lowest RTT, and a dip of the window to measure it when it is old. */
NCC_CC_FN void bbr_update_min_rtt(struct bbr_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                  const struct ncc_cc_event *e)
{
    int expired = s->min_rtt_ns && e->now_ns > s->min_rtt_stamp_ns + p[BBR_MIN_RTT_WINDOW] * 1000;

    if (e->rtt_ns && (!s->min_rtt_ns || e->rtt_ns <= s->min_rtt_ns || expired)) {
        s->min_rtt_ns = (ncc_u32)ncc_min_u64(e->rtt_ns, 0xFFFFFFFFULL);
        s->min_rtt_stamp_ns = e->now_ns;
    }
    if (p[BBR_PROBE_RTT_US] && expired && !(s->flags & BBR_IDLE) && s->mode != BBR_PROBE_RTT) {
        s->mode = BBR_PROBE_RTT;
        s->prior_cwnd_bytes = ncc_max_u64(s->prior_cwnd_bytes, s->cwnd_bytes);
        s->phase_ns = 0;
        s->dip_from_bytes = e->total_delivered_bytes;
    }
    if (s->mode != BBR_PROBE_RTT)
        return;
    s->dip_until_bytes = e->total_delivered_bytes + e->inflight_bytes;
    if (!s->phase_ns) {
        if (e->inflight_bytes <= (ncc_u64)BBR_MIN_PKTS * c->mss_bytes) {
            s->phase_ns = e->now_ns + p[BBR_PROBE_RTT_US] * 1000;
            s->flags &= (ncc_u8)~BBR_ROUND_DONE;
            s->round_end_bytes = e->total_delivered_bytes;
        }
        return;
    }
    if (s->flags & BBR_ROUND_START)
        s->flags |= BBR_ROUND_DONE;
    if ((s->flags & BBR_ROUND_DONE) && e->now_ns > s->phase_ns)
        bbr_end_dip(s, e);
}

/* Draft 4.2.1. Before the pipe is full the rate only grows; the first RTT replaces the guess of init. */
NCC_CC_FN void bbr_set_pacing(struct bbr_state *s, const ncc_u64 *p, const struct ncc_cc_event *e)
{
    ncc_u32 before;

    if (!(s->flags & BBR_SEEN_RTT) && e->srtt_ns) {
        s->flags |= BBR_SEEN_RTT;
        bbr_pace(s, p, bbr_rate(s->cwnd_bytes, e->srtt_ns), p[BBR_HIGH_GAIN]);
    }
    before = s->pacing_rate;
    bbr_pace(s, p, s->peaks[0].rate, bbr_pacing_gain(s, p));
    if (!(s->flags & BBR_FULL) && s->pacing_rate < before)
        s->pacing_rate = before;
}

/* Draft 4.2.3: approach the target by acknowledged bytes; after losses send as much as arrives, then restore. */
NCC_CC_FN void bbr_set_cwnd(struct bbr_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                            const struct ncc_cc_event *e)
{
    ncc_u64 cwnd = s->cwnd_bytes, acked = ncc_min_u64(e->delivered_bytes, NCC_CC_CWND_MAX);
    ncc_u64 least = (ncc_u64)BBR_MIN_PKTS * c->mss_bytes;

    if (acked) {
        cwnd = cwnd > e->lost_bytes + c->mss_bytes ? cwnd - e->lost_bytes : c->mss_bytes;
        if ((s->flags & BBR_REPAIRING) && !(e->flags & NCC_CC_ACK_IN_RECOVERY)) {
            s->flags &= (ncc_u8) ~(BBR_REPAIRING | BBR_CONSERVE);
            cwnd = ncc_max_u64(cwnd, s->prior_cwnd_bytes);
        }
        if (s->flags & BBR_CONSERVE) {
            cwnd = ncc_max_u64(cwnd, e->inflight_bytes + acked);
        } else {
            ncc_u64 gain = s->mode == BBR_PROBE_BW    ? p[BBR_CWND_GAIN]
                           : s->mode == BBR_PROBE_RTT ? BBR_GAIN_ONE
                                                      : p[BBR_HIGH_GAIN];
            ncc_u64 target = bbr_inflight(s, p, c, gain);

            if (s->flags & BBR_FULL)
                cwnd = ncc_min_u64(cwnd + acked, target);
            else if (cwnd < target || e->total_delivered_bytes < c->init_cwnd_bytes)
                cwnd += acked;
            cwnd = ncc_max_u64(cwnd, least);
        }
    }
    if (s->mode == BBR_PROBE_RTT)
        cwnd = ncc_min_u64(cwnd, least);
    s->cwnd_bytes = ncc_min_u64(cwnd, NCC_CC_CWND_MAX);
}

/* Restarting from idle, at the estimated rate and without a dip (draft 4.3.4.4). */
NCC_CC_FN void bbr_idle(struct bbr_state *s, const ncc_u64 *p)
{
    s->flags |= BBR_IDLE;
    if (s->mode == BBR_PROBE_BW)
        bbr_pace(s, p, s->peaks[0].rate, BBR_GAIN_ONE);
}

NCC_CC_FN void bbr_on_ack(struct bbr_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                          const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    bbr_update_rate(s, p, e);
    bbr_update_phase(s, p, c, e);
    bbr_update_full(s, p, c, e);
    bbr_update_min_rtt(s, p, c, e);
    if (e->interval_ns)
        s->flags &= (ncc_u8)~BBR_IDLE;
    bbr_set_pacing(s, p, e);
    bbr_set_cwnd(s, p, c, e);
    if (!e->inflight_bytes && (e->flags & NCC_CC_ACK_APP_LIMITED) && (e->flags & NCC_CC_ACK_RATE_APP_LIMITED))
        bbr_idle(s, p);
    bbr_out(s, o);
}

/* Save the window from before the loss; then use the bytes in flight and one packet for the repair. */
NCC_CC_FN void bbr_cut(struct bbr_state *s, const struct ncc_cc_conn *c, const struct ncc_cc_event *e)
{
    if (!(s->flags & BBR_REPAIRING) && s->mode != BBR_PROBE_RTT)
        s->prior_cwnd_bytes = s->cwnd_bytes;
    else
        s->prior_cwnd_bytes = ncc_max_u64(s->prior_cwnd_bytes, s->cwnd_bytes);
    s->flags |= BBR_REPAIRING;
    s->cwnd_bytes = ncc_min_u64(s->cwnd_bytes, e->inflight_bytes + c->mss_bytes);
}

NCC_CC_FN void bbr_on_loss(struct bbr_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                           const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)p;
    bbr_cut(s, c, e);
    s->flags |= BBR_CONSERVE;
    s->round_end_bytes = e->total_delivered_bytes; /* the round of conservation starts now */
    bbr_out(s, o);
}

NCC_CC_FN void bbr_on_timeout(struct bbr_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                              const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)p;
    bbr_cut(s, c, e);
    s->full_rate = 0;
    bbr_out(s, o);
}

/* The window stays, however long the pause (Linux: tcp_slow_start_after_idle_check spares such controllers). */
NCC_CC_FN void bbr_on_restart(struct bbr_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                              const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)c;
    bbr_idle(s, p);
    if (s->mode == BBR_PROBE_RTT && s->phase_ns && e->now_ns > s->phase_ns)
        bbr_end_dip(s, e);
    bbr_out(s, o);
}

NCC_CC_REGISTER_RATE(bbr, NCC_CC_ECN_NONE, "BBR v1 (draft-cardwell-iccrg-bbr-congestion-control-00, Linux tcp_bbr.c)")

#endif
