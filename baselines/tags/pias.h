/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PIAS (Bai et al., NSDI 2015): a flow begins in the first class and sinks from class to class as it has sent more than
 * each threshold, so that short flows overtake long ones without anybody knowing sizes. The thresholds depend on load
 * and sizes; the defaults are those of the released scripts for web search at 80 %.
 */
#ifndef NCC_TAG_PIAS_H
#define NCC_TAG_PIAS_H

#include "flow_tag.h"

#define NCC_PIAS_HELP "packets of 1460 bytes sent, from which on a flow is a class lower; 0: no further class"
static const struct ncc_cc_param pias_params[] = {
    {"after_1_pkts", 909, 0, 1000000000, NCC_PIAS_HELP},  {"after_2_pkts", 1329, 0, 1000000000, NCC_PIAS_HELP},
    {"after_3_pkts", 1648, 0, 1000000000, NCC_PIAS_HELP}, {"after_4_pkts", 1960, 0, 1000000000, NCC_PIAS_HELP},
    {"after_5_pkts", 2143, 0, 1000000000, NCC_PIAS_HELP}, {"after_6_pkts", 2337, 0, 1000000000, NCC_PIAS_HELP},
    {"after_7_pkts", 2484, 0, 1000000000, NCC_PIAS_HELP},
};

NCC_CC_FN void pias_tag(const ncc_u64 *p, const struct ncc_tag_packet *k, struct ncc_tag_out *o)
{
    o->prio = ncc_tag_class(p, 7, 1460, k->offset_bytes);
}

NCC_TAG_REGISTER(pias, "a class lower after each threshold of bytes sent (Bai 2015, PIAS)")

#endif
