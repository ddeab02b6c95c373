/* SPDX-License-Identifier: BSD-3-Clause */
/* A switch's decision on an arriving packet. step_mark.h, red.h, dynamic_threshold.h, bcc.h and the programs of a port
 * (switch.h) return it. */
#ifndef NCC_VERDICT_H
#define NCC_VERDICT_H

enum ncc_verdict {
    NCC_PASS = 0,
    NCC_MARK = 1, /* set Congestion Experienced */
    NCC_TRIM = 2, /* cut a packet's payload off, and let its headers go on (switch.h) */
    NCC_DROP = 3,
};

#endif
