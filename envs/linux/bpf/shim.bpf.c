/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A congestion controller of baselines/ inside the kernel's TCP, with reports to user space and rates from it. It is
 * compiled once per controller: NCC_CONTROLLER is its name, NCC_CONTROLLER_HEADER its header, NCC_CONGESTION the name
 * that sockets choose it by. With NCC_SIGNALS it receives signals of switches.
 */
#include "shim.h"
#include "shim_apply.h"
#include "shim_controller.h"
#include "shim_event.h"
#include "shim_gate.h"
#include "shim_report.h"
#ifdef NCC_SIGNALS
#include "signal_frame.h"

struct bpf_sock_tuple { /* linux/bpf.h */
    struct {
        __be32 saddr, daddr;
        __be16 sport, dport;
    } ipv4;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, __u64);
} signals SEC(".maps"); /* number of signals that a connection has received */
#endif

char LICENSE[] SEC("license") = "GPL";

/* Sets a connection up. */
static __always_inline struct shim_flow *shim_begin(struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct ncc_source source = shim_source(sk);
    __u32 *host = bpf_map_lookup_elem(&addresses, &source);
    struct shim_flow *f = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

    if (!f)
        return 0;
    __builtin_memset(f, 0, sizeof(*f));
    f->conn.mss_bytes = ncc_max_u64(tp->mss_cache, 1);
    f->conn.init_cwnd_bytes = ncc_max_u64(tp->snd_cwnd, 1) * f->conn.mss_bytes;
    f->of_host = host != 0;
    f->host = host && *host < NCC_HOSTS_MAX ? *host : NCC_NO_HOST;
    f->began_ns = bpf_ktime_get_ns();
    f->acked_from = tp->bytes_acked;
    f->delivered_pkts = tp->delivered;
    f->marked_pkts = tp->delivered_ce;
    f->lost_pkts = tp->lost;
    f->total_rto = tp->total_rto;
    f->high_seq = tp->high_seq;
    f->sent_segs = tp->data_segs_out;
    f->prior_rcv_nxt = tp->rcv_nxt;
    if (CC(ecn) == NCC_CC_ECN_NONE)
        tp->ecn_flags &= ~TCP_ECN_OK; /* its packets are not ECN-capable, whatever was negotiated */
    shim_cc_init(shim_state(f), &f->conn, &f->out);
    shim_apply(sk, f, f->began_ns);
    return f;
}

/* Returns the state of a connection; sets it up if `init` was skipped. Returns 0 before the handshake is over: the
 * kernel reports the ACK of the SYN to the controller before it calls `init`. */
static __always_inline struct shim_flow *shim_find(struct sock *sk)
{
    struct shim_flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);
    __u8 state = sk->__sk_common.skc_state;
    struct ncc_agent *a;

    if (f || state == TCP_SYN_SENT || state == TCP_SYN_RECV)
        return f;
    a = shim_agent();
    if (a)
        shim_count(&a->late_inits);
    return shim_begin(sk);
}

SEC("struct_ops/shim_init")
void BPF_PROG(shim_init, struct sock *sk) { (void)shim_begin(sk); }

SEC("struct_ops/shim_release")
void BPF_PROG(shim_release, struct sock *sk)
{
    struct shim_flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);

    if (!f)
        return;
    shim_scheduled(sk, f);
    shim_idle(f);
    shim_close_row(sk, f, bpf_ktime_get_ns());
    bpf_sk_storage_delete(&flows, sk); /* the socket may go on with another controller */
}

SEC("struct_ops/shim_cong_control")
void BPF_PROG(shim_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct shim_flow *f = shim_find(sk);
    __u64 now_ns = tp->tcp_clock_cache;
    struct ncc_report *r;

    if (!f)
        return;
    if (tp->packets_out || tp->write_seq != tp->snd_nxt) {
        shim_busy(sk, f, now_ns);
    } else {
        shim_scheduled(sk, f);
        shim_idle(f);
    }
    ++f->acks;
    shim_losses(sk, f, now_ns);
    shim_report_signal(sk, f, now_ns);
    shim_ack(sk, f, rs, now_ns);
    shim_apply(sk, f, now_ns);
    r = shim_row(f);
    if (r) {
        shim_begin_row(r);
        shim_fill_row(r, f, tp, now_ns);
        shim_end_row(r);
    }
}

/* RFC 8257 section 3.2: the receiver's ACKs say exactly which packets bore CE, also with delayed ACKs. */
static __always_inline void shim_echo(struct sock *sk, struct shim_flow *f, __u32 ce)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;

    if (f->ce_state != ce) {
        if (icsk->icsk_ack.pending & ICSK_ACK_TIMER) { /* send the delayed ACK, with the old state */
            if (f->ce_state)
                tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
            else
                tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
            bpf_tcp_send_ack(tp, f->prior_rcv_nxt);
        }
        icsk->icsk_ack.pending |= ICSK_ACK_NOW;
    }
    f->prior_rcv_nxt = tp->rcv_nxt;
    f->ce_state = ce;
    if (ce)
        tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
    else
        tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

SEC("struct_ops/shim_cwnd_event")
void BPF_PROG(shim_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
    struct shim_flow *f = shim_find(sk);

    if (!f)
        return;
    if (event == CA_EVENT_TX_START) {
        __u64 now_ns = bpf_ktime_get_ns();

        shim_restart(sk, f, now_ns);
        shim_busy(sk, f, now_ns);
        shim_apply(sk, f, now_ns);
    } else if (event == CA_EVENT_LOSS) {
        f->waits = 2 * shim_held_bytes((struct tcp_sock *)sk) >=
                   ((struct tcp_sock *)sk)->snd_nxt - ((struct tcp_sock *)sk)->snd_una;
    } else if (CC(ecn) == NCC_CC_ECN_DCTCP) {
        if (event == CA_EVENT_ECN_IS_CE)
            shim_echo(sk, f, 1);
        else if (event == CA_EVENT_ECN_NO_CE)
            shim_echo(sk, f, 0);
    }
}

/* The kernel calls this whenever it is about to send, also when the application has written more than the window takes.
 * The backlog is then reported before the next ACK. The returned value is the kernel's default. */
SEC("struct_ops/shim_min_tso_segs")
__u32 BPF_PROG(shim_min_tso_segs, struct sock *sk)
{
    struct shim_flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);
    struct ncc_report *r;

    if (f)
        shim_gate(sk, f);
    r = f ? shim_row(f) : 0;
    if (r) {
        shim_begin_row(r);
        shim_fill_backlog(r, f, (struct tcp_sock *)sk);
        shim_end_row(r);
    }
    return sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_min_tso_segs;
}

#ifdef NCC_SIGNALS
/* Delivers a switch's signal that arrives at a host (signal_frame.h) to its connection. */
SEC("tc") int shim_signal(struct __sk_buff *skb)
{
    __u8 frame[24]; /* IP header, ports of TCP */
    struct bpf_sock_tuple tuple = {};
    struct bpf_sock *sk;
    struct shim_flow *f;
    __u32 first = 0;
    __u64 *received = bpf_map_lookup_elem(&signals, &first);

    if (bpf_skb_load_bytes_relative(skb, 0, frame, sizeof(frame), BPF_HDR_START_NET) || frame[9] != NCC_SIGNAL_PROTOCOL)
        return TC_ACT_UNSPEC;
    __builtin_memcpy(&tuple.ipv4.saddr, frame + 12, 4);
    __builtin_memcpy(&tuple.ipv4.daddr, frame + 16, 4);
    __builtin_memcpy(&tuple.ipv4.dport, frame + 20, 2); /* the sender's own */
    __builtin_memcpy(&tuple.ipv4.sport, frame + 22, 2);
    sk = bpf_sk_lookup_tcp(skb, &tuple, sizeof(tuple.ipv4), -1 /* BPF_F_CURRENT_NETNS */, 0);
    if (sk) {
        f = bpf_sk_storage_get(&flows, sk, 0, 0);
        if (f) {
            f->signal = frame[4] << 8 | frame[5];
            if (received)
                __sync_fetch_and_add(received, 1);
        }
        bpf_sk_release(sk);
    }
    return TC_ACT_SHOT;
}
#endif

/* The kernel requires these two; nothing depends on their results (shim.h). */
SEC("struct_ops/shim_ssthresh")
__u32 BPF_PROG(shim_ssthresh, struct sock *sk) { return ((struct tcp_sock *)sk)->snd_ssthresh; }

SEC("struct_ops/shim_undo_cwnd")
__u32 BPF_PROG(shim_undo_cwnd, struct sock *sk) { return ((struct tcp_sock *)sk)->snd_cwnd; }

SEC(".struct_ops")
struct tcp_congestion_ops shim = {
    .init = (void *)shim_init,
    .release = (void *)shim_release,
    .cong_control = (void *)shim_cong_control,
    .cwnd_event = (void *)shim_cwnd_event,
    .ssthresh = (void *)shim_ssthresh,
    .undo_cwnd = (void *)shim_undo_cwnd,
    .min_tso_segs = (void *)shim_min_tso_segs,
    .name = NCC_CONGESTION,
    .flags = TCP_CONG_NON_RESTRICTED | (CC(ecn) == NCC_CC_ECN_DCTCP ? TCP_CONG_NEEDS_ECN : 0),
};
