/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A congestion controller of baselines/ inside the kernel's TCP, with reports to user space and rates from it. Compiled
 * once per controller: NCC_CONTROLLER is its name, NCC_CONTROLLER_HEADER its header.
 */
#include "kernel.h"

#include "cc.h"
#undef NCC_CC_TABLE_ /* what a header says of itself, as constants */
#define NCC_CC_TABLE_(name_, ecn_, summary_, rate_)                                                                    \
    enum { name_##_ecn = (ecn_), name_##_n_params = sizeof(name_##_params) / sizeof(name_##_params[0]) };              \
    _Static_assert(sizeof(struct name_##_state) <= NCC_CC_STATE_MAX, "state exceeds the socket's private area");       \
    _Static_assert(name_##_n_params <= NCC_CC_PARAMS_MAX, "too many parameters");
#include NCC_CONTROLLER_HEADER

#include "shim.h"
#include "shim_report.h"
#include "shim_share.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define CC(what) PASTE(NCC_CONTROLLER, what)
#define QUOTE_(a) #a
#define QUOTE(a) QUOTE_(a)

char LICENSE[] SEC("license") = "GPL";

/* Written by user space before the program is loaded. */
struct {
    __u64 values[NCC_CC_PARAMS_MAX];
} const volatile params SEC(".rodata.params") = {};

static __always_inline const ncc_u64 *shim_params(void)
{
    const ncc_u64 *p = (const ncc_u64 *)params.values;

    asm volatile("" : "+r"(p)); /* else the compiler takes the zeros above for the values */
    return p;
}

/*
 * Functions that are not static are verified once, by themselves, for any contents of what they point to: a controller
 * of many branches would else be verified again for every path that leads to it.
 */
__noinline int shim_cc_init(struct CC(state) * s, const struct ncc_cc_conn *c, struct ncc_cc_out *o)
{
    if (s && c && o)
        CC(init)(s, shim_params(), c, o);
    return 0;
}

#define SHIM_HANDLER(op)                                                                                               \
    __noinline int shim_cc_##op(struct CC(state) * s, const struct ncc_cc_conn *c, const struct ncc_cc_event *e,       \
                                struct ncc_cc_out *o)                                                                  \
    {                                                                                                                  \
        if (s && c && e && o)                                                                                          \
            CC(op)(s, shim_params(), c, e, o);                                                                         \
        return 0;                                                                                                      \
    }
SHIM_HANDLER(on_ack)
SHIM_HANDLER(on_loss)
SHIM_HANDLER(on_timeout)

static __always_inline void *shim_state(struct shim_flow *f) { return f->controller; }

static __always_inline __u32 shim_ca_state(struct sock *sk)
{
    return BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)sk, icsk_ca_state);
}

/* Whether user space is alive, so that its limits and overrides hold. */
static __always_inline int shim_obeys(struct shim_flow *f, __u64 now_ns)
{
    struct ncc_agent *a = shim_agent();
    __u64 beat_ns;
    int obeys;

    if (!a)
        return 0;
    beat_ns = *(volatile ncc_u64 *)&a->beat_ns;
    obeys = beat_ns && (beat_ns > now_ns || now_ns - beat_ns <= a->timeout_ns);
    if (!obeys && beat_ns && f->obeying != SHIM_ALONE) {
        ++f->fallbacks;
        shim_count(&a->fallbacks);
    }
    if (obeys || beat_ns)
        f->obeying = obeys ? SHIM_OBEYS : SHIM_ALONE;
    return obeys;
}

/* What the kernel itself derives from window and RTT where nobody paces: it sizes bursts and the queue below TCP. */
static __always_inline __u64 shim_burst_rate(const struct shim_flow *f, const struct tcp_sock *tp)
{
    __u64 srtt_us = tp->srtt_us >> 3, cwnd = ncc_min_u64(f->out.cwnd_bytes, NCC_RATE_MAX);

    if (!srtt_us)
        return NCC_UNPACED;
    return cwnd * (f->out.cwnd_bytes < f->out.ssthresh_bytes / 2 ? 2000000 : 1200000) / srtt_us;
}

/* Window and rate of the socket: the controller's, under what user space says. */
static __always_inline void shim_apply(struct sock *sk, struct shim_flow *f, __u64 now_ns)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    __u64 mss = f->conn.mss_bytes, cwnd = f->out.cwnd_bytes, pacing = f->out.pacing_bytes_per_s, pkts, least;
    struct ncc_agent *a = shim_agent();
    struct ncc_host *h = shim_host(f);
    __u32 weight = 1, slot = f->slot - 1;
    int obeys = shim_obeys(f, now_ns), clamped = 0;
    struct ncc_decision *d = f->slot ? bpf_map_lookup_elem(&decisions, &slot) : 0;

    if (obeys && d && *(volatile ncc_u32 *)&d->generation == f->generation) {
        __u64 own_cwnd = *(volatile ncc_u64 *)&d->cwnd_bytes, own_pacing = *(volatile ncc_u64 *)&d->pacing_bytes_per_s;

        weight = *(volatile ncc_u32 *)&d->weight;
        weight = weight < 1 ? 1 : weight > NCC_WEIGHT_MAX ? NCC_WEIGHT_MAX : weight;
        cwnd = own_cwnd ? own_cwnd : cwnd;
        pacing = own_pacing ? own_pacing : pacing;
    }
    if (h) {
        __u64 number = *(volatile ncc_u64 *)&h->decision;

        shim_use(f, tp->bytes_sent, (__u64)tp->srtt_us * 125, now_ns);
        if (f->claim)
            shim_claim(f, weight * f->use);
        f->share_bytes_per_s = obeys ? shim_share(f, h, weight, shim_header_bytes(tp)) : 0;
        if (obeys && number != f->decision) {
            f->decision = number;
            f->decided_ns = now_ns;
        }
    }
    if (f->share_bytes_per_s && (!pacing || f->share_bytes_per_s < pacing))
        pacing = f->share_bytes_per_s;
    least = NCC_TURNS_PER_S * mss;
    if (pacing && pacing < least) {
        pacing = least;
        clamped = 1;
    }
    if (cwnd > NCC_CWND_PKTS_MAX * mss) {
        clamped = cwnd < NCC_CC_CWND_MAX; /* that is "no limit", which some controllers say */
        cwnd = NCC_CWND_PKTS_MAX * mss;
    }
    pkts = ncc_max_u64((cwnd + mss - 1) / mss, 1); /* bytes go while less than the window is in flight */
    if (f->share_bytes_per_s && tp->data_segs_out < NCC_KERNEL_BURST_PKTS) {
        /* Here the window has to do what pacing does later: one RTT's share. */
        __u64 fit = pacing * ((__u64)tp->srtt_us >> 3) / 1000000 / mss;

        pkts = ncc_min_u64(pkts, ncc_max_u64(fit, 2));
    }
    if (clamped && a)
        shim_count(&a->clamped);
    tp->snd_cwnd = (__u32)pkts;
    tp->snd_ssthresh = (__u32)ncc_min_u64(ncc_max_u64(f->out.ssthresh_bytes / mss, 2), 0x7FFFFFFF);
    sk->sk_pacing_rate = pacing ? ncc_min_u64(pacing, NCC_CC_PACING_MAX) : shim_burst_rate(f, tp);
    if (sk->sk_pacing_status <= SK_PACING_NEEDED) /* else the queueing discipline fq paces */
        sk->sk_pacing_status = pacing ? SK_PACING_NEEDED : SK_PACING_NONE;
}

static __always_inline void shim_idle(struct shim_flow *f) { shim_claim(f, 0); }

static __always_inline void shim_busy(struct sock *sk, struct shim_flow *f, __u64 now_ns)
{
    if (!f->opened)
        shim_open_row(sk, f);
    if (f->claim)
        return;
    f->use = NCC_CLAIM_ONE;
    shim_window(f, ((struct tcp_sock *)sk)->bytes_sent, now_ns);
    shim_claim(f, NCC_CLAIM_ONE);
}

/* A connection as `init` should leave it. */
static __always_inline struct shim_flow *shim_begin(struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    __u32 address = sk->__sk_common.skc_rcv_saddr, *host;
    struct shim_flow *f = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

    if (!f)
        return 0;
    __builtin_memset(f, 0, sizeof(*f));
    f->conn.mss_bytes = ncc_max_u64(tp->mss_cache, 1);
    f->conn.init_cwnd_bytes = ncc_max_u64(tp->snd_cwnd, 1) * f->conn.mss_bytes;
    host = bpf_map_lookup_elem(&addresses, &address);
    f->host = host && *host < NCC_HOSTS_MAX ? *host : NCC_NO_HOST;
    f->began_ns = bpf_ktime_get_ns();
    f->acked_from = tp->bytes_acked;
    f->delivered_pkts = tp->delivered;
    f->marked_pkts = tp->delivered_ce;
    f->lost_pkts = tp->lost;
    f->total_rto = tp->total_rto;
    f->high_seq = tp->high_seq;
    f->prior_rcv_nxt = tp->rcv_nxt;
    if (CC(ecn) == NCC_CC_ECN_NONE)
        tp->ecn_flags &= ~TCP_ECN_OK; /* its packets are not ECN-capable, whatever was negotiated */
    shim_cc_init(shim_state(f), &f->conn, &f->out);
    shim_apply(sk, f, f->began_ns);
    return f;
}

/* 0: not a connection yet. The kernel has the SYN acknowledged to the controller before it calls `init`. */
static __always_inline struct shim_flow *shim_find(struct sock *sk)
{
    struct shim_flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);
    __u8 state = sk->__sk_common.skc_state;
    struct ncc_agent *a;

    if (f || state == TCP_SYN_SENT || state == TCP_SYN_RECV)
        return f;
    a = shim_agent();
    if (a)
        shim_count(&a->late_inits);
    return shim_begin(sk);
}

/* The connection as it is; of this ACK, what needs no more than the socket. */
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

/* Losses and timeouts since the last ACK. */
static __always_inline void shim_losses(struct sock *sk, struct shim_flow *f, __u64 now_ns)
{
    const struct tcp_sock *tp = (struct tcp_sock *)sk;
    __u32 state = shim_ca_state(sk), high_seq = tp->high_seq;
    __u16 timeouts = tp->total_rto - (__u16)f->total_rto;
    /* A recovery that ends and another that begins with the same ACK differ in what had been sent. */
    int recovery = state == TCP_CA_Recovery && (f->ca_state != TCP_CA_Recovery || f->high_seq != high_seq);

    f->ca_state = state;
    f->high_seq = high_seq;
    f->total_rto = tp->total_rto;
    if (timeouts || recovery) {
        struct ncc_cc_event e = {.flags = NCC_CC_ACK_IN_RECOVERY};

        shim_event(&e, sk, f, now_ns);
        f->timeouts += timeouts;
        if (timeouts)
            shim_cc_on_timeout(shim_state(f), &f->conn, &e, &f->out);
        if (recovery) {
            ++f->recoveries;
            shim_cc_on_loss(shim_state(f), &f->conn, &e, &f->out);
        }
    }
}

static __always_inline void shim_rtt(struct shim_flow *f, struct ncc_cc_event *e, long rtt_us)
{
    if (rtt_us <= 0)
        return;
    f->rtt_ns = (__u64)rtt_us * 1000;
    f->rtt_sum_ns += f->rtt_ns;
    ++f->rtt_samples;
    f->min_rtt_ns = f->min_rtt_ns ? ncc_min_u64(f->min_rtt_ns, f->rtt_ns) : f->rtt_ns;
    e->rtt_ns = f->rtt_ns;
}

/* Counters are compared with the last ACK that was handled, so that one whose callback was skipped is not lost. */
static __always_inline void shim_ack(struct sock *sk, struct shim_flow *f, const struct rate_sample *rs, __u64 now_ns)
{
    const struct tcp_sock *tp = (struct tcp_sock *)sk;
    __u64 mss = f->conn.mss_bytes, una = tp->bytes_acked - f->acked_from, delivered = una + tp->sacked_out * mss;
    __u32 lost = shim_grown(&f->lost_pkts, tp->lost), marked = shim_grown(&f->marked_pkts, tp->delivered_ce);
    struct ncc_cc_event e = {};

    f->total_pkts += shim_grown(&f->delivered_pkts, tp->delivered);
    f->lost_bytes += lost * mss;
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
    /* As the kernel has it: in slow start the window may run ahead of what is sent, up to twice. */
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
        f->delivery_bytes_per_s = sampled * 1000000 / (__u64)rs->interval_us;
        if (rs->is_app_limited)
            e.flags |= NCC_CC_ACK_RATE_APP_LIMITED;
    }
    shim_cc_on_ack(shim_state(f), &f->conn, &e, &f->out);
}

SEC("struct_ops/shim_init")
void BPF_PROG(shim_init, struct sock *sk) { (void)shim_begin(sk); }

SEC("struct_ops/shim_release")
void BPF_PROG(shim_release, struct sock *sk)
{
    struct shim_flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);

    if (!f)
        return;
    shim_idle(f);
    shim_close_row(sk, f, bpf_ktime_get_ns());
    bpf_sk_storage_delete(&flows, sk); /* the socket may go on with another controller */
}

SEC("struct_ops/shim_cong_control")
void BPF_PROG(shim_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct shim_flow *f = shim_find(sk);
    __u64 now_ns = tp->tcp_clock_cache;
    struct ncc_report *r;

    if (!f)
        return;
    if (tp->packets_out || tp->write_seq != tp->snd_nxt)
        shim_busy(sk, f, now_ns);
    else
        shim_idle(f);
    ++f->acks;
    shim_losses(sk, f, now_ns);
    shim_ack(sk, f, rs, now_ns);
    shim_apply(sk, f, now_ns);
    r = shim_row(f);
    if (r) {
        shim_begin_row(r);
        shim_fill_row(r, f, tp, now_ns);
        shim_end_row(r);
    }
}

/* RFC 8257 section 3.2: the receiver's ACKs say precisely which packets bore CE, whatever is delayed. */
static __always_inline void shim_echo(struct sock *sk, struct shim_flow *f, __u32 ce)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;

    if (f->ce_state != ce) {
        if (icsk->icsk_ack.pending & ICSK_ACK_TIMER) { /* one is due: it tells of the state before */
            if (f->ce_state)
                tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
            else
                tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
            bpf_tcp_send_ack(tp, f->prior_rcv_nxt);
        }
        icsk->icsk_ack.pending |= ICSK_ACK_NOW;
    }
    f->prior_rcv_nxt = tp->rcv_nxt;
    f->ce_state = ce;
    if (ce)
        tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
    else
        tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

SEC("struct_ops/shim_cwnd_event")
void BPF_PROG(shim_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
    struct shim_flow *f = shim_find(sk);

    if (!f)
        return;
    if (event == CA_EVENT_TX_START) {
        __u64 now_ns = bpf_ktime_get_ns();

        shim_busy(sk, f, now_ns);
        shim_apply(sk, f, now_ns);
    } else if (CC(ecn) == NCC_CC_ECN_DCTCP) {
        if (event == CA_EVENT_ECN_IS_CE)
            shim_echo(sk, f, 1);
        else if (event == CA_EVENT_ECN_NO_CE)
            shim_echo(sk, f, 0);
    }
}

/* The kernel asks for both; nothing depends on the answers, see shim.h. */
SEC("struct_ops/shim_ssthresh")
__u32 BPF_PROG(shim_ssthresh, struct sock *sk) { return ((struct tcp_sock *)sk)->snd_ssthresh; }

SEC("struct_ops/shim_undo_cwnd")
__u32 BPF_PROG(shim_undo_cwnd, struct sock *sk) { return ((struct tcp_sock *)sk)->snd_cwnd; }

SEC(".struct_ops")
struct tcp_congestion_ops shim = {
    .init = (void *)shim_init,
    .release = (void *)shim_release,
    .cong_control = (void *)shim_cong_control,
    .cwnd_event = (void *)shim_cwnd_event,
    .ssthresh = (void *)shim_ssthresh,
    .undo_cwnd = (void *)shim_undo_cwnd,
    .name = "ncc_" QUOTE(NCC_CONTROLLER),
    .flags = TCP_CONG_NON_RESTRICTED | (CC(ecn) == NCC_CC_ECN_DCTCP ? TCP_CONG_NEEDS_ECN : 0),
};
