/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * State of a connection, and the maps.
 *
 * The kernel may skip a callback. A returned value may then be garbage, and a change of state may be missing, so
 * nothing depends on a single callback. Losses, timeouts and marks are read from counters of the socket that only
 * grow, a connection is set up by the first callback that runs, and window and rate are written on every ACK.
 */
#ifndef NCC_SHIM_H
#define NCC_SHIM_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "intf.h"
#include "prr.h"

#define NCC_USERS (1U << 16)           /* covers all users outside containers */
#define NCC_CWND_PKTS_MAX (1ULL << 24) /* 16 million packets in flight: 24 GB */
#define NCC_RATE_MAX (1ULL << 40)      /* bytes/s */
#define NCC_TURNS_PER_S 10             /* slowest rate: a packet every 100 ms, whose ACK can lift it */
#define NCC_UNPACED (~0UL)             /* sk_pacing_rate: no pacing */

struct shim_counts {
    __u64 acked_bytes, sent_bytes, retrans_bytes;
    __u32 sent_packets;
};

struct shim_flow {
    __u64 controller[NCC_CC_SIM_STATE_MAX / 8]; /* state of the controller */
    struct ncc_cc_conn conn;
    struct ncc_cc_out out; /* last output of the controller */
    __u32 slot;            /* + 1; 0: not reported */
    __u32 user;            /* user that holds the slot */
    __u32 of_host;         /* 1: its local address is in the map `addresses` */
    __u32 generation;      /* generation of the slot */
    __u32 host;            /* index, or NCC_NO_HOST */
    __u32 opened;          /* 1: it has sent data */
    __u32 mark;            /* SO_MARK when its row was taken */
    __u32 idle;            /* 1: all data is acknowledged, and the application had no more */
    __u32 busy;            /* 1: it counts among its host's connections with data */
    __u32 obeying;         /* enum shim_obedience */
    __u32 high_seq;        /* the socket's counters at the last ACK */
    __u32 delivered_pkts, marked_pkts, lost_pkts;
    __u32 ca_state;
    __u32 total_rto;
    __u32 ce_state, prior_rcv_nxt; /* state of a DCTCP receiver (RFC 8257 section 3.2) */
    __u64 acked_from;              /* tp->bytes_acked when the connection began */
    struct shim_counts before;     /* counts of the connection when its row was taken */
    __u64 una_bytes;
    __u64 delivered_bytes; /* una_bytes and bytes acknowledged selectively; never falls */
    __u64 total_pkts;      /* tp->delivered since the beginning, in 64 bits */
    __u64 marked_bytes;
    __u64 min_rtt_ns, rtt_sum_ns, rtt_samples;
    __u64 began_ns;
    __u32 acks;
    /* Reduction of the window. */
    struct ncc_prr prr;
    __u64 reduced_until_bytes; /* nxt when it began */
    __u64 reduced_cwnd_bytes;  /* window while it lasts */
    __u32 sent_segs;           /* tp->data_segs_out at the last ACK */
    __u32 reducing;            /* enum shim_reduction */
    __u32 waits;               /* 1: the last timeout was of packets in the host's own queue */
    __u32 congested;           /* 1: a mark or a loss since it last began to send */
    __u32 begun;               /* 1: the flow may send: see shim_gate.h */
    __u64 held_ns;             /* when it first had to wait for that; 0: it has not */
    __u64 unscheduled_ns;      /* end of its time as the unscheduled flow of its pair; 0: it is not that */
    __u32 signal;              /* a switch's last signal, kind * 256 + value; 0: none since the last ACK */
};

enum shim_reduction { SHIM_NOT_REDUCING, SHIM_REDUCED, SHIM_RECOVERING };

enum shim_obedience { SHIM_UNASKED, SHIM_OBEYS, SHIM_ALONE };

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct shim_flow);
} flows SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, NCC_FLOWS_MAX);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct ncc_report);
} reports SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, NCC_FLOWS_MAX);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct ncc_decision);
} decisions SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, NCC_HOSTS_MAX);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct ncc_host);
} hosts SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct ncc_agent);
} agent SEC(".maps");

/* Local end of a connection -> index of the host; NCC_NO_HOST: the connection is reported and not limited. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16 * NCC_HOSTS_MAX);
    __type(key, struct ncc_source);
    __type(value, __u32);
} addresses SEC(".maps");

/* Address of a receiver that sends grants -> 1: new flows to it wait for one; 0: they begin at once. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, NCC_HOSTS_MAX);
    __type(key, struct ncc_address);
    __type(value, __u32);
} receivers SEC(".maps");

/* The two ends of a flow. */
struct shim_pair {
    struct ncc_source own;
    struct ncc_address peer;
};

/* Pair of hosts -> time until which one of its flows is unscheduled (shim_gate.h). */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, NCC_FLOWS_MAX);
    __type(key, struct shim_pair);
    __type(value, __u64);
} unscheduled SEC(".maps");

/* Free slots; user space fills the queue, and puts the slots of finished connections back. */
struct {
    __uint(type, BPF_MAP_TYPE_QUEUE);
    __uint(max_entries, NCC_FLOWS_MAX);
    __type(value, __u32);
} free_slots SEC(".maps");

/* Number of slots that users hold, by the low bits of the user id; users with equal bits share a quota. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, NCC_USERS);
    __type(key, __u32);
    __type(value, __u64);
} users SEC(".maps");

static __always_inline struct ncc_agent *shim_agent(void)
{
    __u32 zero = 0;

    return bpf_map_lookup_elem(&agent, &zero);
}

static __always_inline struct ncc_host *shim_host(const struct shim_flow *f)
{
    return f->host == NCC_NO_HOST ? 0 : bpf_map_lookup_elem(&hosts, &f->host);
}

static __always_inline struct ncc_report *shim_row(const struct shim_flow *f)
{
    __u32 slot = f->slot - 1;

    return f->slot ? bpf_map_lookup_elem(&reports, &slot) : 0;
}

#define NCC_MAPPED bpf_htonl(0xFFFF) /* third word of an address of IPv4 */

/*
 * Returns an end of a connection: member `ipv6` if its socket is of IPv6, which may have a mapped address, else `ipv4`.
 * A kernel without IPv6 has no such member; it is named only behind the test, because the kernel refuses it elsewhere.
 */
#define SHIM_END(sk, ipv4, ipv6)                                                                                       \
    ({                                                                                                                 \
        struct ncc_address end = {.words = {0, 0, NCC_MAPPED, (sk)->__sk_common.ipv4}};                                \
                                                                                                                       \
        if (bpf_core_field_exists((sk)->__sk_common.ipv6) && (sk)->__sk_common.skc_family == NCC_AF_INET6)             \
            for (int i = 0; i < 4; i++)                                                                                \
                end.words[i] = (sk)->__sk_common.ipv6.in6_u.u6_addr32[i];                                              \
        end;                                                                                                           \
    })

static __always_inline struct ncc_address shim_own(const struct sock *sk)
{
    return SHIM_END(sk, skc_rcv_saddr, skc_v6_rcv_saddr);
}

static __always_inline struct ncc_address shim_peer(const struct sock *sk)
{
    return SHIM_END(sk, skc_daddr, skc_v6_daddr);
}

static __always_inline struct ncc_source shim_source(const struct sock *sk)
{
    return (struct ncc_source){.cookie = sk->__sk_common.skc_net.net->net_cookie, .address = shim_own(sk)};
}

static __always_inline int shim_mapped(const struct ncc_address *a)
{
    return !a->words[0] && !a->words[1] && a->words[2] == NCC_MAPPED;
}

static __always_inline void shim_count(ncc_u64 *counter) { __sync_fetch_and_add(counter, 1); }

/* Returns the growth of a counter after `before`; 0 if the socket's counters are cleared. */
static __always_inline __u64 shim_since(__u64 before, __u64 now) { return now > before ? now - before : 0; }

/* Returns the growth of a 32-bit counter since the last call, also over an overflow. */
static __always_inline __u32 shim_grown(__u32 *seen, __u32 now)
{
    __u32 by = now - *seen;

    *seen = now;
    return by;
}

#endif
