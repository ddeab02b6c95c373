/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A tag of baselines/tags (flow_tag.h) as a tc program at a host: it writes the class of each data packet into the
 * upper three bits of the DSCP (RFC 2474, class selectors). Ports with classes queue the packet by it (switch.bpf.c).
 * Other packets keep class 0. A flow is a message (message.h). Ranks are not used: no port here serves by rank.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "flow_tag.h"
#include "message.h"
#include "packet.h"

#include NCC_TAG_HEADER

char LICENSE[] SEC("license") = "GPL";

/* Written by user space before the program is loaded: parameters in table order. */
const volatile ncc_u64 tag_params[NCC_CC_PARAMS_MAX] SEC(".rodata.tag") = {};

/* Writes a class into the header and corrects its checksum. */
static __always_inline void mark_class(struct __sk_buff *skb, __u32 prio)
{
    const __u32 link_bytes = ((struct sk_buff *)bpf_cast_to_kern_ctx(skb))->dev->hard_header_len;
    __u8 word[2]; /* version and header length, then DSCP and ECN */
    __be16 before, after;

    if (bpf_skb_load_bytes_relative(skb, 0, word, sizeof(word), BPF_HDR_START_NET))
        return;
    before = bpf_htons(word[0] << 8 | word[1]);
    word[1] = (word[1] & 3) | (prio > 7 ? 7 : prio) << 5;
    after = bpf_htons(word[0] << 8 | word[1]);
    if (before == after)
        return;
    bpf_l3_csum_replace(skb, link_bytes + 10, before, after, sizeof(after));
    bpf_skb_store_bytes(skb, link_bytes + 1, word + 1, 1, 0);
}

SEC("tc") int ncc_tag(struct __sk_buff *skb)
{
    const ncc_u64 *p = (const ncc_u64 *)tag_params;
    struct bpf_sock *sk = skb->sk;
    struct ncc_tag_packet packet = {};
    struct ncc_tag_out out = {};
    struct tcp_sock *tp;
    struct message *m;
    struct tcp_packet seen;
    __u32 una;

    asm volatile("" : "+r"(p)); /* otherwise the compiler uses the zeros above */
    if (!sk || skb->protocol != bpf_htons(NCC_ETH_P_IP) || !read_tcp(skb, &seen))
        return TC_ACT_UNSPEC;
    tp = bpf_skc_to_tcp_sock(sk);
    m = message_of(tp);
    if (!m || !seen.payload_bytes)
        return TC_ACT_UNSPEC;
    una = tp->snd_una;
    message_begins(m, una);
    message_hinted(m);
    packet.offset_bytes = (__s32)(seen.sequence - m->begin) > 0 ? seen.sequence - m->begin : 0;
    packet.payload_bytes = seen.payload_bytes;
    packet.size_bytes = message_known(m, una, tp->write_seq);
    packet.delivered_bytes = una - m->begin;
    PASTE(NCC_TAG, tag)(p, &packet, &out);
    mark_class(skb, out.prio);
    return TC_ACT_UNSPEC;
}
