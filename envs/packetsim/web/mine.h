// SPDX-License-Identifier: BSD-3-Clause
// A controller whose handlers are functions of JavaScript, which the page's user writes (mine.js). Its state is numbers
// of the connection, so that the engine can save and restore it like any other.
#pragma once

#include <emscripten.h>

extern "C" {
#include "cc.h"
}

enum { MINE_KNOB };

static const struct ncc_cc_param mine_params[] = {{"knob", 500, 0, 1000000, "a number that the code has as e.knob"}};

struct mine_state {
    double of[NCC_CC_STATE_MAX / sizeof(double)];
};

// `hook`: place in HOOKS of mine.js; `e` and `o`: numbers in the order of EVENT and OUT there.
EM_JS(void, ncc_mine, (int hook, double *state, const double *e, double *o),
      { Module["mine"](hook, state >> 3, e >> 3, o >> 3); })

NCC_CC_FN void mine_call(int hook, struct mine_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                         const struct ncc_cc_event &e, struct ncc_cc_out *o)
{
    const ncc_u64 numbers[] = {e.now_ns,      e.rtt_ns,         e.min_rtt_ns, e.srtt_ns,          e.delivered_bytes,
                               e.acked_bytes, e.inflight_bytes, e.una_bytes,  e.nxt_bytes,        e.flags,
                               e.idle_rtos,   e.lost_bytes,     c->mss_bytes, c->init_cwnd_bytes, c->line_bytes_per_s,
                               p[MINE_KNOB]};
    double event[sizeof numbers / sizeof *numbers];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
        event[i] = static_cast<double>(numbers[i]);
    }
    double out[3];
    ncc_mine(hook, s->of, event, out);
    o->cwnd_bytes = static_cast<ncc_u64>(out[0]);
    o->ssthresh_bytes = static_cast<ncc_u64>(out[1]);
    o->pacing_bytes_per_s = static_cast<ncc_u64>(out[2]);
}

NCC_CC_FN void mine_init(struct mine_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    mine_call(0, s, p, c, {}, o);
}

#define NCC_MINE(hook_, name_)                                                                                         \
    NCC_CC_FN void mine_##name_(struct mine_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,                   \
                                const struct ncc_cc_event *e, struct ncc_cc_out *o)                                    \
    {                                                                                                                  \
        mine_call(hook_, s, p, c, *e, o);                                                                              \
    }
NCC_MINE(1, on_ack)
NCC_MINE(2, on_loss)
NCC_MINE(3, on_timeout)
NCC_MINE(4, on_restart)
#undef NCC_MINE

NCC_CC_REGISTER(mine, NCC_CC_ECN_DCTCP, "functions of JavaScript")
