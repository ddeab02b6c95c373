/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A switch's signal to a sender (NCC_SW_SIGNALS) as a packet: the first 64 bytes of the packet that caused it, with the
 * IP addresses exchanged and a protocol number of its own. The sender's TCP header follows the IP header; its ports
 * identify the connection. The IP identification field holds kind and value.
 */
#ifndef NCC_SIGNAL_FRAME_H
#define NCC_SIGNAL_FRAME_H

#define NCC_SIGNAL_PROTOCOL 253 /* for experiments (RFC 3692) */
#define NCC_SIGNAL_TTL 64

/* skb->mark of a copy that becomes a signal, inside the switch: this in the upper half, then kind and value. */
#define NCC_SIGNAL_MARK 0x4E430000u

#endif
