/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A switch port as a tc program: it sees every packet before the port's queue, marks or drops it by the length of the
 * real queue (the scheduler's own backlog, not a model of it), counts it, and names its class if the port's scheduler
 * has classes. A second program, run by user space, samples all ports at once.
 *
 * The packet that waits for its tokens counts as waiting, while the simulators count it as in transmission: a queue is
 * up to one packet longer here. Two packets that join on two processors at the same instant do not see each other.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "order.h"
#include "packet.h"
#include "switch_port.h"

char LICENSE[] SEC("license") = "GPL";

enum { BPF_F_INGRESS = 1 }; /* linux/bpf.h */
struct bpf_spin_lock {
    __u32 val;
};

/* Fields are found by name when the program is loaded, as in kernel.h. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct atomic64 {
    __s64 counter;
};
struct local_count {
    struct atomic64 a;
};
struct local64_count {
    struct local_count a;
};
struct u64_stats_count {
    struct local64_count v;
};
struct gnet_stats_basic_sync {
    struct u64_stats_count bytes;
    struct u64_stats_count packets;
};
struct gnet_stats_queue {
    __u32 backlog;
};
struct qdisc_skb_head {
    __u32 qlen;
};
struct Qdisc {
    struct qdisc_skb_head q;
    struct gnet_stats_basic_sync bstats;
    struct gnet_stats_queue qstats;
};
#pragma clang attribute pop

extern void *bpf_rdonly_cast(const void *, __u32) __ksym;

struct port_state {
    struct bpf_spin_lock lock;
    ncc_u64 device; /* address of the port's network device; 0 before its first packet */
    ncc_u64 last_ns;
    ncc_u64 queue_bytes; /* after the last packet joined, or at the last sample */
    ncc_u64 queue_pkts;
    struct ncc_switch_stats stats;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, NCC_SWITCH_PORTS);
    __type(key, __u32);
    __type(value, struct ncc_switch_port);
} ports SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, NCC_SWITCH_POOLS);
    __type(key, __u32);
    __type(value, struct ncc_switch_pool);
} pools SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, NCC_SWITCH_PORTS);
    __type(key, __u32);
    __type(value, struct ncc_switch_stats);
} port_stats SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, NCC_SWITCH_PORTS);
    __type(key, __u32);
    __type(value, struct port_state);
} states SEC(".maps");

/* Returns the device at an address; its fields read as 0 if it was removed. */
static __always_inline const struct net_device *device_at(ncc_u64 address)
{
    return bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct net_device));
}

/* Returns the backlog in bytes of IP packets, without the link-layer headers that a scheduler counts. */
static __always_inline ncc_u64 backlog_bytes(const struct net_device *device)
{
    const ncc_u64 backlog = device->qdisc->qstats.backlog;
    const ncc_u64 headers = (ncc_u64)device->qdisc->q.qlen * device->hard_header_len;

    return backlog > headers ? backlog - headers : 0;
}

static __always_inline void read_queue(const struct net_device *device, struct ncc_switch_queue *queue)
{
    queue->pkts = device->qdisc->q.qlen;
    queue->bytes = backlog_bytes(device);
    queue->tx_pkts = device->qdisc->bstats.packets.v.a.a.counter;
    queue->tx_bytes = device->qdisc->bstats.bytes.v.a.a.counter - queue->tx_pkts * device->hard_header_len;
}

/* Returns the bytes of a pool that all its ports use now. */
static __always_inline ncc_u64 used_bytes(const struct ncc_switch_pool *pool)
{
    ncc_u64 used = 0;

    for (__u32 i = 0; i < NCC_SWITCH_POOL_PORTS && i < pool->n_ports; i++) {
        const __u32 index = pool->ports[i];
        const struct ncc_switch_port *port = bpf_map_lookup_elem(&ports, &index);
        const struct port_state *state = bpf_map_lookup_elem(&states, &index);

        if (port && state && state->device)
            used += ncc_dynamic_threshold_share(port->size_bytes, backlog_bytes(device_at(state->device)));
    }
    return ncc_min_u64(used, pool->size_bytes);
}

/* Advances the integrals of a port to `now_ns`. The caller holds the lock. */
static __always_inline void advance(struct port_state *state, const struct ncc_switch_port *port,
                                    const struct ncc_switch_queue *queue, ncc_u64 now_ns)
{
    if (now_ns > state->last_ns) {
        ncc_switch_integrate(port, &state->stats, state->queue_bytes, state->queue_pkts, queue,
                             now_ns - state->last_ns);
        state->last_ns = now_ns;
    }
    state->queue_bytes = queue->bytes;
    state->queue_pkts = queue->pkts;
    state->stats.queue_max_bytes = ncc_max_u64(state->stats.queue_max_bytes, queue->bytes);
}

#ifdef NCC_PROGRAM
#include "switch_program.h"

/* Sees each packet that arrives over a port's link. */
SEC("tc") int ncc_switch_reverse(struct __sk_buff *skb)
{
    const __u32 index = skb->ifindex - NCC_SWITCH_FIRST_INDEX;
    const struct ncc_switch_port *port = bpf_map_lookup_elem(&ports, &index);
    struct ncc_switch_queue queue;
    const struct net_device *device;
    int signal;

    if (!port || !port->rate_bytes_per_s || !port->finite || skb->protocol != bpf_htons(NCC_ETH_P_IP))
        return TC_ACT_UNSPEC;
    device = ((struct sk_buff *)bpf_cast_to_kern_ctx(skb))->dev;
    signal = signal_become(skb, device->hard_header_len);
    if (signal)
        return signal > 0 ? TC_ACT_UNSPEC : TC_ACT_SHOT;
    read_queue(device, &queue);
    program_reverse(skb, index, port, &queue, device->hard_header_len);
    return TC_ACT_UNSPEC;
}
#endif

SEC("tc") int ncc_switch_join(struct __sk_buff *skb)
{
    const __u32 index = skb->ifindex - NCC_SWITCH_FIRST_INDEX;
    const __u32 segments = skb->gso_segs ? skb->gso_segs : 1;
    const struct ncc_switch_port *port = bpf_map_lookup_elem(&ports, &index);
    struct port_state *state = bpf_map_lookup_elem(&states, &index);
    const struct ncc_switch_pool *pool;
    struct ncc_switch_queue queue;
    enum ncc_verdict verdict = NCC_PASS;
    const struct net_device *device;
    ncc_u64 packet_bytes, used = 0, now_ns;
    int marked = 0, lost_data = 0;
    struct tcp_packet seen;
    __u8 tos = 0;

    if (!port || !state || !port->rate_bytes_per_s || skb->protocol != bpf_htons(NCC_ETH_P_IP) ||
        bpf_skb_load_bytes_relative(skb, 1, &tos, 1, BPF_HDR_START_NET))
        return TC_ACT_UNSPEC;
    device = ((struct sk_buff *)bpf_cast_to_kern_ctx(skb))->dev;
    state->device = (ncc_u64)device;
    packet_bytes = skb->wire_len - (ncc_u64)segments * device->hard_header_len;
    read_queue(device, &queue);
    if (port->finite) {
        const ncc_u64 random = (ncc_u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
        const __u32 shared = port->pool;

        pool = shared == NCC_SWITCH_NO_POOL ? (void *)0 : bpf_map_lookup_elem(&pools, &shared);
        if (pool)
            used = used_bytes(pool);
        verdict = ncc_switch_admit(port, pool, queue.bytes, used, packet_bytes, (tos & 3) != 0, random);
#ifdef NCC_PROGRAM
        struct ncc_cc_signal signal = {};

        verdict = program_enqueue(skb, index, port, &queue, packet_bytes, (tos & 3) != 0, verdict, &signal);
        if (signal.kind)
            signal_send(skb, &signal);
#endif
        skb->priority = NCC_ORDER_FIRST + (tos >> 5); /* its class (tag.bpf.c) */
        if (verdict == NCC_MARK)
            marked = bpf_skb_ecn_set_ce(skb) != 0;
        if (verdict == NCC_DROP)
            lost_data = read_tcp(skb, &seen) && seen.payload_bytes;
    }
    now_ns = bpf_ktime_get_ns();
    bpf_spin_lock(&state->lock);
    advance(state, port, &queue, now_ns);
    if (verdict == NCC_DROP) {
        state->stats.dropped_pkts += segments;
        state->stats.dropped_data_pkts += lost_data ? segments : 0;
    } else {
        state->stats.joined_pkts += segments;
        state->stats.joined_bytes += packet_bytes;
        state->stats.marked_pkts += marked ? segments : 0;
        state->stats.largest_bytes = ncc_max_u64(state->stats.largest_bytes, packet_bytes);
        if (queue.pkts) { /* a packet that joins an empty queue does not wait */
            state->queue_bytes += packet_bytes;
            state->queue_pkts++;
            state->stats.queue_max_bytes = ncc_max_u64(state->stats.queue_max_bytes, state->queue_bytes);
        }
    }
    bpf_spin_unlock(&state->lock);
    return verdict == NCC_DROP ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

/* Brings the statistics of all ports up to now. */
SEC("syscall") int ncc_switch_sample(void *context __attribute__((unused)))
{
    for (__u32 i = 0; i < NCC_SWITCH_PORTS; i++) {
        const __u32 index = i;
        const struct ncc_switch_port *port = bpf_map_lookup_elem(&ports, &index);
        struct port_state *state = bpf_map_lookup_elem(&states, &index);
        struct ncc_switch_stats *out = bpf_map_lookup_elem(&port_stats, &index);
        struct ncc_switch_queue queue = {};
        ncc_u64 now_ns;

        if (!port || !state || !out || !port->rate_bytes_per_s)
            break;
        if (state->device)
            read_queue(device_at(state->device), &queue);
        now_ns = bpf_ktime_get_ns();
        bpf_spin_lock(&state->lock);
        advance(state, port, &queue, now_ns);
        state->stats.now_ns = now_ns;
        state->stats.tx_pkts = queue.tx_pkts;
        state->stats.tx_bytes = queue.tx_bytes;
        state->stats.queue_bytes = queue.bytes;
        state->stats.queue_pkts = queue.pkts;
        *out = state->stats;
        bpf_spin_unlock(&state->lock);
    }
    return 0;
}
