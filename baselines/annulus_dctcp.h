/* SPDX-License-Identifier: BSD-3-Clause */
/* Annulus over DCTCP, for traffic within a datacentre. See annulus.h and cards/annulus_dctcp.md. */
#ifndef NCC_ANNULUS_DCTCP_H
#define NCC_ANNULUS_DCTCP_H

#include "annulus.h"
#include "dctcp.h"

static const struct ncc_cc_param annulus_dctcp_params[] = {DCTCP_PARAMS, ANNULUS_PARAMS};

ANNULUS_OVER(annulus_dctcp, dctcp, DCTCP_MIN_CWND + 1)
NCC_CC_REGISTER_WITH(annulus_dctcp, NCC_CC_ECN_DCTCP, NCC_CC_SIGNALS,
                     "Annulus (Saeed et al. 2020, algorithm 1) over DCTCP: QCN's signals near the source")

#endif
