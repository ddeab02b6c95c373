/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The program of baselines/ (switch.h) that the switch's ports run: NCC_PROGRAM, from NCC_PROGRAM_HEADER. Its hooks are
 * called as in simulators, with these differences. The timer runs at the first packet after its time. Flows are known
 * by their returning SYN-ACKs, which carry the window scale; a repeated SYN-ACK or FIN counts once. `reverse` is called
 * for packets of open flows that have the ACK flag, without their payload, class, rank or ECN. `enqueue` gets no CE,
 * class or rank. `flow` is the sender's TCP port.
 */
#ifndef NCC_SWITCH_PROGRAM_H
#define NCC_SWITCH_PROGRAM_H

#include "signal_frame.h"
#include "switch.h"
#undef NCC_SW_ROW_ /* the header's row, as constants */
#define NCC_SW_ROW_(name_, needs_, summary_, state_max_, ...)                                                          \
    enum { name_##_needs = (needs_) };                                                                                 \
    _Static_assert(sizeof(struct name_##_state) <= (state_max_), "state is larger than a port has room for");          \
    _Static_assert((name_##_needs & ~(NCC_SW_KERNEL)) == 0, "a hook that the kernel does not have");
#include NCC_PROGRAM_HEADER

#define PROGRAM(what) PASTE(NCC_PROGRAM, what)

/* Written by user space before the program is loaded. */
const volatile struct ncc_switch_program program SEC(".rodata.program") = {};

struct program_state {
    struct bpf_spin_lock lock;
    __u32 started;
    ncc_u64 due_ns; /* 0: no timer */
    struct PROGRAM(state) of;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, NCC_SWITCH_PORTS);
    __type(key, __u32);
    __type(value, struct program_state);
} program_states SEC(".maps");

/* A flow whose data leaves by a port, named as in its returning packets. */
struct program_flow {
    __u32 port;
    __be32 source, destination;
    __be16 source_port, destination_port;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1 << 16);
    __type(key, struct program_flow);
    __type(value, __u32); /* window scale */
} program_flows SEC(".maps");

enum { TCP_FIN = 1, TCP_SYN = 2, TCP_ACK = 16, TCP_OPTION_SCALE = 3 };

/* Names the flow of a packet at a port; `back`: the packet comes from the flow's receiver. */
static __always_inline void name_flow(struct program_flow *flow, __u32 port, const struct tcp_packet *packet, int back)
{
    flow->port = port;
    flow->source = back ? packet->source : packet->destination;
    flow->destination = back ? packet->destination : packet->source;
    flow->source_port = back ? packet->source_port : packet->destination_port;
    flow->destination_port = back ? packet->destination_port : packet->source_port;
}

/* Returns the shift of the window scale option (RFC 7323); 0 without one. */
static __always_inline __u32 window_scale(struct __sk_buff *skb, const struct tcp_packet *packet)
{
    __u32 at = packet->ip_bytes + 20;
    const __u32 end = packet->ip_bytes + packet->tcp_bytes;

    for (int i = 0; i < 40 && at < end; i++) {
        __u8 option[3] = {};

        if (bpf_skb_load_bytes_relative(skb, at, option, at + 3 <= end ? 3 : 1, BPF_HDR_START_NET) || !option[0])
            break;
        if (option[0] == TCP_OPTION_SCALE)
            return option[2] <= 14 ? option[2] : 14;
        at += option[0] == 1 ? 1 : option[1] < 2 ? 40 : option[1];
    }
    return 0;
}

static __always_inline const ncc_u64 *program_params(void)
{
    const ncc_u64 *p = (const ncc_u64 *)program.params;

    asm volatile("" : "+r"(p)); /* otherwise the compiler uses the zeros above */
    return p;
}

/* The port as programs see it. */
static __always_inline void port_seen(struct ncc_sw_port *seen, const struct ncc_switch_port *port,
                                      const struct ncc_switch_queue *queue)
{
    seen->now_ns = bpf_ktime_get_ns();
    seen->rate_bytes_per_s = port->rate_bytes_per_s;
    seen->size_bytes = port->size_bytes;
    seen->queue_bytes = queue->bytes;
    seen->tx_bytes = queue->tx_bytes;
    seen->ingress_bytes = 0;
    seen->mtu_bytes = *(const volatile __u32 *)&program.mtu_bytes;
    seen->random = bpf_get_prandom_u32();
}

/* Starts the program, and calls its timer if that is due. The caller holds the lock. */
static __always_inline void program_tick(struct program_state *state, const ncc_u64 *p, const struct ncc_sw_port *seen)
{
    struct ncc_sw_out out = {};

    if (!state->started)
        PROGRAM(init)(&state->of, p, seen, &out);
    else if (state->due_ns && seen->now_ns >= state->due_ns)
        PROGRAM(timer)(&state->of, p, seen, &out);
    else
        return;
    state->started = 1;
    state->due_ns = out.timer_ns ? seen->now_ns + out.timer_ns : 0;
}

/* Calls `enqueue` for a packet that joins a port. Returns the verdict; sets `signal` for the packet's sender. */
static __always_inline enum ncc_verdict program_enqueue(struct __sk_buff *skb, __u32 index,
                                                        const struct ncc_switch_port *port,
                                                        const struct ncc_switch_queue *queue, __u32 packet_bytes,
                                                        int ecn_capable, enum ncc_verdict verdict,
                                                        struct ncc_cc_signal *signal)
{
    struct program_state *state = bpf_map_lookup_elem(&program_states, &index);
    const ncc_u64 *p = program_params();
    struct ncc_sw_packet seen = {};
    struct ncc_sw_out out = {};
    struct program_flow flow = {};
    struct tcp_packet packet;
    struct ncc_sw_port at;

    if (!state || !read_tcp(skb, &packet))
        return verdict;
    name_flow(&flow, index, &packet, 0);
    seen.flow = packet.source_port;
    seen.bytes = packet_bytes;
    seen.payload_bytes = packet.payload_bytes;
    seen.flags = ecn_capable ? NCC_SW_ECT : 0;
    seen.hops = packet.hops;
    if (bpf_map_lookup_elem(&program_flows, &flow))
        seen.flags |= NCC_SW_TO_RECEIVER | (packet.flags & TCP_FIN ? NCC_SW_FIN : 0);
    port_seen(&at, port, queue);
    bpf_spin_lock(&state->lock);
    program_tick(state, p, &at);
    out.verdict = verdict;
    PROGRAM(enqueue)(&state->of, p, &at, &seen, &out);
    if (out.timer_ns)
        state->due_ns = at.now_ns + out.timer_ns;
    bpf_spin_unlock(&state->lock);
    if (seen.payload_bytes)
        *signal = out.signal;
    if (out.verdict > verdict && (out.verdict == NCC_DROP || ecn_capable))
        verdict = out.verdict;
    if ((seen.flags & NCC_SW_FIN) && verdict != NCC_DROP)
        bpf_map_delete_elem(&program_flows, &flow);
    return verdict;
}

/* Sends a signal to a packet's sender: a copy goes back to the port where the packet came in, and becomes it there. */
static __always_inline void signal_send(struct __sk_buff *skb, const struct ncc_cc_signal *signal)
{
    const __u32 mark = skb->mark;

    skb->mark = NCC_SIGNAL_MARK | (signal->kind & 255) << 8 | (signal->value & 255);
    bpf_clone_redirect(skb, skb->ingress_ifindex, BPF_F_INGRESS);
    skb->mark = mark;
}

/* Turns such a copy into a signal, which the switch then forwards by its address. Returns 0 for any other packet, and
 * -1 if the kernel refuses. */
static __always_inline int signal_become(struct __sk_buff *skb, __u32 link_bytes)
{
    __u8 ip[20], address[4];
    __u64 sum;

    if ((skb->mark & 0xFFFF0000u) != NCC_SIGNAL_MARK ||
        bpf_skb_load_bytes_relative(skb, 0, ip, sizeof(ip), BPF_HDR_START_NET))
        return 0;
    ip[1] = 0;
    ip[2] = 0;
    ip[3] = NCC_SW_SIGNAL_BYTES;
    ip[4] = skb->mark >> 8 & 255; /* kind */
    ip[5] = skb->mark & 255;      /* value */
    ip[8] = NCC_SIGNAL_TTL;
    ip[9] = NCC_SIGNAL_PROTOCOL;
    ip[10] = ip[11] = 0;
    __builtin_memcpy(address, ip + 12, 4);
    __builtin_memcpy(ip + 12, ip + 16, 4);
    __builtin_memcpy(ip + 16, address, 4);
    sum = bpf_csum_diff(0, 0, (__be32 *)ip, sizeof(ip), 0);
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = ~((sum & 0xFFFF) + (sum >> 16));
    __builtin_memcpy(ip + 10, &sum, 2);
    skb->mark = 0;
    if (bpf_skb_change_tail(skb, link_bytes + NCC_SW_SIGNAL_BYTES, 0) ||
        bpf_skb_store_bytes(skb, link_bytes, ip, sizeof(ip), 0))
        return -1;
    bpf_skb_change_type(skb, 0); /* PACKET_HOST: the link's address is that of the other way */
    return 1;
}

/* Calls `reverse` for a packet that comes over a port's link, and lowers its window. `link_bytes`: header before IP. */
static __always_inline void program_reverse(struct __sk_buff *skb, __u32 index, const struct ncc_switch_port *port,
                                            const struct ncc_switch_queue *queue, __u32 link_bytes)
{
    struct program_state *state = bpf_map_lookup_elem(&program_states, &index);
    const ncc_u64 *p = program_params();
    struct ncc_sw_packet seen = {};
    struct ncc_sw_out out = {};
    struct program_flow flow = {};
    struct tcp_packet packet;
    struct ncc_sw_port at;
    __u32 shift = 0, known, field, least;
    const __u32 *scale;

    if (!state || !read_tcp(skb, &packet) || !(packet.flags & TCP_ACK))
        return;
    name_flow(&flow, index, &packet, 1);
    scale = bpf_map_lookup_elem(&program_flows, &flow);
    seen.flags = NCC_SW_HAS_WINDOW;
    if (packet.flags & TCP_SYN) {
        if (!scale) {
            shift = window_scale(skb, &packet);
            bpf_map_update_elem(&program_flows, &flow, &shift, 0);
            seen.flags |= NCC_SW_SYN_ACK;
        }
        shift = 0; /* of the SYN-ACK's own window */
    } else if (scale) {
        shift = *scale & 15;
    } else {
        return; /* it belongs to no flow whose data leaves here */
    }
    known = bpf_ntohs(packet.window);
    seen.flow = packet.destination_port;
    seen.bytes = packet.ip_bytes + packet.tcp_bytes;
    seen.window_bytes = (ncc_u64)known << shift;
    port_seen(&at, port, queue);
    bpf_spin_lock(&state->lock);
    program_tick(state, p, &at);
    PROGRAM(reverse)(&state->of, p, &at, &seen, &out);
    if (out.timer_ns)
        state->due_ns = at.now_ns + out.timer_ns;
    bpf_spin_unlock(&state->lock);
    /* As LoweredWindow of envs/native/programs.h: never below a full packet. */
    least = ((at.mtu_bytes - 41) >> shift) + 1;
    field = ncc_min_u64(known, ncc_max_u64(seen.window_bytes >> shift, least));
    if (field < known) {
        const __u32 offset = link_bytes + packet.ip_bytes;
        const __be16 lowered = bpf_htons(field);

        bpf_l4_csum_replace(skb, offset + 16, packet.window, lowered, sizeof(lowered));
        bpf_skb_store_bytes(skb, offset + 14, &lowered, sizeof(lowered), 0);
    }
}

#endif
