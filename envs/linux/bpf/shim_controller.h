/* SPDX-License-Identifier: GPL-2.0-only */
/* The controller of baselines/ that this program is compiled for: NCC_CONTROLLER, from NCC_CONTROLLER_HEADER. */
#ifndef NCC_SHIM_CONTROLLER_H
#define NCC_SHIM_CONTROLLER_H

#include "cc.h"
#undef NCC_CC_TABLE_ /* the header's table, as constants */
#undef NCC_CC_SIMULATED_
#define NCC_CC_SIMULATED_ NCC_CC_TABLE_
#define NCC_CC_TABLE_(name_, ecn_, summary_, needs_)                                                                   \
    enum {                                                                                                             \
        name_##_ecn = (ecn_),                                                                                          \
        name_##_sets_rate = (needs_) & NCC_CC_RATE,                                                                    \
        name_##_n_params = sizeof(name_##_params) / sizeof(name_##_params[0])                                          \
    };                                                                                                                 \
    _Static_assert(sizeof(struct name_##_state) <= NCC_CC_SIM_STATE_MAX, "state is larger than a flow has room for");  \
    _Static_assert(name_##_n_params <= NCC_CC_PARAMS_MAX, "too many parameters");
#include NCC_CONTROLLER_HEADER

#include "shim.h"

#define CC(what) PASTE(NCC_CONTROLLER, what)

/* `values` are written by user space before the program is loaded. */
const volatile struct ncc_params params SEC(".rodata.params") = {};

static __always_inline const ncc_u64 *shim_params(void)
{
    const ncc_u64 *p = (const ncc_u64 *)params.values;

    asm volatile("" : "+r"(p)); /* otherwise the compiler uses the zeros above */
    return p;
}

static __always_inline int shim_proportional(void)
{
    return *(const volatile ncc_u64 *)&params.proportional && !CC(sets_rate);
}

/*
 * Functions that are not static are verified once, for any contents of their arguments. Otherwise a controller with
 * many branches would be verified again for every path that leads to it.
 */
__noinline int shim_cc_init(struct CC(state) * s, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    if (s && c && o)
        CC(init)(s, shim_params(), c, o);
    return 0;
}

#define SHIM_HANDLER(op)                                                                                               \
    __noinline int shim_cc_##op(struct CC(state) * s, const struct ncc_cc_conn *c, const struct ncc_cc_event *e,       \
                                struct ncc_cc_out *o)                                                                  \
    {                                                                                                                  \
        if (s && c && e && o)                                                                                          \
            CC(op)(s, shim_params(), c, e, o);                                                                         \
        return 0;                                                                                                      \
    }
SHIM_HANDLER(on_ack)
SHIM_HANDLER(on_loss)
SHIM_HANDLER(on_timeout)
SHIM_HANDLER(on_restart)
#ifdef NCC_SIGNALS
__noinline int shim_cc_on_signal(struct CC(state) * s, const struct ncc_cc_conn *c, const struct ncc_cc_event *e,
                                 struct ncc_cc_out *o, __u32 value)
{
    const struct ncc_cc_signal signal = {.kind = value >> 8, .value = value & 255};

    if (s && c && e && o)
        CC(on_signal)(s, shim_params(), c, e, &signal, o);
    return 0;
}
#endif

static __always_inline void *shim_state(struct shim_flow *f) { return f->controller; }

#endif
