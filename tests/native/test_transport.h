// SPDX-License-Identifier: BSD-3-Clause
// A message transport for tests of the datapath: each decision of transport.h, in the simplest form. Not among
// `message_transports()`.
#pragma once

extern "C" {
#include "transport.h"
}

enum {
    TEST_TRANSPORT_WINDOW,
    TEST_TRANSPORT_PACE,
    TEST_TRANSPORT_PROBE,
    TEST_TRANSPORT_REVOKE,
    TEST_TRANSPORT_TURN,
    TEST_TRANSPORT_TIMEOUT,
    TEST_TRANSPORT_LATE
};

static const struct ncc_cc_param test_transport_params[] = {
    {"window_pkts", 8, 1, ~0ULL, "packets that may leave unasked, and without an ACK"},
    {"pace_ns", 0, 0, ~0ULL, "ns between permissions; 0: all at once"},
    {"probe", 0, 0, 1, "1: a PROBE follows the first window"},
    {"revoke", 0, 0, 1, "1: the first word voids what is left of the first window"},
    {"turn_ns", 0, 0, ~0ULL,
     "ns between pulls of a receiving host, for the flow with the fewest packets missing; 0: no "
     "pulls, an ACK is a permission"},
    {"timeout_ns", 1000000, 1, ~0ULL, "ns without progress, after which everything without an ACK is sent again"},
    {"late", 0, 0, 1, "1: each ns that data is late when a NACK comes counts as a wasted credit"},
};

struct test_transport_sender {
    ncc_u64 due_ns;
    ncc_u32 pulled, heard, acked;
    ncc_u32 waits; /* timeouts in a row */
};

NCC_CC_FN void test_transport_permit(struct test_transport_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                     ncc_u32 pkts, struct ncc_tp_out *o)
{
    if (pkts && p[TEST_TRANSPORT_PACE])
        s->due_ns = ncc_max_u64(s->due_ns + p[TEST_TRANSPORT_PACE], f->now_ns);
    o->grant.due_ns = s->due_ns;
    o->grant.stamp = s->due_ns;
    o->grant.pkts = pkts;
}

NCC_CC_FN void test_transport_start(struct test_transport_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                    struct ncc_tp_out *o)
{
    test_transport_permit(s, p, f, (ncc_u32)ncc_min_u64(p[TEST_TRANSPORT_WINDOW], f->pkts), o);
    o->grant.flags = NCC_TP_ECT | (p[TEST_TRANSPORT_PROBE] ? NCC_TP_THEN_PROBE : 0);
    o->timer_ns = p[TEST_TRANSPORT_TIMEOUT];
}

NCC_CC_FN void test_transport_heard(struct test_transport_sender *s, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                    const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    o->revoke = p[TEST_TRANSPORT_REVOKE] && !s->heard;
    s->heard = 1;
    if (f->acked > s->acked || k->kind == NCC_TP_NACK) { /* a pull is no progress: it comes whatever was lost */
        o->timer_ns = p[TEST_TRANSPORT_TIMEOUT];
        s->waits = 0;
    }
    s->acked = f->acked;
    if (k->kind == NCC_TP_NACK) {
        o->lost = k->number;
        o->lost_pkts = k->count;
        o->lost_go = 1;
        o->wasted = p[TEST_TRANSPORT_LATE] ? (ncc_u32)f->late_ns : 0;
    } else if (k->kind == NCC_TP_CREDIT && k->count > s->pulled) {
        test_transport_permit(s, p, f, k->count - s->pulled, o);
        s->pulled = k->count;
    } else if (k->kind == NCC_TP_ACK && !p[TEST_TRANSPORT_TURN]) {
        test_transport_permit(s, p, f, 1, o);
    }
}

NCC_CC_FN void test_transport_sender_timer(struct test_transport_sender *s, const ncc_u64 *p,
                                           const struct ncc_tp_flow *f, struct ncc_tp_out *o)
{
    o->revoke = o->timed_out = o->lost_go = 1;
    o->lost = f->below;
    o->lost_pkts = NCC_TP_ALL;
    test_transport_permit(s, p, f, f->again + 1, o);
    o->timer_ns = ncc_tp_wait_ns(p[TEST_TRANSPORT_TIMEOUT], ++s->waits); /* others may share the line */
}

struct test_transport_receiver {
    ncc_u32 pulled;
};

NCC_CC_FN void test_transport_got(struct test_transport_receiver *, const ncc_u64 *p, const struct ncc_tp_flow *f,
                                  const struct ncc_tp_packet *k, struct ncc_tp_out *o)
{
    if (k->kind != NCC_TP_DATA)
        return;
    if (k->flags & NCC_TP_TRIMMED) {
        struct ncc_tp_packet *nack = ncc_tp_say(o, NCC_TP_NACK);
        nack->number = k->number;
        nack->count = 1;
    } else {
        ncc_tp_say(o, NCC_TP_ACK)->number = k->number;
    }
    if (p[TEST_TRANSPORT_TURN])
        o->urgency = f->pkts - f->here + 1;
}

NCC_TP_NO_RECEIVER_TIMER(test_transport)

struct test_transport_host {
    ncc_u64 turns;
};

NCC_CC_FN ncc_u64 test_transport_turn(struct test_transport_host *h, const ncc_u64 *p, const struct ncc_tp_turn *t)
{
    struct test_transport_receiver *s = (struct test_transport_receiver *)t->rcv[0];

    ++h->turns;
    ncc_tp_say(&t->o[0], NCC_TP_CREDIT)->count = ++s->pulled;
    return p[TEST_TRANSPORT_TURN];
}

NCC_TP_REGISTER(test_transport, NCC_TP_TURNS, 1, "every decision, for tests of the datapath")
