/* SPDX-License-Identifier: BSD-3-Clause */
/* A constant number of queries outstanding. */
#ifndef NCC_FRONT_FIXED_H
#define NCC_FRONT_FIXED_H

#include "front.h"

static const struct ncc_cc_param fixed_params[] = {
    {"window", 16, 1, NCC_FRONT_WINDOW_MAX, "queries outstanding (ours)"},
};

struct fixed_state {
    ncc_u32 none;
};

NCC_CC_FN void fixed_init(struct fixed_state *s, const ncc_u64 *p, const struct ncc_front *f, struct ncc_front_out *o)
{
    (void)s, (void)f;
    o->window = (ncc_u32)p[0];
}

NCC_CC_FN void fixed_answered(struct fixed_state *s, const ncc_u64 *p, const struct ncc_front *f,
                              const struct ncc_front_answer *a, struct ncc_front_out *o)
{
    (void)s, (void)p, (void)f, (void)a, (void)o;
}

NCC_FRONT_REGISTER(fixed, "a constant number of queries outstanding")

#endif
