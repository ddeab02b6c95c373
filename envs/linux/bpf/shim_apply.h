/* SPDX-License-Identifier: GPL-2.0-only */
/* Writes the decisions of the controller and of user space into the socket. */
#ifndef NCC_SHIM_APPLY_H
#define NCC_SHIM_APPLY_H

#include "shim.h"
#include "shim_report.h"

/* Returns 1 if user space is alive, so that its decisions hold. */
static __always_inline int shim_obeys(struct shim_flow *f, __u64 now_ns)
{
    struct ncc_agent *a = shim_agent();
    __u64 beat_ns;
    int obeys;

    if (!a)
        return 0;
    beat_ns = *(volatile ncc_u64 *)&a->beat_ns;
    obeys = ncc_alive(beat_ns, now_ns, a->timeout_ns);
    if (!obeys && beat_ns && f->obeying != SHIM_ALONE)
        shim_count(&a->fallbacks);
    if (obeys || beat_ns)
        f->obeying = obeys ? SHIM_OBEYS : SHIM_ALONE;
    return obeys;
}

/* Returns the rate that the kernel uses without pacing, from window and RTT, to size bursts and the queue below TCP. */
static __always_inline __u64 shim_burst_rate(const struct shim_flow *f, const struct tcp_sock *tp)
{
    __u64 srtt_us = tp->srtt_us >> 3, cwnd = ncc_min_u64(f->out.cwnd_bytes, NCC_RATE_MAX);

    if (!srtt_us)
        return NCC_UNPACED;
    return cwnd * (f->out.cwnd_bytes < f->out.ssthresh_bytes / 2 ? 2000000 : 1200000) / srtt_us;
}

/* Sets window and rate of the socket: those of the controller, within what user space allows. */
static __always_inline void shim_apply(struct sock *sk, struct shim_flow *f, __u64 now_ns)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    __u64 mss = f->conn.mss_bytes, cwnd = f->reducing ? f->reduced_cwnd_bytes : f->out.cwnd_bytes,
          pacing = f->out.pacing_bytes_per_s, pkts, least = NCC_TURNS_PER_S * mss, window = 0, most = 0;
    struct ncc_agent *a = shim_agent();
    struct ncc_host *h = shim_host(f);
    __u32 slot = f->slot - 1;
    int obeys = shim_obeys(f, now_ns), clamped = 0;
    struct ncc_decision *d = f->slot ? bpf_map_lookup_elem(&decisions, &slot) : 0;

    if (obeys && d && *(volatile ncc_u32 *)&d->generation == f->generation) {
        __u64 rate = *(volatile ncc_u64 *)&d->rate_bytes_per_s;

        if (rate && (!pacing || rate < pacing))
            pacing = rate;
        most = *(volatile ncc_u64 *)&d->most_bytes;
    }
    if (h && obeys && !f->congested)
        window = *(volatile ncc_u64 *)&h->window_bytes;
    cwnd = ncc_max_u64(cwnd, window);
    if (most)
        cwnd = ncc_min_u64(cwnd, most);
    if (pacing && pacing < least) {
        pacing = least;
        clamped = 1;
    }
    if (cwnd > NCC_CWND_PKTS_MAX * mss) {
        clamped = cwnd < NCC_CC_CWND_MAX; /* otherwise "no limit", which some controllers use */
        cwnd = NCC_CWND_PKTS_MAX * mss;
    }
    pkts = ncc_max_u64((cwnd + mss - 1) / mss, 1); /* TCP sends while less than the window is in flight */
    if (clamped && a)
        shim_count(&a->clamped);
    tp->snd_cwnd = (__u32)pkts;
    tp->snd_ssthresh = (__u32)ncc_min_u64(ncc_max_u64(f->out.ssthresh_bytes / mss, 2), 0x7FFFFFFF);
    sk->sk_pacing_rate = pacing   ? ncc_min_u64(pacing, NCC_CC_PACING_MAX)
                         : window ? NCC_UNPACED
                                  : shim_burst_rate(f, tp);
    if (sk->sk_pacing_status <= SK_PACING_NEEDED) /* else the queueing discipline fq paces */
        sk->sk_pacing_status = pacing ? SK_PACING_NEEDED : SK_PACING_NONE;
}

/* Adds a connection to its host's connections with data, or removes it. */
static __always_inline void shim_set_busy(struct shim_flow *f, __u32 busy)
{
    struct ncc_host *h = shim_host(f);

    if (h && busy != f->busy)
        __sync_fetch_and_add(&h->flows, busy ? 1 : -1);
    f->busy = busy;
}

static __always_inline void shim_idle(struct shim_flow *f)
{
    f->idle = 1;
    f->begun = 0;
    f->held_ns = 0;
    shim_set_busy(f, 0);
}

static __always_inline void shim_busy(struct sock *sk, struct shim_flow *f, __u64 now_ns)
{
    if (f->idle)
        f->congested = 0;
    f->idle = 0;
    shim_own_row(sk, f, now_ns);
    shim_set_busy(f, 1);
}

#endif
