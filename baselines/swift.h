/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Swift: Kumar et al., SIGCOMM 2020, Algorithm 1. The window grows while the RTT is below a target, and shrinks in
 * proportion to the excess at most once per RTT. The target rises with the length of the path and, for small windows,
 * with the number of flows that they imply. A window below a packet is a pace. See cards/swift.md.
 */
#ifndef NCC_SWIFT_H
#define NCC_SWIFT_H

#include "cc.h"

#define SWIFT_SHIFT 10              /* windows are in 2^-10 byte */
#define SWIFT_ROOT_MAX (1ULL << 21) /* 2^16 / sqrt of the smallest window, 2^-10 packet */
#define SWIFT_LEAST_PER_S 10        /* packets: the slowest pace, whose ACKs can lift it (ours) */
#define SWIFT_NS_MAX (1ULL << 40)   /* 18 min; longer times count as this */

enum {
    SWIFT_BASE,
    SWIFT_HOP,
    SWIFT_HOPS,
    SWIFT_RANGE,
    SWIFT_FS_MIN,
    SWIFT_FS_MAX,
    SWIFT_AI,
    SWIFT_BETA,
    SWIFT_MAX_MDF,
    SWIFT_RETX,
    SWIFT_MIN,
    SWIFT_STRETCH,
};

static const struct ncc_cc_param swift_params[] = {
    {"base_ns", 20000, 1000, 1000000000, "ns: base target of the RTT (section 3.1; 20 us is htsim's)"},
    {"hop_ns", 3050, 0, 1000000, "ns of target per hop: h-bar (section 3.1; base / 6.55 is htsim's)"},
    {"hops", 2, 0, 64, "hops of the path, which the paper reads from the TTL; the same for all flows here"},
    {"range_ns", 100000, 0, 1000000000,
     "ns of target for the smallest windows: fs_range (equation 3; 5 x base, htsim)"},
    {"fs_min_millipkts", 100, 1, 1000000, "1/1000 packet: window with all of fs_range (section 3.1: 0.1 packets)"},
    {"fs_max_millipkts", 100000, 1, 100000000,
     "1/1000 packet: window with none of fs_range (section 3.1: 100 packets)"},
    {"ai_permille", 1000, 1, 100000, "1/1000 packet of growth per RTT: ai (1 packet, htsim)"},
    {"beta_permille", 800, 1, 1000, "1/1000: beta, cut per relative excess of delay (0.8, htsim)"},
    {"max_mdf_permille", 500, 1, 999, "1/1000: the largest cut (0.5, htsim)"},
    {"retx_reset", 5, 1, 100, "timeouts in a row after which the window is the smallest (htsim)"},
    {"min_millipkts", 10, 1, 1000, "1/1000 packet: the smallest window (ours)"},
    {"stretch_pct", 125, 0, 1000,
     "%: where the smallest RTT measured is above the target of a window of one packet, this share of it is the base "
     "target, or a path so long would starve (ours); 0: as printed"},
};

struct swift_state {
    ncc_u64 cwnd_q10;
    ncc_u64 cut_ns;  /* time of the last decrease */
    ncc_u64 path_ns; /* smallest RTT of full packets; 0: none */
    ncc_u32 cuts;    /* 1 after the first */
    ncc_u32 timeouts;
    ncc_u32 root_min, root_max; /* 2^16 / sqrt(fs_min), 2^16 / sqrt(fs_max) */
};

/* Square root of up to 2^44, to 1, by Newton's method from above. No step branches: BPF's verifier would follow each.
 */
NCC_CC_FN ncc_u32 swift_root(ncc_u64 x)
{
    ncc_u64 root = 1ULL << 22;

    for (ncc_u32 i = 0; i < 28; ++i)
        root = ((root + x / root) >> 1) | 1;
    return (ncc_u32)root;
}

/* 2^16 / sqrt(packets). */
NCC_CC_FN ncc_u32 swift_inverse_root(ncc_u64 packets_q10)
{
    return swift_root((1ULL << 42) / ncc_max_u64(packets_q10, 1));
}

NCC_CC_FN ncc_u64 swift_least(const ncc_u64 *p, const struct ncc_cc_conn *c)
{
    return ncc_max_u64(((ncc_u64)c->mss_bytes << SWIFT_SHIFT) * p[SWIFT_MIN] / 1000, 1);
}

NCC_CC_FN ncc_u64 swift_clamp(const ncc_u64 *p, const struct ncc_cc_conn *c, ncc_u64 cwnd_q10)
{
    return ncc_min_u64(ncc_max_u64(cwnd_q10, swift_least(p, c)), NCC_CC_CWND_MAX << SWIFT_SHIFT);
}

/* Below a packet, the window is one and the pace is window / RTT. */
NCC_CC_FN void swift_out(const struct swift_state *s, const struct ncc_cc_conn *c, const struct ncc_cc_event *e,
                         struct ncc_cc_out *o)
{
    const ncc_u64 cwnd = s->cwnd_q10 >> SWIFT_SHIFT, mss = c->mss_bytes;

    o->cwnd_bytes = ncc_max_u64(cwnd, mss);
    o->ssthresh_bytes = NCC_CC_CWND_MAX;
    o->pacing_bytes_per_s = 0;
    if (cwnd < mss && e && e->srtt_ns) {
        const ncc_u64 small = ncc_min_u64(s->cwnd_q10, 1ULL << 34);

        o->pacing_bytes_per_s =
            ncc_max_u64((small * NCC_NS_PER_S / e->srtt_ns) >> SWIFT_SHIFT, SWIFT_LEAST_PER_S * mss);
    }
}

NCC_CC_FN void swift_init(struct swift_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    s->cwnd_q10 = swift_clamp(p, c, (ncc_u64)c->init_cwnd_bytes << SWIFT_SHIFT);
    s->root_min = swift_inverse_root((p[SWIFT_FS_MIN] << 10) / 1000);
    s->root_max = swift_inverse_root((p[SWIFT_FS_MAX] << 10) / 1000);
    swift_out(s, c, 0, o);
}

/* alpha / sqrt(cwnd) + beta, between 0 and fs_range (equation 3), of a window with this inverse root. */
NCC_CC_FN ncc_u64 swift_flows(const struct swift_state *s, const ncc_u64 *p, ncc_u32 root)
{
    if (root <= s->root_max)
        return 0;
    return root >= s->root_min ? p[SWIFT_RANGE] : p[SWIFT_RANGE] * (root - s->root_max) / (s->root_min - s->root_max);
}

/* TargetDelay: base + hops x h, and what flow scaling adds. */
NCC_CC_FN ncc_u64 swift_target(const struct swift_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c)
{
    const ncc_u64 path = s->path_ns, one = swift_flows(s, p, swift_inverse_root(1 << 10));
    ncc_u64 base = p[SWIFT_BASE] + p[SWIFT_HOPS] * p[SWIFT_HOP];

    if (path > base + one)
        base = ncc_max_u64(base, path * p[SWIFT_STRETCH] / 100);
    return base + swift_flows(s, p, swift_inverse_root(s->cwnd_q10 / c->mss_bytes));
}

/* Small packets take less time on every link, so that their samples say nothing about the path of data. */
NCC_CC_FN void swift_measure(struct swift_state *s, const struct ncc_cc_conn *c, const struct ncc_cc_event *e)
{
    if (e->rtt_ns && e->delivered_bytes && e->delivered_bytes % c->mss_bytes == 0 &&
        (!s->path_ns || e->rtt_ns < s->path_ns))
        s->path_ns = ncc_min_u64(e->rtt_ns, SWIFT_NS_MAX);
}

NCC_CC_FN int swift_may_cut(const struct swift_state *s, const struct ncc_cc_event *e)
{
    return !s->cuts || e->now_ns - s->cut_ns >= e->srtt_ns;
}

/* Takes a part of the window away, in 2^-20. */
NCC_CC_FN void swift_cut(struct swift_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                         const struct ncc_cc_event *e, ncc_u64 part_q20)
{
    const ncc_u64 cwnd = s->cwnd_q10;
    const ncc_u64 less = cwnd < 1ULL << 40 ? (cwnd * part_q20) >> 20 : ((cwnd >> 10) * part_q20) >> 10;

    s->cwnd_q10 = ncc_min_u64(cwnd, swift_clamp(p, c, cwnd - less));
    s->cut_ns = e->now_ns;
    s->cuts = 1;
}

NCC_CC_FN ncc_u64 swift_most(const ncc_u64 *p) { return (p[SWIFT_MAX_MDF] << 20) / 1000; }

/* ai packets per window of acknowledged bytes; below a packet, ai packets per packet. */
NCC_CC_FN void swift_grow(struct swift_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                          const struct ncc_cc_event *e)
{
    const ncc_u64 mss = c->mss_bytes, cwnd = ncc_max_u64(s->cwnd_q10 >> SWIFT_SHIFT, mss);
    const ncc_u64 share_q20 = (ncc_min_u64(e->delivered_bytes, cwnd) << 20) / cwnd;
    const ncc_u64 step = mss * p[SWIFT_AI] / 1000; /* up to 2^39 */

    s->cwnd_q10 = swift_clamp(p, c, s->cwnd_q10 + (step * share_q20 >> (20 - SWIFT_SHIFT)));
}

NCC_CC_FN void swift_on_ack(struct swift_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                            const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    s->timeouts = 0;
    swift_measure(s, c, e);
    if (e->rtt_ns) {
        const ncc_u64 delay = ncc_min_u64(e->rtt_ns, SWIFT_NS_MAX), target = swift_target(s, p, c);

        if (delay < target) {
            if (!(e->flags & NCC_CC_ACK_APP_LIMITED))
                swift_grow(s, p, c, e);
        } else if (swift_may_cut(s, e)) {
            const ncc_u64 part = (p[SWIFT_BETA] << 20) / 1000 * (delay - target) / delay;

            swift_cut(s, p, c, e, ncc_min_u64(part, swift_most(p)));
        }
    }
    swift_out(s, c, e, o);
}

NCC_CC_FN void swift_on_loss(struct swift_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                             const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    s->timeouts = 0;
    if (swift_may_cut(s, e))
        swift_cut(s, p, c, e, swift_most(p));
    swift_out(s, c, e, o);
}

NCC_CC_FN void swift_on_timeout(struct swift_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    s->timeouts += s->timeouts < p[SWIFT_RETX];
    if (s->timeouts >= p[SWIFT_RETX]) {
        s->cwnd_q10 = ncc_min_u64(s->cwnd_q10, swift_least(p, c));
        s->cut_ns = e->now_ns;
        s->cuts = 1;
    } else if (swift_may_cut(s, e)) {
        swift_cut(s, p, c, e, swift_most(p));
    }
    swift_out(s, c, e, o);
}

NCC_CC_FN void swift_on_restart(struct swift_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,
                                const struct ncc_cc_event *e, struct ncc_cc_out *o)
{
    (void)p;
    swift_out(s, c, e, o);
}

NCC_CC_REGISTER(swift, NCC_CC_ECN_NONE, "Swift (Kumar et al. 2020): AIMD about a target of the RTT; no ECN")

#endif
