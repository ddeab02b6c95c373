/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rows that user space and the program of the switch ports share, and the decision on a packet, which combines the
 * headers of baselines/ as `envs/native/discipline.h` does for simulators. `envs/linux/switch.py` declares the same
 * layout for numpy.
 */
#ifndef NCC_SWITCH_PORT_H
#define NCC_SWITCH_PORT_H

#include "bcc.h"
#include "dynamic_threshold.h"
#include "red.h"
#include "step_mark.h"

#define NCC_SWITCH_PORTS 256      /* directed ports of a rack, including hosts' */
#define NCC_SWITCH_POOLS 16       /* shared buffers */
#define NCC_SWITCH_POOL_PORTS 32  /* ports that can share one */
#define NCC_SWITCH_FIRST_INDEX 16 /* network device of port 0; smaller ones are the namespace's own */
#define NCC_SWITCH_NO_POOL (~0U)
#define NCC_SWITCH_PARAMS 16

/* Settings of the program that runs at the ports (switch_program.h). */
struct ncc_switch_program {
    ncc_u64 params[NCC_SWITCH_PARAMS]; /* in table order */
    ncc_u32 mtu_bytes;
    ncc_u32 unused;
};

/* A directed port; written before its first packet and never again. */
struct ncc_switch_port {
    ncc_u64 rate_bytes_per_s; /* 0: no such port */
    ncc_u64 frame_overhead_bytes;
    ncc_u64 size_bytes; /* size of its own buffer */
    ncc_u64 mark_threshold_bytes;
    struct ncc_red red; /* max_bytes 0: off */
    ncc_u32 pool;       /* NCC_SWITCH_NO_POOL: none */
    ncc_u32 finite;     /* 0: a host's port, which neither marks nor drops */
};

struct ncc_switch_pool {
    ncc_u64 size_bytes;
    ncc_u64 alpha; /* in units of 1/NCC_DT_ALPHA_ONE */
    struct ncc_red red;
    ncc_u32 n_ports;
    ncc_u32 unused;
    ncc_u32 ports[NCC_SWITCH_POOL_PORTS];
};

/* Counters of a port since it was made, in bytes of IP packets. Only the sampling program writes them. */
struct ncc_switch_stats {
    ncc_u64 now_ns; /* time of CLOCK_MONOTONIC */
    ncc_u64 joined_pkts;
    ncc_u64 joined_bytes;
    ncc_u64 tx_pkts; /* packets that left the queue */
    ncc_u64 tx_bytes;
    ncc_u64 marked_pkts;
    ncc_u64 dropped_pkts;
    ncc_u64 dropped_data_pkts; /* those with payload */
    ncc_u64 queue_bytes;       /* waiting now */
    ncc_u64 queue_pkts;
    ncc_u64 queue_max_bytes; /* including a packet that joins */
    ncc_u64 queue_byte_ns;   /* integral of the queue over time */
    ncc_u64 queue_pkt_ns;    /* the same in packets, which is the sum of their waits (Little) */
    ncc_u64 largest_bytes;   /* largest packet; above the MTU with segmentation offload */
};

_Static_assert(sizeof(struct ncc_switch_program) == 136, "switch.py has another layout");
_Static_assert(sizeof(struct ncc_switch_port) == 64, "switch.py has another layout");
_Static_assert(sizeof(struct ncc_switch_pool) == 176, "switch.py has another layout");
_Static_assert(sizeof(struct ncc_switch_stats) == 112, "switch.py has another layout");

/* A queue at an instant. */
struct ncc_switch_queue {
    ncc_u64 bytes, pkts;       /* waiting */
    ncc_u64 tx_bytes, tx_pkts; /* those that have left */
};

/* Decides on a packet that joins a queue of `queue_bytes` when `used_bytes` of the pool are taken. It is marked if any
 * marker says so (bai2020 section IV). `random` is 64 new uniform bits for every packet. `pool` may be null. */
NCC_CC_FN enum ncc_verdict ncc_switch_admit(const struct ncc_switch_port *port, const struct ncc_switch_pool *pool,
                                            ncc_u64 queue_bytes, ncc_u64 used_bytes, ncc_u32 packet_bytes,
                                            int ecn_capable, ncc_u64 random)
{
    struct ncc_step_mark step = {port->size_bytes, port->mark_threshold_bytes};
    enum ncc_verdict verdict;

    if (pool) {
        const struct ncc_dynamic_threshold threshold = {port->size_bytes, pool->size_bytes, pool->alpha};

        if (ncc_dynamic_threshold_admit(&threshold, queue_bytes, used_bytes, packet_bytes) == NCC_DROP)
            return NCC_DROP;
        step.size_bytes = ~0ULL; /* the pool has decided */
    }
    verdict = ncc_step_mark_admit(&step, queue_bytes, packet_bytes, ecn_capable);
    if (verdict == NCC_PASS && port->red.max_bytes)
        verdict = ncc_red_admit(&port->red, queue_bytes, ecn_capable, (ncc_u32)random);
    if (verdict == NCC_PASS && pool && pool->red.max_bytes)
        verdict = ncc_bcc_admit(&pool->red, used_bytes, ecn_capable, (ncc_u32)(random >> 32));
    return verdict;
}

/* Adds to the integrals the content of a queue over the `elapsed_ns` in which it went from `then` to `now`. Nothing
 * joined in between, so it shrank at line rate and may have been empty at the end. */
NCC_CC_FN void ncc_switch_integrate(const struct ncc_switch_port *port, struct ncc_switch_stats *stats,
                                    ncc_u64 then_bytes, ncc_u64 then_pkts, const struct ncc_switch_queue *now,
                                    ncc_u64 elapsed_ns)
{
    if (now->pkts == 0) {
        const ncc_u64 wire_bytes = then_bytes + then_pkts * port->frame_overhead_bytes;

        elapsed_ns = ncc_min_u64(elapsed_ns, wire_bytes * NCC_NS_PER_S / port->rate_bytes_per_s);
    }
    stats->queue_byte_ns += (then_bytes + now->bytes) * elapsed_ns / 2;
    stats->queue_pkt_ns += (then_pkts + now->pkts) * elapsed_ns / 2;
}

#endif
