/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The few types of the kernel that the programs use. The loader finds each field by its name in the running kernel's
 * BTF, so neither order nor size matters here, and no headers of a kernel are needed to build.
 */
#ifndef NCC_KERNEL_H
#define NCC_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

/* linux/bpf.h */
enum bpf_map_type {
    BPF_MAP_TYPE_HASH = 1,
    BPF_MAP_TYPE_ARRAY = 2,
    BPF_MAP_TYPE_LRU_HASH = 9,
    BPF_MAP_TYPE_QUEUE = 22,
    BPF_MAP_TYPE_SK_STORAGE = 24,
};
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1 << 10, BPF_SK_STORAGE_GET_F_CREATE = 1, BPF_NOEXIST = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct netns_ipv4 {
    __u8 sysctl_tcp_slow_start_after_idle, sysctl_tcp_min_tso_segs;
};

struct net {
    __u64 net_cookie;
    struct netns_ipv4 ipv4;
};

struct in6_addr {
    struct {
        __be32 u6_addr32[4];
    } in6_u;
};

struct sock_common {
    __be32 skc_daddr;
    __be32 skc_rcv_saddr;
    __u16 skc_family;
    struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
    __be16 skc_dport;
    __u16 skc_num;
    struct {
        struct net *net;
    } skc_net;
    volatile __u8 skc_state;
};

struct sock {
    struct sock_common __sk_common;
    struct {
        struct {
            int counter;
        } refs;
    } sk_wmem_alloc;
    int sk_wmem_queued;
    __u32 sk_mark;
    struct {
        __u32 val;
    } sk_uid;
    __u32 sk_pacing_status;
    unsigned long sk_pacing_rate;
};

struct inet_connection_sock {
    __u8 icsk_ca_state : 5;
    __u32 icsk_rto; /* jiffies */
    struct {
        __u8 pending;
    } icsk_ack;
};

struct minmax_sample {
    __u32 t, v;
};

struct minmax {
    struct minmax_sample s[3];
};

struct tcp_options_received {
    __u16 snd_wscale : 4;
};

struct tcp_sock {
    struct tcp_options_received rx_opt;
    __u32 snd_wnd;
    __u32 snd_cwnd, snd_ssthresh;
    __u32 snd_una, snd_nxt, write_seq, pushed_seq, rcv_nxt, high_seq;
    __u32 packets_out, sacked_out, lost_out, retrans_out, max_packets_out;
    __u32 delivered, delivered_ce, lost;
    __u32 srtt_us;  /* times 8 */
    __u32 lsndtime; /* jiffies when data was last sent */
    struct minmax rtt_min;
    __u32 mss_cache;
    __u32 data_segs_out;
    __u64 bytes_sent, bytes_acked, bytes_retrans;
    __u64 tcp_clock_cache; /* CLOCK_MONOTONIC, ns, refreshed with every packet */
    __u16 tcp_header_len;
    __u16 total_rto;
    __u8 ecn_flags;
    __u8 is_cwnd_limited : 1;
};

struct rate_sample {
    __s32 delivered; /* packets; negative: no sample */
    long interval_us;
    long rtt_us;
    bool is_app_limited;
};

enum tcp_ca_event { CA_EVENT_TX_START, CA_EVENT_LOSS = 3, CA_EVENT_ECN_NO_CE, CA_EVENT_ECN_IS_CE = 5 };

struct tcp_congestion_ops {
    __u32 (*ssthresh)(struct sock *sk);
    void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
    __u32 (*undo_cwnd)(struct sock *sk);
    __u32 (*min_tso_segs)(struct sock *sk);
    void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs); /* since Linux 6.10 */
    void (*init)(struct sock *sk);
    void (*release)(struct sock *sk);
    char name[16];
    __u32 flags;
};

struct bpf_sock { /* this and the next, of linux/bpf.h, are what programs see of a socket and a packet */
    __u32 state;
};

struct __sk_buff {
    __u32 len, mark, protocol, priority, ingress_ifindex, ifindex, wire_len, gso_segs;
    struct bpf_sock *sk;
};

struct net_device {
    struct Qdisc *qdisc;
    unsigned short hard_header_len;
};

struct sk_buff {
    struct net_device *dev;
};

#pragma clang attribute pop

extern void *bpf_cast_to_kern_ctx(void *) __attribute__((section(".ksyms")));

/* Macros of net/tcp.h, net/inet_connection_sock.h and net/sock.h, which BTF does not describe. */
enum { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
enum { TCP_ECN_OK = 1, TCP_ECN_DEMAND_CWR = 4 };
enum { TCP_CONG_NON_RESTRICTED = 1, TCP_CONG_NEEDS_ECN = 2 };
enum { ICSK_ACK_TIMER = 2, ICSK_ACK_NOW = 16 };
enum { TCP_SYN_SENT = 2, TCP_SYN_RECV = 3 };
enum { SK_PACING_NONE = 0, SK_PACING_NEEDED = 1 };

#define NCC_AHEAD_NS 1000000 /* user space reads the same clock; two processors may disagree by less */

/* Returns 1 if user space is alive: its last sign of life is no older than `timeout_ns`, and not of the future, as from
 * another time namespace. */
#define ncc_alive(beat_ns, now_ns, timeout_ns)                                                                         \
    ((beat_ns) && (beat_ns) <= (now_ns) + NCC_AHEAD_NS && (now_ns) <= (beat_ns) + (timeout_ns))

/* linux/if_ether.h, linux/bpf.h, linux/pkt_cls.h */
#define NCC_ETH_P_IP 0x0800
#define NCC_TCP 6
#define NCC_AF_INET6 10
enum { BPF_HDR_START_NET = 1 };
enum { TC_ACT_UNSPEC = -1, TC_ACT_SHOT = 2 };

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)

#endif
