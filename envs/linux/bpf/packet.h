/* SPDX-License-Identifier: GPL-2.0-only */
/* A TCP packet, as tc programs read it. */
#ifndef NCC_PACKET_H
#define NCC_PACKET_H

struct tcp_packet {
    __u32 ip_bytes, tcp_bytes, payload_bytes; /* of the headers, and after them */
    __u32 hops;                               /* of a packet that began with a TTL of 64 */
    __u32 sequence;
    __be32 source, destination;
    __be16 source_port, destination_port;
    __u8 flags;
    __be16 window;
};

/* Returns 1 if a packet is one of TCP, and reads it. */
static __always_inline int read_tcp(struct __sk_buff *skb, struct tcp_packet *packet)
{
    __u8 ip[20], tcp[16];
    __u32 bytes;

    if (bpf_skb_load_bytes_relative(skb, 0, ip, sizeof(ip), BPF_HDR_START_NET) || ip[9] != NCC_TCP)
        return 0;
    packet->ip_bytes = (ip[0] & 15) * 4;
    packet->hops = 64 - ip[8];
    if (bpf_skb_load_bytes_relative(skb, packet->ip_bytes, tcp, sizeof(tcp), BPF_HDR_START_NET))
        return 0;
    __builtin_memcpy(&packet->source, ip + 12, 4);
    __builtin_memcpy(&packet->destination, ip + 16, 4);
    __builtin_memcpy(&packet->source_port, tcp, 2);
    __builtin_memcpy(&packet->destination_port, tcp + 2, 2);
    packet->sequence = (__u32)tcp[4] << 24 | tcp[5] << 16 | tcp[6] << 8 | tcp[7];
    packet->tcp_bytes = (tcp[12] >> 4) * 4;
    packet->flags = tcp[13];
    __builtin_memcpy(&packet->window, tcp + 14, 2);
    bytes = ip[2] << 8 | ip[3];
    packet->payload_bytes = bytes - ncc_min_u64(bytes, packet->ip_bytes + packet->tcp_bytes);
    return 1;
}

#endif
