// SPDX-License-Identifier: BSD-3-Clause
// A program for tests of ports: every hook, with what it is told. Not among `programs()`.
#pragma once

extern "C" {
#include "switch.h"
}

enum { TEST_PROGRAM_DROP, TEST_PROGRAM_MARK, TEST_PROGRAM_WINDOW, TEST_PROGRAM_TIMER, TEST_PROGRAM_CHANCE };

static const struct ncc_cc_param test_program_params[] = {
    {"drop_every", 0, 0, ~0ULL, "packets: every so many is dropped; 0: none"},
    {"mark_over_bytes", 0, 0, ~0ULL, "bytes left behind above which what leaves is marked; 0: nothing"},
    {"window_bytes", 0, 0, ~0ULL,
     "bytes to which receive windows are lowered while the timer has fired an odd number of times"},
    {"timer_ns", 0, 0, ~0ULL, "ns; 0: off"},
    {"drop_one_in", 0, 0, ~0ULL, "packets: one in so many is dropped, by chance; 0: none"},
};

struct test_program_state {
    ncc_u64 packets, fired;
};

NCC_CC_FN void test_program_init(struct test_program_state *, const ncc_u64 *p, const struct ncc_sw_port *,
                                 struct ncc_sw_out *o)
{
    o->timer_ns = p[TEST_PROGRAM_TIMER];
}

NCC_CC_FN void test_program_enqueue(struct test_program_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                                    struct ncc_sw_packet *, struct ncc_sw_out *o)
{
    if (p[TEST_PROGRAM_DROP] && ++s->packets % p[TEST_PROGRAM_DROP] == 0)
        o->verdict = NCC_DROP;
    if (p[TEST_PROGRAM_CHANCE] && q->random % p[TEST_PROGRAM_CHANCE] == 0)
        o->verdict = NCC_DROP;
}

NCC_CC_FN void test_program_dequeue(struct test_program_state *, const ncc_u64 *p, const struct ncc_sw_port *q,
                                    struct ncc_sw_packet *, struct ncc_sw_out *o)
{
    if (p[TEST_PROGRAM_MARK] && q->queue_bytes > p[TEST_PROGRAM_MARK])
        o->verdict = NCC_MARK;
}

NCC_CC_FN void test_program_reverse(struct test_program_state *s, const ncc_u64 *p, const struct ncc_sw_port *,
                                    struct ncc_sw_packet *k, struct ncc_sw_out *)
{
    if (s->fired % 2)
        k->window_bytes = p[TEST_PROGRAM_WINDOW];
}

/* The next time is drawn, up to twice as long. */
NCC_CC_FN void test_program_timer(struct test_program_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                                  struct ncc_sw_out *o)
{
    ++s->fired;
    o->timer_ns = p[TEST_PROGRAM_TIMER] + q->random % (p[TEST_PROGRAM_TIMER] + 1);
}

NCC_SW_REGISTER(test_program, NCC_SW_ENQUEUE | NCC_SW_DEQUEUE | NCC_SW_REVERSE | NCC_SW_TIMER,
                "every hook, for tests of ports")
