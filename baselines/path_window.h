/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The window of controllers that compare a path with its base RTT: HPCC and PowerTCP. It is not a controller itself.
 *
 * The window is paced over the base RTT: rate = window / RTT. It may be smaller than a packet: the flow then sends
 * single packets at that rate. A reference window is kept for a round trip. A loss changes nothing, because the papers'
 * fabrics lose nothing. After a timeout the window is one packet and grows by what is delivered, until the losses are
 * repaired.
 */
#ifndef NCC_PATH_WINDOW_H
#define NCC_PATH_WINDOW_H

#include "cc.h"

#define NCC_PATH_SHIFT 20 /* loads of the path are in 2^-20 */
#define NCC_PATH_ONE (1U << NCC_PATH_SHIFT)
#define NCC_PATH_LOAD_MAX 0xffffffU  /* 16: larger loads count as this */
#define NCC_PATH_RTT_MAX 0x7fffffffU /* 2.1 s: longer base RTTs count as this */
#define NCC_PATH_LEAST_FRAC 100      /* the smallest window is 1/100 packet (ours) */

#define NCC_PATH_PARAM_BASE_RTT                                                                                        \
    {"base_rtt_ns", 0, 0, NCC_PATH_RTT_MAX,                                                                            \
     "ns: RTT without queues, T of the paper; 0: the smallest that the connection has measured with full packets"}

struct ncc_path_window {
    ncc_u64 cwnd_bytes;
    ncc_u64 reference_bytes;  /* the window of a round trip ago */
    ncc_u64 round_end_bytes;  /* nxt when the reference was set */
    ncc_u32 base_rtt_ns : 31; /* smallest sample of full packets; 0: none yet */
    ncc_u32 repairing : 1;    /* after a timeout, until all is repaired */
    ncc_u32 load_q20 : 24;    /* smoothed over a base RTT */
    ncc_u32 stage : 4;        /* HPCC's incStage */
    ncc_u32 n_hops : 4;       /* in `struct ncc_path_hops`; 0: nothing remembered */
};

/* Telemetry of the last data, by port. Numbers are modulo 2^32: 4 GB, and 4.3 s. */
struct ncc_path_hops {
    ncc_u32 queue_bytes[NCC_CC_HOPS_MAX];
    ncc_u32 tx_bytes[NCC_CC_HOPS_MAX];
    ncc_u32 at_ns[NCC_CC_HOPS_MAX];
};

/* The base RTT: as given, or measured; 0: not known. */
NCC_CC_FN ncc_u64 ncc_path_base(const struct ncc_path_window *w, ncc_u64 given_ns)
{
    return given_ns ? given_ns : w->base_rtt_ns;
}

/* Bytes that a link of this rate carries in `ns`, up to 2^32 ns, in 1/64 byte; at least 1/64. */
NCC_CC_FN ncc_u64 ncc_path_carries_64th(ncc_u64 bytes_per_s, ncc_u64 ns)
{
    return ncc_max_u64(ncc_min_u64(bytes_per_s, 1ULL << 41) / 1000 * ns / 15625, 1);
}

/* The host's line; 10 Gbit/s where it is not known. */
NCC_CC_FN ncc_u64 ncc_path_line(const struct ncc_cc_conn *c)
{
    return c->line_bytes_per_s ? c->line_bytes_per_s : 1250000000ULL;
}

/* Bytes that the host's line carries in a base RTT; at least one packet. */
NCC_CC_FN ncc_u64 ncc_path_bdp(const struct ncc_cc_conn *c, ncc_u64 base_ns)
{
    return ncc_max_u64(ncc_path_carries_64th(ncc_path_line(c), base_ns) / 64, c->mss_bytes);
}

NCC_CC_FN ncc_u64 ncc_path_clamp(const struct ncc_cc_conn *c, ncc_u64 bytes)
{
    return ncc_min_u64(ncc_max_u64(bytes, ncc_max_u64(c->mss_bytes / NCC_PATH_LEAST_FRAC, 1)), NCC_CC_CWND_MAX);
}

NCC_CC_FN void ncc_path_out(const struct ncc_path_window *w, const struct ncc_cc_conn *c, ncc_u64 base_ns,
                            struct ncc_cc_out *o)
{
    const ncc_u64 cwnd = w->cwnd_bytes;
    ncc_u64 rate = 0;

    if (base_ns) {
        rate = cwnd < 1ULL << 34 ? cwnd * NCC_NS_PER_S / base_ns
                                 : ncc_min_u64((cwnd >> 10) * NCC_NS_PER_S / base_ns, NCC_CC_PACING_MAX >> 10) << 10;
        rate = ncc_min_u64(ncc_max_u64(rate, 10ULL * c->mss_bytes), NCC_CC_PACING_MAX); /* ACKs at 10 Hz can lift it */
    }
    o->cwnd_bytes = ncc_max_u64(cwnd, c->mss_bytes);
    o->ssthresh_bytes = NCC_CC_CWND_MAX;
    o->pacing_bytes_per_s = rate; /* unpaced until an RTT is known */
}

/* A flow starts at the rate of its line. Without a base RTT that is given it has the host's initial window at first. */
NCC_CC_FN void ncc_path_init(struct ncc_path_window *w, const struct ncc_cc_conn *c, ncc_u64 given_ns,
                             struct ncc_cc_out *o)
{
    const ncc_u64 first = given_ns && c->line_bytes_per_s ? ncc_path_bdp(c, given_ns) : c->init_cwnd_bytes;

    w->cwnd_bytes = w->reference_bytes = ncc_path_clamp(c, ncc_max_u64(first, c->mss_bytes));
    w->load_q20 = NCC_PATH_ONE;
    ncc_path_out(w, c, given_ns, o);
}

/* Call first on every ACK. Returns true if the window is that of a repair, which this ACK has grown. Small packets take
 * less time on every link, so that their samples count for no base RTT. */
NCC_CC_FN int ncc_path_acked(struct ncc_path_window *w, const struct ncc_cc_conn *c, const struct ncc_cc_event *e)
{
    if (e->rtt_ns && e->delivered_bytes && e->delivered_bytes % c->mss_bytes == 0 &&
        (!w->base_rtt_ns || e->rtt_ns < w->base_rtt_ns))
        w->base_rtt_ns = (ncc_u32)ncc_min_u64(e->rtt_ns, NCC_PATH_RTT_MAX) & NCC_PATH_RTT_MAX;
    if (!w->repairing)
        return 0;
    w->repairing = (e->flags & NCC_CC_ACK_IN_RECOVERY) != 0;
    w->cwnd_bytes =
        w->repairing ? ncc_min_u64(w->cwnd_bytes + e->delivered_bytes, w->reference_bytes) : w->reference_bytes;
    return 1;
}

/* True if data sent after the reference was set is acknowledged: a new round begins. */
NCC_CC_FN int ncc_path_round(struct ncc_path_window *w, const struct ncc_cc_event *e)
{
    if (e->una_bytes <= w->round_end_bytes)
        return 0;
    w->round_end_bytes = e->nxt_bytes;
    return 1;
}

/* Smooths a load that was measured over `over_ns`: load (T - dt) / T + measured dt / T. */
NCC_CC_FN void ncc_path_smooth(struct ncc_path_window *w, ncc_u64 measured_q20, ncc_u64 over_ns, ncc_u64 base_ns)
{
    const ncc_u64 dt = ncc_min_u64(over_ns, base_ns), load = ncc_min_u64(measured_q20, NCC_PATH_LOAD_MAX);

    w->load_q20 = (ncc_u32)ncc_max_u64((w->load_q20 * (base_ns - dt) + load * dt) / base_ns, 1) & NCC_PATH_LOAD_MAX;
}

/* Remembers the telemetry of this ACK. Returns true if that before was of as many ports, so that they can be
 * compared. */
NCC_CC_FN int ncc_path_same(struct ncc_path_window *w, const struct ncc_cc_event *e)
{
    const int same = w->n_hops == e->n_hops;

    w->n_hops = e->n_hops & 15U;
    return same;
}

NCC_CC_FN void ncc_path_remember(struct ncc_path_hops *h, const struct ncc_cc_event *e, ncc_u32 i)
{
    h->queue_bytes[i] = (ncc_u32)ncc_min_u64(e->hops[i].queue_bytes, 0xffffffffU);
    h->tx_bytes[i] = (ncc_u32)e->hops[i].tx_bytes;
    h->at_ns[i] = (ncc_u32)e->hops[i].at_ns;
}

/* A timeout: the window is a packet, the reference stays, and telemetry from before it is forgotten. */
NCC_CC_FN void ncc_path_timeout(struct ncc_path_window *w, const struct ncc_cc_conn *c)
{
    w->repairing = 1;
    w->cwnd_bytes = ncc_min_u64(w->cwnd_bytes, c->mss_bytes);
    w->n_hops = 0;
}

#endif
