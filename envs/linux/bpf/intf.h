/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rows of the memory-mapped maps, which the programs in the kernel and user space share. layout.py declares the same
 * for numpy, and a test compares both. Each part has one writer. Rates are in bytes of payload per second; times are of
 * CLOCK_MONOTONIC.
 */
#ifndef NCC_INTF_H
#define NCC_INTF_H

#include "cc.h"

#define NCC_FLOWS_MAX 4096 /* slots: connections that can be reported at the same time */
#define NCC_HOSTS_MAX 256
#define NCC_NO_HOST 0xFFFFFFFFu

enum ncc_flow_state {
    NCC_FLOW_FREE = 0,
    NCC_FLOW_LIVE = 1,
    NCC_FLOW_FINISHED = 2, /* closed; the counters stay until user space frees the slot */
};

/* Address of IPv6 in network order, or one of IPv4 mapped into it (RFC 4291 section 2.5.5.2), as sockets have it. */
struct ncc_address {
    ncc_u32 words[4];
};

/* Local end of a host's connections. An address alone proves nothing: any user may have it in another namespace. */
struct ncc_source {
    ncc_u64 cookie; /* of the network namespace; unique until the next boot */
    struct ncc_address address;
};

/* Parameters of a program; written before it is loaded, and never again. */
struct ncc_params {
    ncc_u64 values[NCC_CC_PARAMS_MAX]; /* in the order of the controller's table */
    ncc_u64 proportional;              /* 1: windows shrink by baselines/prr.h; 0: at once */
    ncc_u64 user_slots;                /* slots that one user may hold */
};

/* One flow, written by the kernel; `seq` is odd while it writes. A flow is a connection, or the part of it with one
 * SO_MARK; counters begin with it. */
struct ncc_report {
    ncc_u32 seq;
    ncc_u32 state;      /* enum ncc_flow_state */
    ncc_u32 generation; /* number of flows that have had the slot */
    ncc_u32 flow;       /* SO_MARK: row in the flow table + 1; 0: unknown */
    ncc_u32 host;       /* index of the agent that limits it, or NCC_NO_HOST */
    unsigned short mss_bytes;
    unsigned short window; /* while `held`: last window that the receiver offered, as a header has it */
    ncc_u64 began_ns;
    ncc_u64 updated_ns; /* time of the last ACK, or of the end */
    ncc_u64 rtt_sum_ns; /* sum of all samples */
    ncc_u64 rtt_samples;
    ncc_u64 delivered_bytes; /* acknowledged, cumulatively or selectively, each byte once */
    ncc_u64 marked_bytes;    /* part of delivered, by ACKs with ECN-Echo */
    ncc_u64 sent_bytes;      /* that have left the host, with retransmissions */
    ncc_u64 retrans_bytes;
    ncc_u64 sent_packets; /* with retransmissions */
    ncc_u64 unsent_bytes; /* written by the application, and still in the host */
    ncc_u64 cwnd_bytes;
    ncc_u64 reserved[4];
    ncc_u32 unused[2];
    ncc_u32 header_bytes; /* IP and TCP headers of a data packet */
    ncc_u32 acks;         /* number handled */
    ncc_u32 held;         /* 1: data of the flow waits, because its receiver has not let it begin */
    /* State of the connection while `held`, in host order: user space wakes it by an ACK that repeats this. */
    ncc_u32 una, rcv_nxt;
    unsigned short port, peer_port;
    struct ncc_address peer; /* of the other end */
};

/* A receiver's grant for a flow, written by user space. Each field takes effect by itself, at the next ACK. */
struct ncc_decision {
    ncc_u32 generation; /* generation of the report that this is for; ignored for any other */
    ncc_u32 unused;
    ncc_u64 start_ns;         /* when it may begin, if its host holds flows; 0: no grant */
    ncc_u64 most_bytes;       /* largest window; 0: the controller's */
    ncc_u64 rate_bytes_per_s; /* largest rate of payload; 0: none */
    ncc_u64 reserved[4];
};

/* One host. User space writes the first half, the kernel the second. */
struct ncc_host {
    ncc_u64 window_bytes; /* least window where the network shows no congestion; 0: the controller's */
    ncc_u64 patience_ns;  /* longest time for which a flow waits for a grant; 0: it does not wait */
    ncc_u64 named_only;   /* 1: flows wait only as the map `receivers` says */
    ncc_u64 reserved_user[5];
    ncc_s64 flows; /* connections that have data */
    ncc_u64 reserved_kernel[7];
};

/* State of the whole agent. User space writes the first half, the kernel the second. */
struct ncc_agent {
    ncc_u64 beat_ns;    /* last sign of life of user space; 0: it has not begun */
    ncc_u64 timeout_ns; /* time without a beat after which user space is ignored */
    ncc_u64 reserved_user[6];
    ncc_u64 started;    /* flows of hosts that send data */
    ncc_u64 finished;   /* those that have ended */
    ncc_u64 unreported; /* those that found no free slot, or whose user held too many */
    ncc_u64 fallbacks;  /* times that a connection stopped obeying */
    ncc_u64 late_inits; /* connections whose `init` the kernel skipped */
    ncc_u64 clamped;    /* ACKs whose window or rate was out of bounds */
    ncc_u64 acks;
    ncc_u64 over_quota; /* those of `unreported` whose user held too many slots */
};

_Static_assert(sizeof(struct ncc_source) == 24, "a key of a map has no gaps");
_Static_assert(sizeof(struct ncc_report) == 192, "a report is three cache lines");
_Static_assert(sizeof(struct ncc_decision) == 64, "a decision is a cache line");
_Static_assert(sizeof(struct ncc_host) == 128, "writers of a host do not share a cache line");
_Static_assert(sizeof(struct ncc_agent) == 128, "writers of the agent's area do not share a cache line");

#endif
