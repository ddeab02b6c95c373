/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ICTCP's rule (Wu et al., CoNEXT 2010) applied to queries, as Wang, PhD thesis 2021, sections 3.2 and 4.2 has it: the
 * window counts queries. A slot has two halves. The first half measures how much of 0.9 of the line is free; by that
 * quota the window may grow in the second half. The window shrinks by one query after three slots in a row with
 * less than half of the expected throughput. ICTCP as published limits each connection's receive window
 * (ncc/harness/ictcp.py).
 *
 *   quota = max(0, 0.9 C T - bytes of the first half) / mean bytes of an answer              [queries]
 *   expected = max(measured, window x mean bytes of an answer / mean time of an answer),  gap = 1 - measured / expected
 *
 * The thesis does not say how the quota is used. Here the window grows by one query per answer
 * at first, and by two queries per window once the quota was used up. Ours: a late answer halves the window, because
 * otherwise losses would not count.
 */
#ifndef NCC_FRONT_ICTCP_ASKS_H
#define NCC_FRONT_ICTCP_ASKS_H

#include "front.h"

static const struct ncc_cc_param ictcp_asks_params[] = {
    {"half_slot_rtts", 2, 1, 1000, "base RTTs in half of a slot (wu2010: a slot of 2 RTTs; ours: one half of it)"},
    {"use_permille", 900, 1, 1000, "1/1000 of the line that may be used (wu2010 section 4.2)"},
    {"first_window", 2, 1, NCC_FRONT_WINDOW_MAX, "queries outstanding at first, and at least (wu2010 section 4.4)"},
};

struct ictcp_asks_state {
    ncc_u64 window_q16, quota_q16;
    ncc_u64 slot_bytes, slot_took_ns; /* sums over the answers of this half */
    ncc_u64 cut_ns;
    ncc_u32 slot_answers, low; /* low: slots in a row with a gap above a half */
    ncc_u8 second, ended;      /* second half of a slot; growth by one per answer has ended */
};

NCC_CC_FN void ictcp_asks_init(struct ictcp_asks_state *s, const ncc_u64 *p, const struct ncc_front *f,
                               struct ncc_front_out *o)
{
    s->window_q16 = p[2] * NCC_FRONT_ONE;
    o->window = (ncc_u32)p[2];
    o->tick_ns = p[0] * f->base_rtt_ns + 1;
}

NCC_CC_FN void ictcp_asks_next_half(struct ictcp_asks_state *s, ncc_u8 second)
{
    s->second = second;
    s->slot_bytes = s->slot_took_ns = s->slot_answers = 0;
}

NCC_CC_FN void ictcp_asks_answered(struct ictcp_asks_state *s, const ncc_u64 *p, const struct ncc_front *f,
                                   const struct ncc_front_answer *a, struct ncc_front_out *o)
{
    s->slot_bytes += a->wire_bytes;
    s->slot_took_ns += a->took_ns;
    s->slot_answers++;
    if (a->late) {
        if (f->now_ns - a->took_ns >= s->cut_ns) {
            s->window_q16 /= 2;
            s->cut_ns = f->now_ns;
            s->ended = 1;
        }
    } else if (s->second && s->quota_q16 >= NCC_FRONT_ONE) {
        ncc_u64 up = NCC_FRONT_ONE;

        if (s->ended && s->window_q16 > 2 * NCC_FRONT_ONE)
            up = 2 * NCC_FRONT_ONE * NCC_FRONT_ONE / s->window_q16;
        s->window_q16 += up;
        s->quota_q16 -= up;
    }
    o->window = ncc_front_window(&s->window_q16, p[2]);
    if (!f->outstanding && !f->waiting) { /* the next query begins a slot */
        s->quota_q16 = 0;
        ictcp_asks_next_half(s, 0);
    }
}

NCC_CC_FN void ictcp_asks_tick(struct ictcp_asks_state *s, const ncc_u64 *p, const struct ncc_front *f,
                               struct ncc_front_out *o)
{
    const ncc_u64 each = s->slot_answers ? s->slot_bytes / s->slot_answers : f->packet_bytes;
    const ncc_u64 most = f->rate_bytes_per_s * p[1] / 1000000 * o->tick_ns / 1000000;

    if (!s->second) {
        s->quota_q16 = most > s->slot_bytes ? (most - s->slot_bytes) * NCC_FRONT_ONE / each : 0;
        if (s->quota_q16 < NCC_FRONT_ONE)
            s->ended = 1;
    } else if (s->slot_answers) {
        /* measured < expected / 2, multiplied by the half's length, a slot's answers and their times. */
        const ncc_u64 allowed =
            (s->window_q16 >> 8) * each / 256 * o->tick_ns / (s->slot_took_ns / s->slot_answers + 1);

        s->low = 2 * s->slot_bytes < allowed ? s->low + 1 : 0;
        if (s->low >= 3) {
            s->low = 0;
            s->window_q16 -= s->window_q16 > NCC_FRONT_ONE ? NCC_FRONT_ONE : 0;
        }
    }
    o->window = ncc_front_window(&s->window_q16, p[2]);
    ictcp_asks_next_half(s, s->second ? 0 : 1);
}

NCC_FRONT_REGISTER_TICK(ictcp_asks, "ICTCP's quota of 0.9 of the line, in queries (wang2021 sections 3.2 and 4.2)")

#endif
