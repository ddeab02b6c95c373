/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract of a front end. A host that asks many servers has one: it decides when a query that is ready leaves, by the
 * answers that have come. It counts queries, not bytes, and knows nothing of TCP. Restricted C: see cc.h.
 *
 * To add one, write `fronts/<name>.h` with NCC_FRONT_REGISTER(<name>, ...) at its end. The build finds it by that line.
 * `one_all`, by which every query leaves at once, needs no state and is part of the datapath.
 */
#ifndef NCC_FRONT_H
#define NCC_FRONT_H

#include "cc.h"

#define NCC_FRONT_STATE_MAX 96
#define NCC_FRONT_WINDOW_MAX (1u << 24)

/* A front end's port, the one from the switch to the host, and its queries. */
struct ncc_front {
    ncc_u64 now_ns;
    ncc_u64 rate_bytes_per_s; /* line of the port, >= 1 */
    ncc_u64 buffer_bytes;     /* longest queue of the port */
    ncc_u64 base_rtt_ns;      /* longest RTT, without queues, to a server that is asked */
    ncc_u64 packet_bytes;     /* full packet on the line */
    ncc_u32 outstanding;      /* queries that have left and are not answered */
    ncc_u32 waiting;          /* queries that are ready and have not left */
};

/* An answer of which all bytes have come. It no longer counts as outstanding. */
struct ncc_front_answer {
    ncc_u64 wire_bytes; /* its packets on the line, headers and frames included */
    ncc_u64 took_ns;    /* time since its query left */
    ncc_u32 late;       /* 1: that is at least the least retransmission timeout, so a packet was probably lost */
};

/* Decisions, which hold until they are changed. All are 0 before init. */
struct ncc_front_out {
    ncc_u32 window;  /* most queries outstanding, <= NCC_FRONT_WINDOW_MAX; 0: no limit */
    ncc_u64 pace_ns; /* least time between two queries; 0: none */
    ncc_u64 tick_ns; /* period of `tick` while a query waits or is outstanding; 0: it is never called */
};

struct ncc_front_ops {
    const char *name;
    const char *summary; /* one line, with the source */
    const struct ncc_cc_param *params;
    ncc_u32 n_params;
    ncc_u32 state_bytes;
    void (*init)(void *s, const ncc_u64 *p, const struct ncc_front *f, struct ncc_front_out *o); /* `s` is zeroed */
    void (*answered)(void *s, const ncc_u64 *p, const struct ncc_front *f, const struct ncc_front_answer *a,
                     struct ncc_front_out *o);
    void (*tick)(void *s, const ncc_u64 *p, const struct ncc_front *f, struct ncc_front_out *o); /* may be null */
};

/* Expects <name>_params[], struct <name>_state, <name>_init and <name>_answered; with _TICK also <name>_tick. */
#define NCC_FRONT_ROW(name_, summary_, tick_)                                                                          \
    NCC_CC_STATIC_ASSERT(sizeof(struct name_##_state) <= NCC_FRONT_STATE_MAX, "too much state");                       \
    NCC_CC_STATIC_ASSERT(sizeof(name_##_params) <= NCC_CC_PARAMS_MAX * sizeof(struct ncc_cc_param),                    \
                         "too many parameters");                                                                       \
    static void name_##_front_init(void *s, const ncc_u64 *p, const struct ncc_front *f, struct ncc_front_out *o)      \
    {                                                                                                                  \
        name_##_init((struct name_##_state *)s, p, f, o);                                                              \
    }                                                                                                                  \
    static void name_##_front_answered(void *s, const ncc_u64 *p, const struct ncc_front *f,                           \
                                       const struct ncc_front_answer *a, struct ncc_front_out *o)                      \
    {                                                                                                                  \
        name_##_answered((struct name_##_state *)s, p, f, a, o);                                                       \
    }                                                                                                                  \
    static const struct ncc_front_ops name_##_front = {#name_,                                                         \
                                                       summary_,                                                       \
                                                       name_##_params,                                                 \
                                                       (ncc_u32)(sizeof(name_##_params) / sizeof(name_##_params[0])),  \
                                                       (ncc_u32)sizeof(struct name_##_state),                          \
                                                       name_##_front_init,                                             \
                                                       name_##_front_answered,                                         \
                                                       tick_};

#ifdef __bpf__
#define NCC_FRONT_REGISTER(name_, summary_)
#define NCC_FRONT_REGISTER_TICK(name_, summary_)
#else
#define NCC_FRONT_REGISTER(name_, summary_) NCC_FRONT_ROW(name_, summary_, 0)
#define NCC_FRONT_REGISTER_TICK(name_, summary_)                                                                       \
    static void name_##_front_tick(void *s, const ncc_u64 *p, const struct ncc_front *f, struct ncc_front_out *o)      \
    {                                                                                                                  \
        name_##_tick((struct name_##_state *)s, p, f, o);                                                              \
    }                                                                                                                  \
    NCC_FRONT_ROW(name_, summary_, name_##_front_tick)
#endif

/* Windows that grow by parts of a query are in units of 2^-16. */
#define NCC_FRONT_ONE 65536ULL

/* Rounds a window down to whole queries, from `least` to the most that is allowed, and keeps it there. */
NCC_CC_FN ncc_u32 ncc_front_window(ncc_u64 *window_q16, ncc_u64 least)
{
    if (*window_q16 < least * NCC_FRONT_ONE)
        *window_q16 = least * NCC_FRONT_ONE;
    if (*window_q16 > NCC_FRONT_WINDOW_MAX * NCC_FRONT_ONE)
        *window_q16 = NCC_FRONT_WINDOW_MAX * NCC_FRONT_ONE;
    return (ncc_u32)(*window_q16 / NCC_FRONT_ONE);
}

#endif
