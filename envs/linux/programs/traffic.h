/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table that the traffic program shares with Python: flows to send, their progress and their results.
 * ncc/envs/linux/traffic.py declares the same as numpy types; both sides compare sizes before anything runs.
 *
 * It is one file in memory: a header, n_hosts hosts, n_flows flows, n_fronts front ends, and for runs with requests the
 * columns of struct ncc_traffic_graph. Python writes the inputs before the program starts and reads the rest at any
 * time without a system call. Each field has one writer and is written as one word.
 */
#ifndef NCC_LINUX_TRAFFIC_H
#define NCC_LINUX_TRAFFIC_H

#include <stdint.h>

#define NCC_TRAFFIC_MAGIC 0x6e636334u /* "ncc4" */
#define NCC_TRAFFIC_PORT 5001         /* port on which every receiving host listens */

enum ncc_traffic_state {
    NCC_TRAFFIC_WAITING = 0,    /* not started */
    NCC_TRAFFIC_CONNECTING = 1, /* handshake */
    NCC_TRAFFIC_SENDING = 2,    /* bytes are being handed to the socket */
    NCC_TRAFFIC_HANDED = 3,     /* the socket has them all */
    NCC_TRAFFIC_DELIVERED = 4,  /* the receiver has them all */
    NCC_TRAFFIC_DONE = 5,       /* the sender knows it too, and the counters are final */
    NCC_TRAFFIC_FAILED = 6,     /* the connection ended early: see `error` */
};

enum ncc_traffic_over {
    NCC_TRAFFIC_RUNNING = 0,
    NCC_TRAFFIC_ALL_DONE = 1,
    NCC_TRAFFIC_OUT_OF_TIME = 2, /* after `deadline_ns` */
};

struct ncc_traffic_header {
    uint32_t magic, header_bytes, host_bytes, flow_bytes, graph_bytes;
    uint32_t requests; /* 1: there is a graph */
    uint32_t n_hosts, n_flows;
    uint64_t start_ns;          /* CLOCK_MONOTONIC of time 0; written by the program at the start */
    uint64_t deadline_ns;       /* time after time 0 at which the program ends, whatever is left */
    uint64_t sample_ns;         /* period of the samples of live flows; 0: none */
    uint32_t send_buffer_bytes; /* 0: the kernel's, which grows with the window */
    uint32_t receive_buffer_bytes;
    uint32_t ecn;                  /* value of net.ipv4.tcp_ecn in every host's namespace */
    int32_t nice;                  /* nice value of the program, -20 .. 19 */
    uint32_t over;                 /* enum ncc_traffic_over */
    uint32_t connections_per_pair; /* connections open from the start for each pair with flows; 0: one per flow */
    char congestion[16];
    uint32_t marks; /* 1: the SO_MARK of a flow's connection is its number + 1 */
    uint32_t tells; /* most bytes of a first write that senders announce (NCC_ORDER_SIZE); INT32_MAX: flow sizes */
    uint32_t fins;  /* 1: a sender closes its side after its last byte; programs of ports count flows by the FIN */
    uint32_t n_fronts;
    uint64_t late_ns;          /* time from which on an answer is late for its front end */
    char front[16];            /* front end of hosts that ask; empty: queries leave at once */
    uint64_t front_params[16]; /* its parameters */
    uint32_t n_started;        /* flows of the graph that have started, in `started` */
    uint32_t n_handshakes;     /* answers that found no idle connection, and opened one */
};

struct ncc_traffic_host {
    uint32_t address; /* in network order */
    uint32_t pad;
    char netns[56]; /* name under /var/run/netns */
};

struct ncc_traffic_flow {
    uint64_t start_ns; /* after time 0; of a flow that waits for a group or a front end, written when it starts */
    uint64_t size_bytes;
    uint32_t src, dst;             /* rows of the hosts */
    uint32_t state;                /* enum ncc_traffic_state */
    int32_t error;                 /* errno of a failed flow */
    uint64_t opened_ns, finish_ns; /* CLOCK_MONOTONIC: given to a connection, last byte received; 0: not yet */
    uint64_t handed_bytes;         /* bytes handed to the socket */
    uint64_t received_bytes;       /* bytes read by the receiving application */
    uint64_t acked_bytes;          /* this and the rest are from TCP_INFO: at samples, on demand and at the end; RTTs
                                    * are the connection's */
    uint64_t left_bytes;           /* payload that has left the host at least once */
    uint64_t rtt_sum_us;           /* sum of the smoothed RTTs at samples */
    uint32_t rtt_samples, min_rtt_us;
    uint32_t sent_pkts, retransmitted_pkts, timeouts, ce_pkts;
    uint32_t chunk_bytes; /* written by the application at once, every `every_us`; 0: all */
    uint32_t every_us;
    uint32_t answer; /* 1: it answers a query, so it needs a connection that is open */
    uint32_t unused;
};

/* The port to a host that asks (front.h). */
struct ncc_traffic_front {
    uint64_t rate_bytes_per_s, buffer_bytes, base_rtt_ns, packet_bytes;
};

/* Requests (requests.h): a flow of the table, as part of the graph. The file has each field as a column of n_flows. */
struct ncc_traffic_graph {
    int64_t think_ns;
    uint64_t wire_bytes;
    int32_t group, after, query_of, end_of;
    uint32_t started; /* rows of flows in the order in which they started; a wait is complete when it is here */
    uint32_t unused;
};

_Static_assert(sizeof(struct ncc_traffic_header) == 272, "layout");
_Static_assert(sizeof(struct ncc_traffic_host) == 64, "layout");
_Static_assert(sizeof(struct ncc_traffic_flow) == 128, "layout");
_Static_assert(sizeof(struct ncc_traffic_front) == 32, "layout");
_Static_assert(sizeof(struct ncc_traffic_graph) == 40, "layout");

#endif
