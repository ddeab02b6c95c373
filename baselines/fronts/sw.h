/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sliding window of queries (Wang, PhD thesis 2021, sections 3.2 and 4.2): it grows until an answer is late, a
 * sign of congestion, and is then halved. The thesis says "one by one" but not how often. Both readings are here: one
 * per answer, which doubles the window in each RTT, and one per window, as in TCP.
 */
#ifndef NCC_FRONT_SW_H
#define NCC_FRONT_SW_H

#include "front.h"

static const struct ncc_cc_param sw_params[] = {
    {"first_window", 2, 1, NCC_FRONT_WINDOW_MAX, "queries outstanding at first (ours)"},
    {"per_window", 0, 0, 1, "growth by one query 0: per answer; 1: per window of answers (wang2021 section 3.2)"},
};

struct sw_state {
    ncc_u64 window_q16;
    ncc_u64 cut_ns; /* when it was halved; a late answer to an earlier query does not halve it again */
};

NCC_CC_FN void sw_init(struct sw_state *s, const ncc_u64 *p, const struct ncc_front *f, struct ncc_front_out *o)
{
    (void)f;
    s->window_q16 = p[0] * NCC_FRONT_ONE;
    o->window = (ncc_u32)p[0];
}

NCC_CC_FN void sw_answered(struct sw_state *s, const ncc_u64 *p, const struct ncc_front *f,
                           const struct ncc_front_answer *a, struct ncc_front_out *o)
{
    if (!a->late) {
        s->window_q16 += p[1] ? NCC_FRONT_ONE * NCC_FRONT_ONE / s->window_q16 : NCC_FRONT_ONE;
    } else if (f->now_ns - a->took_ns >= s->cut_ns) {
        s->window_q16 /= 2;
        s->cut_ns = f->now_ns;
    }
    o->window = ncc_front_window(&s->window_q16, 1);
}

NCC_FRONT_REGISTER(sw, "sliding window of queries, halved at a late answer (wang2021 sections 3.2 and 4.2)")

#endif
