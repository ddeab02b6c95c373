/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An order among the packets of a host, as a tc program before the host's queue (queue.py): it names the class in which
 * a packet waits. The queue is an HTB inside an HTB. Each takes the class in `skb->priority` before it looks at any
 * filter; if that class belongs to the other HTB, it takes its default class.
 *
 * The order is by the known bytes of a message (message.h). A message only moves to later classes, so none of its
 * packets overtakes another. Packets without payload go first. Other protocols, and packets that the host forwards, are
 * outside the order.
 *
 * Few packets are outside the host's limit: those that keep its link up, sent by itself. If user space is silent, all
 * packets go to a class outside the host's limit.
 */
#include "kernel.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "message.h"

#define NCC_ETH_P_IPV6 0x86DD
#define NCC_ETH_P_ARP 0x0806
#define NCC_ETH_P_SLOW 0x8809 /* LACP */
#define NCC_ETH_P_EAPOL 0x888E
#define NCC_ETH_P_LLDP 0x88CC
#define NCC_TCP_FIN 1
#define NCC_ICMPV6 58
#define NCC_IPV6_BYTES 40

char LICENSE[] SEC("license") = "GPL";

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct ncc_order_config);
} config SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct ncc_order_counts);
} counts SEC(".maps");

static __always_inline void order_count(ncc_u64 *counter) { __sync_fetch_and_add(counter, 1); }

static __always_inline int order_obeys(const struct ncc_order_config *c)
{
    __u64 beat_ns = *(volatile const ncc_u64 *)&c->beat_ns, now_ns = bpf_ktime_get_ns();

    return ncc_alive(beat_ns, now_ns, c->timeout_ns);
}

enum order_kind { ORDER_LINK, ORDER_NO_TCP, ORDER_EMPTY, ORDER_END, ORDER_PAYLOAD };

/* Returns 1 for the types of frames that keep a link up. */
static __always_inline int order_keeps_link(__u32 type)
{
    return type == NCC_ETH_P_ARP || type == NCC_ETH_P_SLOW || type == NCC_ETH_P_EAPOL || type == NCC_ETH_P_LLDP;
}

/* Returns the kind of a packet. IPv6 neighbour discovery keeps a link up, like ARP. */
static __always_inline enum order_kind order_kind(struct __sk_buff *skb)
{
    __u8 head[NCC_IPV6_BYTES], tcp[2], protocol;
    __u32 header_bytes, bytes;

    if (skb->protocol == bpf_htons(NCC_ETH_P_IP)) {
        if (bpf_skb_load_bytes_relative(skb, 0, head, 20, BPF_HDR_START_NET))
            return ORDER_NO_TCP;
        header_bytes = (head[0] & 15) * 4;
        bytes = head[2] << 8 | head[3];
        protocol = head[9];
    } else if (skb->protocol == bpf_htons(NCC_ETH_P_IPV6)) {
        if (bpf_skb_load_bytes_relative(skb, 0, head, NCC_IPV6_BYTES, BPF_HDR_START_NET))
            return ORDER_NO_TCP;
        header_bytes = NCC_IPV6_BYTES;
        bytes = head[4] << 8 | head[5];
        bytes = bytes ? bytes + NCC_IPV6_BYTES : 0;
        protocol = head[6];
    } else {
        return order_keeps_link(bpf_ntohs(skb->protocol)) ? ORDER_LINK : ORDER_NO_TCP;
    }
    if (protocol == NCC_ICMPV6 && !bpf_skb_load_bytes_relative(skb, header_bytes, tcp, 1, BPF_HDR_START_NET))
        return head[7] == 255 && tcp[0] >= 133 && tcp[0] <= 137 ? ORDER_LINK : ORDER_NO_TCP; /* RFC 4861 */
    if (protocol != NCC_TCP || bpf_skb_load_bytes_relative(skb, header_bytes + 12, tcp, 2, BPF_HDR_START_NET))
        return ORDER_NO_TCP;
    if (!bytes || bytes > header_bytes + (tcp[0] >> 4) * 4) /* 0: it is segmented later */
        return ORDER_PAYLOAD;
    return tcp[1] & NCC_TCP_FIN ? ORDER_END : ORDER_EMPTY;
}

/* Returns the class of a packet with payload, or of a FIN, which must stay behind its connection's payload. */
static __always_inline __u32 order_of(struct __sk_buff *skb, enum order_kind kind, const struct ncc_order_config *c,
                                      struct ncc_order_counts *counted)
{
    struct bpf_sock *sk = skb->sk;
    struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;
    struct message *m = message_of(tp);
    __u32 una, written, class;

    if (!m)
        return NCC_ORDER_LAST;
    una = tp->snd_una;
    written = tp->write_seq;
    if (kind == ORDER_END)
        return NCC_ORDER_FIRST + ((__s32)(una - m->end) < 0 ? m->class & (NCC_ORDER_CLASSES - 1) : 0);
    if (message_begins(m, una))
        order_count(&counted->messages);
    if (message_hinted(m))
        order_count(&counted->hinted);
    class = ncc_order_class(c, message_known(m, una, written));
    if (class > m->class) {
        m->class = class;
        order_count(&counted->demotions);
    }
    return NCC_ORDER_FIRST + (m->class & (NCC_ORDER_CLASSES - 1));
}

SEC("tc") int ncc_order(struct __sk_buff *skb)
{
    __u32 zero = 0;
    const struct ncc_order_config *c = bpf_map_lookup_elem(&config, &zero);
    struct ncc_order_counts *counted = bpf_map_lookup_elem(&counts, &zero);
    enum order_kind kind;
    int forwarded = skb->ingress_ifindex != 0; /* it came in by another device, also from a container */

    if (!c || !counted || skb->priority == NCC_ORDER_OPEN) /* a socket sets it with CAP_NET_ADMIN */
        return TC_ACT_UNSPEC;
    kind = order_kind(skb);
    if (!order_obeys(c)) {
        order_count(&counted->silent_pkts);
        skb->priority = NCC_ORDER_OPEN;
    } else if (forwarded || kind == ORDER_NO_TCP) { /* one with payload stays behind the one before it */
        skb->priority = kind < ORDER_END && skb->len <= NCC_ORDER_SMALL_BYTES ? NCC_ORDER_EARLY : NCC_ORDER_REST;
    } else if (kind == ORDER_LINK) {
        skb->priority = NCC_ORDER_LINK;
    } else if (kind == ORDER_EMPTY) {
        skb->priority = NCC_ORDER_FIRST;
    } else if (c->mode != NCC_ORDER_KNOWN) {
        skb->priority = NCC_ORDER_LAST;
    } else {
        skb->priority = order_of(skb, kind, c, counted);
    }
    return TC_ACT_UNSPEC;
}
