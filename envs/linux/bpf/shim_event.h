/* SPDX-License-Identifier: GPL-2.0-only */
/* Events of cc.h, made from the socket. */
#ifndef NCC_SHIM_EVENT_H
#define NCC_SHIM_EVENT_H

#include "shim_controller.h"

static __always_inline __u32 shim_ca_state(struct sock *sk)
{
    return BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)sk, icsk_ca_state);
}

/* Fills the fields of an event that need only the socket and its state. */
static __always_inline void shim_event(struct ncc_cc_event *e, struct sock *sk, const struct shim_flow *f, __u64 now_ns)
{
    const struct tcp_sock *tp = (struct tcp_sock *)sk;

    e->now_ns = now_ns;
    e->min_rtt_ns = f->min_rtt_ns;
    e->srtt_ns = (__u64)tp->srtt_us * 125;
    e->inflight_bytes = shim_inflight_pkts(tp) * f->conn.mss_bytes;
    e->una_bytes = f->una_bytes;
    e->nxt_bytes = tp->bytes_acked - f->acked_from + (tp->snd_nxt - tp->snd_una);
    e->total_delivered_bytes = f->total_pkts * f->conn.mss_bytes;
}

/* Reports losses and timeouts since the last ACK to the controller. */
static __always_inline void shim_losses(struct sock *sk, struct shim_flow *f, __u64 now_ns)
{
    const struct tcp_sock *tp = (struct tcp_sock *)sk;
    __u32 state = shim_ca_state(sk), high_seq = tp->high_seq;
    __u16 timeouts = tp->total_rto - (__u16)f->total_rto;
    /* If one recovery ends and the next begins with the same ACK, they differ in high_seq. */
    int recovery = state == TCP_CA_Recovery && (f->ca_state != TCP_CA_Recovery || f->high_seq != high_seq);

    f->ca_state = state;
    f->high_seq = high_seq;
    f->total_rto = tp->total_rto;
    if (f->waits) { /* no evidence of a loss in the network */
        f->waits = 0;
        timeouts = 0;
    }
    if (timeouts || recovery) {
        struct ncc_cc_event e = {.flags = NCC_CC_ACK_IN_RECOVERY};

        shim_event(&e, sk, f, now_ns);
        if (timeouts)
            shim_cc_on_timeout(shim_state(f), &f->conn, &e, &f->out);
        if (recovery)
            shim_cc_on_loss(shim_state(f), &f->conn, &e, &f->out);
    }
}

/* Returns idle_rtos of cc.h. The kernel computes the same, in jiffies, but for its own controllers only. */
static __always_inline __u32 shim_idle_rtos(struct sock *sk)
{
    __u32 idle = (__u32)bpf_jiffies64() - ((struct tcp_sock *)sk)->lsndtime;
    __u32 rto = ((struct inet_connection_sock *)sk)->icsk_rto;

    if (!sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_slow_start_after_idle || !rto || (__s32)idle <= 0)
        return 0;
    return (idle - 1) / rto;
}

/* Reports to the controller that data is sent again after a pause. */
static __always_inline void shim_restart(struct sock *sk, struct shim_flow *f, __u64 now_ns)
{
    struct ncc_cc_event e = {};

    if (!f->idle || ((struct tcp_sock *)sk)->packets_out)
        return;
    shim_event(&e, sk, f, now_ns);
    e.idle_rtos = shim_idle_rtos(sk);
    if (e.idle_rtos)
        f->reducing = SHIM_NOT_REDUCING;
    shim_cc_on_restart(shim_state(f), &f->conn, &e, &f->out);
}

/* Reports a switch's signal to the controller: the last one that came since the last ACK. */
static __always_inline void shim_report_signal(struct sock *sk, struct shim_flow *f, __u64 now_ns)
{
#ifdef NCC_SIGNALS
    __u32 signal = f->signal;
    struct ncc_cc_event e = {};

    if (!signal)
        return;
    f->signal = 0;
    shim_event(&e, sk, f, now_ns);
    if (f->ca_state >= TCP_CA_Recovery)
        e.flags |= NCC_CC_ACK_IN_RECOVERY;
    shim_cc_on_signal(shim_state(f), &f->conn, &e, &f->out, signal);
#endif
}

static __always_inline void shim_rtt(struct shim_flow *f, struct ncc_cc_event *e, long rtt_us)
{
    if (rtt_us <= 0)
        return;
    e->rtt_ns = (__u64)rtt_us * 1000;
    f->rtt_sum_ns += e->rtt_ns;
    ++f->rtt_samples;
    f->min_rtt_ns = f->min_rtt_ns ? ncc_min_u64(f->min_rtt_ns, e->rtt_ns) : e->rtt_ns;
}

/*
 * Shrinks the window by PRR, down to that of the controller: in fast recovery, and for a round trip after the
 * controller has reacted to ECN-Echo, from a window of `before_bytes`. As in Linux and packetsim, not for controllers
 * that set a rate.
 */
static __always_inline void shim_reduce(struct shim_flow *f, const struct tcp_sock *tp, const struct ncc_cc_event *e,
                                        __u32 lost, __u64 before_bytes)
{
    __u64 mss = f->conn.mss_bytes;
    __u32 begun = f->reducing;

    if (!shim_proportional())
        return;
    f->prr.out_bytes += shim_grown(&f->sent_segs, tp->data_segs_out) * mss;
    if (f->ca_state == TCP_CA_Recovery)
        f->reducing = SHIM_RECOVERING;
    else if (f->ca_state > TCP_CA_Recovery || f->reducing == SHIM_RECOVERING)
        f->reducing = SHIM_NOT_REDUCING;
    else if (f->reducing && e->una_bytes > f->reduced_until_bytes)
        f->reducing = SHIM_NOT_REDUCING;
    else if (!f->reducing && (e->flags & NCC_CC_ACK_ECE) && f->out.cwnd_bytes < before_bytes)
        f->reducing = SHIM_REDUCED;
    if (!f->reducing)
        return;
    if (!begun) {
        ncc_prr_begin(&f->prr, ncc_max_u64(tp->snd_cwnd, 1) * mss);
        f->reduced_until_bytes = e->nxt_bytes;
    }
    if (e->delivered_bytes || !begun)
        f->reduced_cwnd_bytes = ncc_prr_window(&f->prr, e->inflight_bytes, ncc_min_u64(f->out.cwnd_bytes, NCC_RATE_MAX),
                                               e->delivered_bytes, mss, e->acked_bytes && !lost ? NCC_PRR_ADVANCED : 0);
}

/* Reports an ACK to the controller. Counters are compared with the last handled ACK, so none is lost if a callback is
 * skipped. */
static __always_inline void shim_ack(struct sock *sk, struct shim_flow *f, const struct rate_sample *rs, __u64 now_ns)
{
    const struct tcp_sock *tp = (struct tcp_sock *)sk;
    __u64 mss = f->conn.mss_bytes, una = tp->bytes_acked - f->acked_from;
    /* Segments that were acknowledged selectively may be shorter than the MSS. */
    __u64 delivered = una + ncc_min_u64(tp->sacked_out * mss, tp->snd_nxt - tp->snd_una);
    __u32 lost = shim_grown(&f->lost_pkts, tp->lost), marked = shim_grown(&f->marked_pkts, tp->delivered_ce);
    __u64 before_bytes = f->out.cwnd_bytes;
    struct ncc_cc_event e = {};

    f->total_pkts += shim_grown(&f->delivered_pkts, tp->delivered);
    shim_rtt(f, &e, rs->rtt_us);
    e.acked_bytes = una - f->una_bytes;
    f->una_bytes = una;
    if (delivered > f->delivered_bytes) {
        e.delivered_bytes = delivered - f->delivered_bytes;
        f->delivered_bytes = delivered;
    }
    if (marked) {
        e.flags |= NCC_CC_ACK_ECE;
        f->marked_bytes += e.delivered_bytes;
    }
    if (f->ca_state >= TCP_CA_Recovery)
        e.flags |= NCC_CC_ACK_IN_RECOVERY;
    if (lost || marked || f->ca_state >= TCP_CA_CWR)
        f->congested = 1;
    /* As in the kernel, the window may be up to twice the packets in flight in slow start. */
    if (!BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) &&
        !(f->out.cwnd_bytes < f->out.ssthresh_bytes && tp->snd_cwnd < 2 * tp->max_packets_out))
        e.flags |= NCC_CC_ACK_APP_LIMITED;
    shim_event(&e, sk, f, now_ns);
    e.lost_bytes = lost * mss;
    e.prior_delivered_bytes = e.total_delivered_bytes;
    if (rs->delivered > 0 && rs->interval_us > 0) {
        __u64 sampled = (__u64)(__u32)rs->delivered * mss;

        e.prior_delivered_bytes -= ncc_min_u64(sampled, e.total_delivered_bytes);
        e.interval_ns = (__u64)rs->interval_us * 1000;
        if (rs->is_app_limited)
            e.flags |= NCC_CC_ACK_RATE_APP_LIMITED;
    }
    shim_cc_on_ack(shim_state(f), &f->conn, &e, &f->out);
    shim_reduce(f, tp, &e, lost, before_bytes);
}

#endif
