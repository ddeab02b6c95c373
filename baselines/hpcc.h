/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HPCC: Li et al., SIGCOMM 2019, Algorithm 1. Ports write their queues, bytes sent and times into data (int.h). From
 * two such records the sender computes how much of each link's capacity is in flight, U, and holds the fullest link at
 * eta. Losses change no window. See cards/hpcc.md.
 */
#ifndef NCC_HPCC_H
#define NCC_HPCC_H

#include "path_window.h"

enum { HPCC_BASE_RTT, HPCC_ETA, HPCC_MAX_STAGE, HPCC_AI_BYTES, HPCC_AI_KBPS };

static const struct ncc_cc_param hpcc_params[] = {
    NCC_PATH_PARAM_BASE_RTT,
    {"eta_permille", 950, 100, 1000, "1/1000: eta, target of a link's utilisation (section 3.3: 95 %)"},
    {"max_stage", 5, 0, 15, "rounds of additive growth before the window moves to eta: maxStage (section 3.3)"},
    {"ai_bytes", 80, 0, 1000000, "bytes a round: W_AI (section 5.1)"},
    {"ai_kbps", 0, 0, 100000000, "kbit/s added to W_AI / T, as the released code has W_AI in proportion to T; 0: none"},
};

struct hpcc_state {
    struct ncc_path_window w;
    struct ncc_path_hops hops;
};

/* MeasureInflight (lines 1 to 11): U is the smoothed u of the fullest link. Returns true if it was updated. */
NCC_CC_FN int hpcc_measure(struct hpcc_state *s, const struct ncc_cc_event *e, ncc_u64 base_ns)
{
    const int same = ncc_path_same(&s->w, e);
    ncc_u64 fullest = 0, over_ns = 0;

    for (ncc_u32 i = 0; i < NCC_CC_HOPS_MAX && i < e->n_hops; ++i) {
        const struct ncc_cc_hop *hop = &e->hops[i];
        const ncc_u32 dt = (ncc_u32)hop->at_ns - s->hops.at_ns[i];

        if (same && dt && dt < 1U << 31) {
            const ncc_u64 queue = ncc_min_u64(hop->queue_bytes, s->hops.queue_bytes[i]);
            const ncc_u64 sent = (ncc_u32)hop->tx_bytes - s->hops.tx_bytes[i];
            const ncc_u64 u =
                ((queue << 26) / ncc_path_carries_64th(hop->rate_bytes_per_s, base_ns)) + /* line 5: qlen / (B T) */
                ((sent << 26) / ncc_path_carries_64th(hop->rate_bytes_per_s, dt));        /* and txRate / B */

            if (u > fullest) {
                fullest = u;
                over_ns = dt;
            }
        }
        ncc_path_remember(&s->hops, e, i);
    }
    if (!over_ns)
        return 0;
    ncc_path_smooth(&s->w, fullest, over_ns, base_ns);
    return 1;
}

/* ComputeWind (lines 12 to 23). */
NCC_CC_FN void hpcc_window(struct hpcc_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                           const struct ncc_cc_event *e, ncc_u64 base_ns)
{
    struct ncc_path_window *w = &s->w;
    const ncc_u64 eta = (p[HPCC_ETA] << NCC_PATH_SHIFT) / 1000;
    const ncc_u64 ai = p[HPCC_AI_BYTES] + p[HPCC_AI_KBPS] * base_ns / 8000000;
    const int full = w->load_q20 >= eta || w->stage >= p[HPCC_MAX_STAGE];
    ncc_u64 cwnd = w->reference_bytes;

    if (full)
        cwnd = cwnd * eta / w->load_q20;
    cwnd = ncc_path_clamp(c, cwnd + ai);
    if (c->line_bytes_per_s)
        cwnd = ncc_min_u64(cwnd, ncc_path_bdp(c, base_ns)); /* no more than the line's rate, as in released code */
    w->cwnd_bytes = cwnd;
    if (ncc_path_round(w, e)) {
        w->reference_bytes = cwnd;
        w->stage = full ? 0 : (w->stage + 1U) & 15U;
    }
}

NCC_CC_FN void hpcc_init(struct hpcc_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    ncc_path_init(&s->w, c, p[HPCC_BASE_RTT], o);
}

NCC_CC_FN void hpcc_out(const struct hpcc_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    ncc_path_out(&s->w, c, ncc_path_base(&s->w, p[HPCC_BASE_RTT]), o);
}

NCC_CC_FN void hpcc_on_ack(struct hpcc_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                           const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    const int repair = ncc_path_acked(&s->w, c, e);
    const ncc_u64 base_ns = ncc_path_base(&s->w, p[HPCC_BASE_RTT]);

    if (e->n_hops && base_ns && hpcc_measure(s, e, base_ns) && !repair)
        hpcc_window(s, p, c, e, base_ns);
    hpcc_out(s, p, c, o);
}

NCC_CC_FN void hpcc_on_loss(struct hpcc_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                            const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)e;
    hpcc_out(s, p, c, o);
}

NCC_CC_FN void hpcc_on_timeout(struct hpcc_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                               const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)e;
    ncc_path_timeout(&s->w, c);
    hpcc_out(s, p, c, o);
}

/* Telemetry from before a pause says nothing about the path now. */
NCC_CC_FN void hpcc_on_restart(struct hpcc_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                               const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    if (e->idle_rtos)
        s->w.n_hops = 0;
    hpcc_out(s, p, c, o);
}

NCC_CC_NO_SIGNAL(hpcc)
NCC_CC_NO_TIMER(hpcc)
NCC_CC_REGISTER_WITH(hpcc, NCC_CC_ECN_NONE, NCC_CC_HOPS,
                     "HPCC (Li et al. 2019): links at 95 % by telemetry of ports that run int, paced")

#endif
