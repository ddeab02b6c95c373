// SPDX-License-Identifier: BSD-3-Clause
// A controller for tests of the datapath: the window and pacing rate it is told, sane or not. Not among `transports()`.
#pragma once

extern "C" {
#include "cc.h"
}

enum { TEST_WINDOW_CWND, TEST_WINDOW_AFTER, TEST_WINDOW_PACING, TEST_WINDOW_SHOW };

static const struct ncc_cc_param test_window_params[] = {
    {"cwnd_bytes", 14600, 0, ~0ULL, "bytes: the window from the given ACK on; 10 packets of 1460 bytes before"},
    {"after_acks", 0, 0, ~0ULL, "ACKs: how many come before it"},
    {"pacing_bytes_per_s", 0, 0, ~0ULL, "bytes/s; 0: unpaced"},
    {"show", 0, 0, 5,
     "in the place of ssthresh: 1: the last RTT sample in ns; 2: una in bytes; 0: the window; of the last telemetry, "
     "3: the number of ports, 4: the last one's queue in bytes, 5: a digest of all that came"},
};

struct test_window_state {
    ncc_u64 acks;
    ncc_u64 shown;
};

NCC_CC_FN void test_window_set(struct test_window_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                               struct ncc_cc_out *o)
{
    o->cwnd_bytes = s->acks < p[TEST_WINDOW_AFTER] ? 10 * c->mss_bytes : p[TEST_WINDOW_CWND];
    o->ssthresh_bytes = p[TEST_WINDOW_SHOW] ? s->shown : o->cwnd_bytes;
    o->pacing_bytes_per_s = p[TEST_WINDOW_PACING];
}

NCC_CC_FN void test_window_init(struct test_window_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                struct ncc_cc_out *o)
{
    test_window_set(s, p, c, o);
}

NCC_CC_FN void test_window_on_ack(struct test_window_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                  const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    ++s->acks;
    if (p[TEST_WINDOW_SHOW] == 2)
        s->shown = e->una_bytes;
    else if (p[TEST_WINDOW_SHOW] < 2 && e->rtt_ns)
        s->shown = e->rtt_ns;
    else if (p[TEST_WINDOW_SHOW] == 3 && e->n_hops)
        s->shown = e->n_hops;
    else if (p[TEST_WINDOW_SHOW] == 4 && e->n_hops)
        s->shown = e->hops[e->n_hops - 1].queue_bytes;
    else if (p[TEST_WINDOW_SHOW] == 5)
        for (ncc_u32 i = 0; i < e->n_hops; ++i)
            s->shown = (s->shown * 31 + e->hops[i].rate_bytes_per_s + 7 * e->hops[i].queue_bytes +
                        3 * e->hops[i].tx_bytes + e->hops[i].at_ns) %
                       4294967291ULL;
    test_window_set(s, p, c, o);
}

NCC_CC_FN void test_window_on_loss(struct test_window_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                   const struct ncc_cc_event *, struct ncc_cc_out *o)
{
    test_window_set(s, p, c, o);
}

NCC_CC_FN void test_window_on_timeout(struct test_window_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                      const struct ncc_cc_event *, struct ncc_cc_out *o)
{
    test_window_set(s, p, c, o);
}

NCC_CC_FN void test_window_on_restart(struct test_window_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                      const struct ncc_cc_event *, struct ncc_cc_out *o)
{
    test_window_set(s, p, c, o);
}

NCC_CC_NO_SIGNAL(test_window)
NCC_CC_NO_TIMER(test_window)
NCC_CC_REGISTER_WITH(test_window, NCC_CC_ECN_NONE, NCC_CC_HOPS, "constant window, for tests of the datapath")
