/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PowerTCP: Addanki et al., NSDI 2022, Algorithm 1. Power is current x voltage: the rate at which bytes come to a port,
 * times its queue and the path's bandwidth-delay product. The sender computes it from telemetry (int.h), divides the
 * window of a round trip ago by its ratio to the power of a full link without a queue, and adds beta. N flows settle at
 * a queue of N beta. powertcp_delay.h needs no telemetry. See cards/powertcp.md.
 */
#ifndef NCC_POWERTCP_H
#define NCC_POWERTCP_H

#include "path_window.h"

/* Parameters of both forms. */
#define POWERTCP_PARAMS                                                                                                \
    NCC_PATH_PARAM_BASE_RTT,                                                                                           \
        {"gamma_permille", 900, 100, 1000, "1/1000: gamma, weight of a new window (section 3.3: 0.9)"},                \
        {"flows", 10, 1, 100000,                                                                                       \
         "N of beta = line x T / N: flows that share a host's line (section 3.3; 10 is ours)"},                        \
        {"beta_kbps", 0, 0, 100000000, "kbit/s: beta / T in place of line / N, as in the released code; 0: line / N"}, \
        {"gradient", 1, 0, 1,                                                                                          \
         "1: a queue's growth is part of the current, as printed; 0: not, as in the released code"},                   \
        {"target_permille", 1000, 500, 2000,                                                                           \
         "1/1000: normalised power at which a window keeps its size; 1000 as in the paper, others in released code"}
enum { POWERTCP_BASE_RTT, POWERTCP_GAMMA, POWERTCP_FLOWS, POWERTCP_BETA_KBPS, POWERTCP_GRADIENT, POWERTCP_TARGET };

static const struct ncc_cc_param powertcp_params[] = {POWERTCP_PARAMS};

struct powertcp_state {
    struct ncc_path_window w;
    struct ncc_path_hops hops;
};

/* UPDATEWINDOW: cwnd = gamma (cwnd_old / power + beta) + (1 - gamma) cwnd. A window that is not full does not grow. */
NCC_CC_FN void powertcp_window(struct ncc_path_window *w, const ncc_u64 *p, const struct ncc_cc_conn *c,
                               const struct ncc_cc_event *e, ncc_u64 base_ns)
{
    const ncc_u64 line = p[POWERTCP_BETA_KBPS] ? p[POWERTCP_BETA_KBPS] * 125 : ncc_path_line(c) / p[POWERTCP_FLOWS];
    const ncc_u64 beta = ncc_path_carries_64th(line, base_ns) / 64;
    const ncc_u64 target = (p[POWERTCP_TARGET] << NCC_PATH_SHIFT) / 1000;
    const ncc_u64 fresh = ncc_min_u64(w->reference_bytes * target / w->load_q20 + beta, NCC_CC_CWND_MAX);

    const ncc_u64 cwnd =
        ncc_path_clamp(c, (p[POWERTCP_GAMMA] * fresh + (1000 - p[POWERTCP_GAMMA]) * w->cwnd_bytes) / 1000);

    if (!(e->flags & NCC_CC_ACK_APP_LIMITED) || cwnd < w->cwnd_bytes)
        w->cwnd_bytes = cwnd;
}

/* NORMPOWER: the smoothed power of the port with the most. Returns true if it was updated. */
NCC_CC_FN int powertcp_measure(struct powertcp_state *s, const ncc_u64 *p, const struct ncc_cc_event *e,
                               ncc_u64 base_ns)
{
    const int same = ncc_path_same(&s->w, e);
    ncc_u64 most = 0, over_ns = 0;

    for (ncc_u32 i = 0; i < NCC_CC_HOPS_MAX && i < e->n_hops; ++i) {
        const struct ncc_cc_hop *hop = &e->hops[i];
        const ncc_u32 dt = (ncc_u32)hop->at_ns - s->hops.at_ns[i];

        if (same && dt && dt < 1U << 31) {
            /* Current x dt: bytes that came are those that left and those by which the queue grew. */
            const ncc_u64 sent = (ncc_u32)hop->tx_bytes - s->hops.tx_bytes[i];
            const ncc_u64 in = sent + ncc_min_u64(hop->queue_bytes, 0xffffffffU);
            const ncc_u64 before = s->hops.queue_bytes[i];
            const ncc_u64 came = !p[POWERTCP_GRADIENT] ? sent : in > before ? in - before : 0;
            const ncc_u64 current =
                ncc_min_u64((came << 26) / ncc_path_carries_64th(hop->rate_bytes_per_s, dt), NCC_PATH_LOAD_MAX);
            const ncc_u64 voltage = ncc_min_u64((ncc_min_u64(hop->queue_bytes, 0xffffffffU) << 26) /
                                                        ncc_path_carries_64th(hop->rate_bytes_per_s, base_ns) +
                                                    NCC_PATH_ONE,
                                                1ULL << 32);
            const ncc_u64 power = current * voltage >> NCC_PATH_SHIFT; /* over b^2 T */

            if (power > most) {
                most = power;
                over_ns = dt;
            }
        }
        ncc_path_remember(&s->hops, e, i);
    }
    if (!over_ns)
        return 0;
    ncc_path_smooth(&s->w, most, over_ns, base_ns);
    return 1;
}

NCC_CC_FN void powertcp_init(struct powertcp_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                             struct ncc_cc_out *o)
{
    ncc_path_init(&s->w, c, p[POWERTCP_BASE_RTT], o);
}

NCC_CC_FN void powertcp_out(const struct ncc_path_window *w, const ncc_u64 *p, const struct ncc_cc_conn *c,
                            struct ncc_cc_out *o)
{
    ncc_path_out(w, c, ncc_path_base(w, p[POWERTCP_BASE_RTT]), o);
}

NCC_CC_FN void powertcp_on_ack(struct powertcp_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                               const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    const int repair = ncc_path_acked(&s->w, c, e);
    const ncc_u64 base_ns = ncc_path_base(&s->w, p[POWERTCP_BASE_RTT]);

    if (e->n_hops && base_ns && powertcp_measure(s, p, e, base_ns) && !repair) {
        powertcp_window(&s->w, p, c, e, base_ns);
        if (ncc_path_round(&s->w, e))
            s->w.reference_bytes = s->w.cwnd_bytes; /* UPDATEOLD */
    }
    powertcp_out(&s->w, p, c, o);
}

NCC_CC_FN void powertcp_on_loss(struct powertcp_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)e;
    powertcp_out(&s->w, p, c, o);
}

NCC_CC_FN void powertcp_on_timeout(struct powertcp_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                   const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)e;
    ncc_path_timeout(&s->w, c);
    powertcp_out(&s->w, p, c, o);
}

/* Telemetry from before a pause says nothing about the path now. */
NCC_CC_FN void powertcp_on_restart(struct powertcp_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                   const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    if (e->idle_rtos)
        s->w.n_hops = 0;
    powertcp_out(&s->w, p, c, o);
}

NCC_CC_NO_SIGNAL(powertcp)
NCC_CC_NO_TIMER(powertcp)
NCC_CC_REGISTER_WITH(powertcp, NCC_CC_ECN_NONE, NCC_CC_HOPS,
                     "PowerTCP (Addanki et al. 2022): power of queues by telemetry of ports that run int, paced")

#endif
