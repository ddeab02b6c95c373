/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's own CUBIC behind programs that only call it, so that its time per ACK is measured by the same clock as
 * that of our programs. `in_ack_event` is empty: its time is the cost of measuring.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

extern void cubictcp_init(struct sock *sk) __ksym;
extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, __u8 state) __ksym;
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

SEC("struct_ops/kernel_cubic_init")
void BPF_PROG(kernel_cubic_init, struct sock *sk) { cubictcp_init(sk); }

SEC("struct_ops/kernel_cubic_ssthresh")
__u32 BPF_PROG(kernel_cubic_ssthresh, struct sock *sk) { return cubictcp_recalc_ssthresh(sk); }

SEC("struct_ops/kernel_cubic_cong_avoid")
void BPF_PROG(kernel_cubic_cong_avoid, struct sock *sk, __u32 ack, __u32 acked) { cubictcp_cong_avoid(sk, ack, acked); }

SEC("struct_ops/kernel_cubic_set_state")
void BPF_PROG(kernel_cubic_set_state, struct sock *sk, __u8 state) { cubictcp_state(sk, state); }

SEC("struct_ops/kernel_cubic_cwnd_event")
void BPF_PROG(kernel_cubic_cwnd_event, struct sock *sk, enum tcp_ca_event event) { cubictcp_cwnd_event(sk, event); }

SEC("struct_ops/kernel_cubic_pkts_acked")
void BPF_PROG(kernel_cubic_pkts_acked, struct sock *sk, const struct ack_sample *sample) { cubictcp_acked(sk, sample); }

SEC("struct_ops/kernel_cubic_nothing")
void BPF_PROG(kernel_cubic_nothing, struct sock *sk, __u32 flags) {}

SEC("struct_ops/kernel_cubic_undo_cwnd")
__u32 BPF_PROG(kernel_cubic_undo_cwnd, struct sock *sk) { return tcp_reno_undo_cwnd(sk); }

SEC(".struct_ops")
struct tcp_congestion_ops kernel_cubic = {
    .init = (void *)kernel_cubic_init,
    .ssthresh = (void *)kernel_cubic_ssthresh,
    .cong_avoid = (void *)kernel_cubic_cong_avoid,
    .set_state = (void *)kernel_cubic_set_state,
    .cwnd_event = (void *)kernel_cubic_cwnd_event,
    .pkts_acked = (void *)kernel_cubic_pkts_acked,
    .in_ack_event = (void *)kernel_cubic_nothing,
    .undo_cwnd = (void *)kernel_cubic_undo_cwnd,
    .name = "ncc_k_cubic",
    .flags = TCP_CONG_NON_RESTRICTED,
};
