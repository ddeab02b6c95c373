/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A switch's word to a sender (NCC_SW_SIGNALS) as a packet: the first 64 bytes of the packet that it is about, with the
 * addresses of IP exchanged and a protocol of its own. What follows the IP header is the TCP header that the sender
 * wrote, whose ports name the connection. Kind and value are the packet's identification.
 */
#ifndef NCC_SIGNAL_FRAME_H
#define NCC_SIGNAL_FRAME_H

#define NCC_SIGNAL_PROTOCOL 253 /* for experiments (RFC 3692) */
#define NCC_SIGNAL_TTL 64

/* Mark of a copy of a packet that is to become a signal, within the switch: upper half this, then kind and value. */
#define NCC_SIGNAL_MARK 0x4E430000u

#endif
