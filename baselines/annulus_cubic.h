/* SPDX-License-Identifier: BSD-3-Clause */
/* Annulus over CUBIC, for traffic between datacentres. Its packets are not ECN-capable, so that no switch marks them.
 * See annulus.h and cards/annulus_dctcp.md. */
#ifndef NCC_ANNULUS_CUBIC_H
#define NCC_ANNULUS_CUBIC_H

#include "annulus.h"
#include "cubic.h"

static const struct ncc_cc_param annulus_cubic_params[] = {CUBIC_PARAMS, ANNULUS_PARAMS};

ANNULUS_OVER(annulus_cubic, cubic, CUBIC_MIN_CWND + 1)
NCC_CC_REGISTER_WITH(annulus_cubic, NCC_CC_ECN_NONE, NCC_CC_SIGNALS,
                     "Annulus (Saeed et al. 2020, algorithm 1) over CUBIC without ECN: QCN's signals near the source")

#endif
