/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counts how often the kernel reads a value that a callback did not return. `ssthresh` always returns the same number,
 * and every ACK checks that this is what arrived. For a test of the machine, not for traffic.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "intf.h"

char LICENSE[] SEC("license") = "GPL";

#define ANSWER 77
#define UNASKED (1U << 20) /* written by every ACK: not called since */
#define WINDOW_PKTS 40     /* enough to be marked repeatedly */

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct ncc_callbacks);
} counts SEC(".maps");

/* Runs of the connection's `ssthresh` since its last ACK. */
struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, __u32);
} asked SEC(".maps");

static __always_inline struct ncc_callbacks *callbacks_counts(void)
{
    __u32 zero = 0;

    return bpf_map_lookup_elem(&counts, &zero);
}

SEC("struct_ops/callbacks_init")
void BPF_PROG(callbacks_init, struct sock *sk)
{
    (void)bpf_sk_storage_get(&asked, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    ((struct tcp_sock *)sk)->snd_ssthresh = UNASKED;
}

SEC("struct_ops/callbacks_ssthresh")
__u32 BPF_PROG(callbacks_ssthresh, struct sock *sk)
{
    __u32 *ran = bpf_sk_storage_get(&asked, sk, 0, 0);
    struct ncc_callbacks *c = callbacks_counts();

    if (ran)
        ++*ran;
    if (c)
        __sync_fetch_and_add(&c->run, 1);
    return ANSWER;
}

SEC("struct_ops/callbacks_cong_control")
void BPF_PROG(callbacks_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    __u32 *ran = bpf_sk_storage_get(&asked, sk, 0, 0);
    struct ncc_callbacks *c = callbacks_counts();
    __u32 got = tp->snd_ssthresh;

    if (c && ran) {
        __sync_fetch_and_add(&c->acks, 1);
        if (got == ANSWER)
            __sync_fetch_and_add(&c->right, 1);
        else if (got != UNASKED && *ran)
            __sync_fetch_and_add(&c->garbled, 1);
        else if (got != UNASKED)
            __sync_fetch_and_add(&c->skipped, 1);
        if (got != ANSWER && got != UNASKED)
            c->last_wrong = got;
        *ran = 0;
    }
    tp->snd_ssthresh = UNASKED;
    tp->snd_cwnd = WINDOW_PKTS;
}

SEC("struct_ops/callbacks_undo_cwnd")
__u32 BPF_PROG(callbacks_undo_cwnd, struct sock *sk) { return WINDOW_PKTS; }

SEC(".struct_ops")
struct tcp_congestion_ops callbacks = {
    .init = (void *)callbacks_init,
    .cong_control = (void *)callbacks_cong_control,
    .ssthresh = (void *)callbacks_ssthresh,
    .undo_cwnd = (void *)callbacks_undo_cwnd,
    .name = "ncc_callbacks",
    .flags = TCP_CONG_NON_RESTRICTED,
};
