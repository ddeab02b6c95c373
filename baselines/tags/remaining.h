/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank by the bytes that a flow has left to deliver (Alizadeh et al., SIGCOMM 2013, pFabric, section 4.1). */
#ifndef NCC_TAG_REMAINING_H
#define NCC_TAG_REMAINING_H

#include "flow_tag.h"

static const struct ncc_cc_param remaining_params[] = {
    {"unit_bytes", 1, 1, 1048576, "bytes to a step of the rank; what is left is rounded up to it"},
};

NCC_CC_FN void remaining_tag(const ncc_u64 *p, const struct ncc_tag_packet *k, struct ncc_tag_out *o)
{
    const ncc_u64 left = (k->size_bytes - k->delivered_bytes + p[0] - 1) / p[0];

    o->rank = (ncc_u32)ncc_min_u64(left, 4294967295ULL);
}

NCC_TAG_REGISTER(remaining, "rank by bytes not yet delivered (Alizadeh 2013, pFabric)")

#endif
