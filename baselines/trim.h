/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cut Payload (Cheng et al., NSDI 2014, section 3), and the switches of NDP (Handley et al., SIGCOMM 2017, section
 * 3.1). A packet that finds a long queue loses its payload, and its header goes on, so that the receiver can tell the
 * sender at once what was lost. Hosts that send again at once could fill a line with headers. So at most
 * `headers_per_data` packets are trimmed for each packet that leaves whole. Further packets are dropped.
 */
#ifndef NCC_TRIM_H
#define NCC_TRIM_H

#include "switch.h"

enum { TRIM_OVER, TRIM_HEADERS, TRIM_ROOM };

static const struct ncc_cc_param trim_params[] = {
    {"over_bytes", 12000, NCC_SW_TRIM_BYTES, 1099511627776,
     "bytes of waiting data, with the packet, above which it is trimmed unless no data waits; 8 packets of 1500 bytes "
     "(Handley 2017, section 3.1)"},
    {"headers_per_data", 10, 1, 1000,
     "packets trimmed for each that leaves whole; ours, for the turns of 10 headers to a packet (Handley 2017, section "
     "3.1)"},
    {"header_bytes", 0, 0, 1099511627776,
     "room for headers, of 64 bytes each; ours, where switches do not return headers that find none to their senders "
     "(Handley 2017, section 3.2.4). 0: as much as for data (section 3.1)"},
};

struct trim_state {
    ncc_u64 data_bytes; /* packets with payload that wait: headers alone must not keep data out */
    ncc_u64 may_trim;   /* packets; at first and at most as many headers as have room */
};

/* Packets that may be trimmed when none has left whole for long. */
NCC_CC_FN ncc_u64 trim_room_pkts(const ncc_u64 *p)
{
    return (p[TRIM_ROOM] ? p[TRIM_ROOM] : p[TRIM_OVER]) / NCC_SW_TRIM_BYTES;
}

NCC_CC_FN void trim_init(struct trim_state *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_out *o)
{
    (void)q, (void)o;
    s->may_trim = trim_room_pkts(p);
}

NCC_CC_FN void trim_enqueue(struct trim_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                            struct ncc_sw_packet *k, struct ncc_sw_out *o)
{
    (void)q;
    if (!k->payload_bytes || o->verdict == NCC_DROP)
        return;
    if (!s->data_bytes || s->data_bytes + k->bytes <= p[TRIM_OVER]) {
        s->data_bytes += k->bytes;
    } else if (s->may_trim) {
        --s->may_trim;
        o->verdict = NCC_TRIM;
    } else {
        o->verdict = NCC_DROP;
    }
}

NCC_CC_FN void trim_dequeue(struct trim_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,
                            struct ncc_sw_packet *k, struct ncc_sw_out *o)
{
    (void)q, (void)o;
    if (!k->payload_bytes)
        return;
    s->data_bytes -= k->bytes;
    s->may_trim = ncc_min_u64(s->may_trim + p[TRIM_HEADERS], trim_room_pkts(p));
}

NCC_SW_NO_HOOK(trim, reverse)
NCC_SW_NO_TIMER(trim)
NCC_SW_REGISTER(trim, NCC_SW_ENQUEUE | NCC_SW_DEQUEUE | NCC_SW_TRIMS,
                "cuts the payload off above a queue's length (Cheng 2014; NDP)")

#endif
