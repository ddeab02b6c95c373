/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Theta-PowerTCP: Addanki et al., NSDI 2022, Algorithm 2. PowerTCP without telemetry: the RTT takes the place of the
 * queue, and its gradient that of the queue's. The window changes once per round trip. See cards/powertcp_delay.md.
 */
#ifndef NCC_POWERTCP_DELAY_H
#define NCC_POWERTCP_DELAY_H

#include "powertcp.h"

#define POWERTCP_DELAY_RTT_MAX (1ULL << 40) /* ns; longer samples count as this */

static const struct ncc_cc_param powertcp_delay_params[] = {POWERTCP_PARAMS};

struct powertcp_delay_state {
    struct ncc_path_window w;
    ncc_u64 rtt_ns; /* the sample before; 0: none */
    ncc_u64 at_ns;
};

/* NORMPOWER: (dRTT / dt + 1) RTT / T. The gradient's factor is at least 1/2, as in the released code. */
NCC_CC_FN int powertcp_delay_measure(struct powertcp_delay_state *s, const ncc_u64 *p, const struct ncc_cc_event *e,
                                     ncc_u64 base_ns)
{
    const ncc_u64 rtt = ncc_min_u64(e->rtt_ns, POWERTCP_DELAY_RTT_MAX), before = s->rtt_ns;
    const ncc_u64 dt = ncc_min_u64(e->now_ns - s->at_ns, POWERTCP_DELAY_RTT_MAX);

    if (before && !dt)
        return 0;
    s->rtt_ns = rtt;
    s->at_ns = e->now_ns;
    if (!before)
        return 0;
    const ncc_u64 grown = !p[POWERTCP_GRADIENT] ? dt : dt + rtt > before ? dt + rtt - before : 0;
    const ncc_u64 current =
        ncc_min_u64(ncc_max_u64((grown << NCC_PATH_SHIFT) / dt, NCC_PATH_ONE / 2), NCC_PATH_LOAD_MAX);
    const ncc_u64 voltage = ncc_min_u64((rtt << NCC_PATH_SHIFT) / base_ns, 1ULL << 32);

    ncc_path_smooth(&s->w, current * voltage >> NCC_PATH_SHIFT, dt, base_ns);
    return 1;
}

NCC_CC_FN void powertcp_delay_init(struct powertcp_delay_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                   struct ncc_cc_out *o)
{
    ncc_path_init(&s->w, c, p[POWERTCP_BASE_RTT], o);
}

NCC_CC_FN void powertcp_delay_on_ack(struct powertcp_delay_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                     const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    const int repair = ncc_path_acked(&s->w, c, e);
    const ncc_u64 base_ns = ncc_path_base(&s->w, p[POWERTCP_BASE_RTT]);

    if (e->rtt_ns && base_ns && powertcp_delay_measure(s, p, e, base_ns) && !repair && ncc_path_round(&s->w, e)) {
        powertcp_window(&s->w, p, c, e, base_ns);
        s->w.reference_bytes = s->w.cwnd_bytes;
    }
    powertcp_out(&s->w, p, c, o);
}

NCC_CC_FN void powertcp_delay_on_loss(struct powertcp_delay_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                      const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)e;
    powertcp_out(&s->w, p, c, o);
}

NCC_CC_FN void powertcp_delay_on_timeout(struct powertcp_delay_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                         const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)e;
    ncc_path_timeout(&s->w, c);
    s->rtt_ns = 0;
    powertcp_out(&s->w, p, c, o);
}

/* RTTs from before a pause say nothing about the path now. */
NCC_CC_FN void powertcp_delay_on_restart(struct powertcp_delay_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                         const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    if (e->idle_rtos)
        s->rtt_ns = 0;
    powertcp_out(&s->w, p, c, o);
}

NCC_CC_REGISTER(powertcp_delay, NCC_CC_ECN_NONE,
                "Theta-PowerTCP (Addanki et al. 2022): power of queues by delay and its gradient, paced")

#endif
