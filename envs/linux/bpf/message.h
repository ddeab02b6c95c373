/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The known bytes of the message that a connection sends: acknowledged, in flight, and written or announced by the
 * application. A message that fits the send buffer is known as a whole. A longer message that is not announced becomes
 * known as it is sent. A message begins when all that was written before it is acknowledged. For tc programs at hosts;
 * the including file declares the types of its hook.
 */
#ifndef NCC_MESSAGE_H
#define NCC_MESSAGE_H

#include "order.h"

#define NCC_HINT_BYTES_MAX (1u << 30) /* half of what sequence numbers can tell apart */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_sockopt {
    struct bpf_sock *sk;
    void *optval, *optval_end;
    __s32 level, optname, optlen;
};
#pragma clang attribute pop

struct message {
    __u32 begun;           /* 1: the connection has sent data */
    __u32 begin;           /* first sequence number of the message */
    __u32 end;             /* end of the written data at the last packet */
    __u32 class;           /* of the message in an order */
    __u32 announced_bytes; /* size that the application has announced since the last packet; 0: none */
    __u32 hint_bytes;      /* announced size of a message; 0: none */
    __u32 hint_begin;      /* first sequence number of that message */
};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct message);
} messages SEC(".maps");

static __always_inline struct message *message_of(struct tcp_sock *tp)
{
    return tp ? bpf_sk_storage_get(&messages, tp, 0, BPF_SK_STORAGE_GET_F_CREATE) : 0;
}

/* Returns 1 and begins the next message if the last one is acknowledged to its end. */
static __always_inline int message_begins(struct message *m, __u32 una)
{
    if (m->begun && (__s32)(una - m->end) < 0)
        return 0;
    m->begun = 1;
    m->begin = m->end = una;
    m->class = 0;
    return 1;
}

/* Returns 1 if the application has announced a size since the last packet; applies it to the data written next. */
static __always_inline int message_hinted(struct message *m)
{
    if (!m->announced_bytes)
        return 0;
    m->hint_bytes = m->announced_bytes;
    m->hint_begin = m->end;
    m->announced_bytes = 0;
    return 1;
}

/* Returns the bytes of the message that are known when the application has written up to `written`. */
static __always_inline ncc_u64 message_known(struct message *m, __u32 una, __u32 written)
{
    ncc_u64 known = (__u32)(written - m->begin);

    m->end = written;
    if (m->hint_bytes && (__s32)(una - (m->hint_begin + m->hint_bytes)) < 0)
        known = ncc_max_u64(known, (__u32)(m->hint_begin - m->begin) + (ncc_u64)m->hint_bytes);
    return known;
}

/* Takes the size that an application announces; all other options go on to the kernel. */
SEC("cgroup/setsockopt") int ncc_message_told(struct bpf_sockopt *option)
{
    const __u32 *bytes = option->optval;
    const int sized = option->optlen == sizeof(*bytes) || option->optlen == -1; /* -1: another agent's program has it */
    struct message *m;

    if (option->level != NCC_ORDER_LEVEL || option->optname != NCC_ORDER_SIZE)
        return 1;
    if (!option->sk || !sized || (const void *)(bytes + 1) > option->optval_end)
        return 0; /* EPERM */
    m = bpf_sk_storage_get(&messages, option->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (m)
        m->announced_bytes = *bytes < NCC_HINT_BYTES_MAX ? *bytes : NCC_HINT_BYTES_MAX;
    option->optlen = -1; /* done: the kernel does not see it */
    return 1;
}

#endif
