/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries whose answers fit the port (ours): what is asked for and has not come is at most what the line carries in a
 * base RTT and a share A of the port's buffer, and queries leave no faster than the line takes their answers.
 *
 *   window = (rate x base RTT + A x buffer) / bytes of an answer,      pace = bytes of an answer / rate
 *
 * It is NCC's rule of receivers (receivers.h) at the place where it can act on answers of one packet. The bytes of an
 * answer are a moving average with weight 1/16, with those that a query itself costs the port: a SYN-ACK and an ACK.
 */
#ifndef NCC_FRONT_FITS_H
#define NCC_FRONT_FITS_H

#include "front.h"

static const struct ncc_cc_param fits_params[] = {
    {"ahead_permille", 600, 0, 1000, "1/1000; A, share of the buffer that answers may fill (as ReceiverRule's)"},
    {"query_bytes", 156, 0, 100000, "bytes that a query costs the port on the line: a SYN-ACK and an ACK"},
};

struct fits_state {
    ncc_u64 mean_q4; /* bytes of an answer, in units of 1/16 */
};

NCC_CC_FN void fits_decide(const struct fits_state *s, const ncc_u64 *p, const struct ncc_front *f,
                           struct ncc_front_out *o)
{
    const ncc_u64 each = s->mean_q4 / 16 + p[1];
    const ncc_u64 room = f->rate_bytes_per_s / 1000 * f->base_rtt_ns / 1000000 + f->buffer_bytes * p[0] / 1000;
    ncc_u64 window_q16 = ncc_min_u64(room, 1ULL << 40) * NCC_FRONT_ONE / each;

    o->window = ncc_front_window(&window_q16, 2);
    o->pace_ns = each * NCC_NS_PER_S / f->rate_bytes_per_s;
}

NCC_CC_FN void fits_init(struct fits_state *s, const ncc_u64 *p, const struct ncc_front *f, struct ncc_front_out *o)
{
    s->mean_q4 = 16 * f->packet_bytes;
    fits_decide(s, p, f, o);
}

NCC_CC_FN void fits_answered(struct fits_state *s, const ncc_u64 *p, const struct ncc_front *f,
                             const struct ncc_front_answer *a, struct ncc_front_out *o)
{
    s->mean_q4 = s->mean_q4 - s->mean_q4 / 16 + ncc_min_u64(a->wire_bytes, 1ULL << 33);
    fits_decide(s, p, f, o);
}

NCC_FRONT_REGISTER(fits, "answers that fit the port: rate x base RTT + A x buffer, paced at its rate (ours)")

#endif
