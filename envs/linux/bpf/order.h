/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rows that user space and the program of a host's queue share, and the classes of that queue. `queue.py` and
 * `order_program.py` declare the same for Python, and a test compares both.
 */
#ifndef NCC_ORDER_H
#define NCC_ORDER_H

#include "cc.h"

#define NCC_ORDER_CLASSES 8
#define NCC_ORDER_FIRST 0x20010u /* class 2:10; 2:11 to 2:17 follow it */
#define NCC_ORDER_LAST (NCC_ORDER_FIRST + NCC_ORDER_CLASSES - 1)
#define NCC_ORDER_REST 0x20018u   /* packets outside the order */
#define NCC_ORDER_EARLY 0x20019u  /* small packets outside the order */
#define NCC_ORDER_OPEN 0x10003u   /* outside the host's limit */
#define NCC_ORDER_LINK 0x10004u   /* outside it too, with a ceiling of its own */
#define NCC_ORDER_SMALL_BYTES 256 /* with the link-layer header */

/* setsockopt by which an application announces the size of its next message, in bytes (32 bits). Without a program of
 * ours the kernel refuses it (ENOPROTOOPT), which does no harm. */
#define NCC_ORDER_LEVEL 0x4E43
#define NCC_ORDER_SIZE 1

enum ncc_order_mode {
    NCC_ORDER_FIFO = 0,  /* first come, first served */
    NCC_ORDER_KNOWN = 1, /* by the known bytes of messages */
};

/* Written by user space. */
struct ncc_order_config {
    ncc_u64 beat_ns;                           /* last sign of life of user space; 0: it has not begun */
    ncc_u64 timeout_ns;                        /* time without a beat after which packets go to the open class */
    ncc_u64 mode;                              /* enum ncc_order_mode */
    ncc_u64 upto_bytes[NCC_ORDER_CLASSES - 1]; /* largest message of each class but the last */
};

/* Written by the kernel: counts since the program was loaded. */
struct ncc_order_counts {
    ncc_u64 messages;    /* messages that began */
    ncc_u64 demotions;   /* moves of a message to a later class */
    ncc_u64 hinted;      /* messages with an announced size */
    ncc_u64 silent_pkts; /* packets in the open class because user space was silent */
};

_Static_assert(sizeof(struct ncc_order_config) == 80, "order_program.py has another layout");
_Static_assert(sizeof(struct ncc_order_counts) == 32, "order_program.py has another layout");

/* Returns the class, 0 to NCC_ORDER_CLASSES - 1, of a message of which `known_bytes` are known. */
NCC_CC_FN ncc_u32 ncc_order_class(const struct ncc_order_config *c, ncc_u64 known_bytes)
{
    ncc_u32 class = 0;

    for (ncc_u32 i = 0; i < NCC_ORDER_CLASSES - 1; i++)
        class += known_bytes > c->upto_bytes[i];
    return class;
}

#endif
