/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flows that wait for a grant of their receiver. The data of a waiting flow stays in the socket, so it counts in no RTT
 * and no retransmission timer runs. The flow begins at its granted start or, without a grant, when its host's patience
 * is over; it begins at once if user space is silent or no flow to its receiver waits. Something must then make the
 * kernel try again: user space sends the socket an ACK with nothing new. Otherwise the kernel's own probe of a closed
 * window does so, after 200 ms or more.
 *
 * A connection without a row is not held, because user space could not wake it.
 *
 * One flow of each pair of hosts does not wait if it fits one packet. It is unscheduled until it is acknowledged, but
 * no longer than the host's patience, because the kernel may skip callbacks. If more is written than fits the packet,
 * the rest waits.
 */
#ifndef NCC_SHIM_GATE_H
#define NCC_SHIM_GATE_H

#include "shim_apply.h"

static __always_inline int shim_must_wait(struct shim_flow *f, __u64 patience_ns, __u64 now_ns)
{
    __u32 slot = f->slot - 1;
    struct ncc_decision *d = f->slot ? bpf_map_lookup_elem(&decisions, &slot) : 0;
    __u64 start_ns = 0;

    if (!d || !shim_obeys(f, now_ns))
        return 0;
    if (*(volatile ncc_u32 *)&d->generation == f->generation)
        start_ns = *(volatile ncc_u64 *)&d->start_ns;
    return start_ns ? now_ns < start_ns : now_ns - f->held_ns < patience_ns;
}

/* Returns 1 if flows of this socket wait for a grant of their receiver. */
static __always_inline int shim_waits(const struct sock *sk, const struct ncc_host *h)
{
    struct ncc_address peer = shim_peer(sk);
    __u32 *waits;

    if (!*(volatile const ncc_u64 *)&h->named_only)
        return 1;
    waits = bpf_map_lookup_elem(&receivers, &peer);
    return waits && *(volatile __u32 *)waits;
}

/* Ends the time in which a flow is unscheduled. */
static __always_inline void shim_scheduled(struct sock *sk, struct shim_flow *f)
{
    struct shim_pair pair = {.own = shim_source(sk), .peer = shim_peer(sk)};
    __u64 *until_ns;

    if (!f->unscheduled_ns)
        return;
    until_ns = bpf_map_lookup_elem(&unscheduled, &pair);
    if (until_ns)
        __sync_val_compare_and_swap(until_ns, f->unscheduled_ns, 0);
    f->unscheduled_ns = 0;
}

/* Returns 1 if what a flow has sent and written fits one packet, and it is the unscheduled flow of its pair. */
static __always_inline int shim_unscheduled(struct sock *sk, struct shim_flow *f, __u64 patience_ns, __u64 now_ns)
{
    const struct tcp_sock *tp = (const struct tcp_sock *)sk;
    struct shim_pair pair = {.own = shim_source(sk), .peer = shim_peer(sk)};
    __u32 bytes = tp->write_seq - tp->snd_una;
    __u64 *until_ns, before_ns, end_ns = now_ns + patience_ns;
    int taken;

    /* The kernel also asks after the first full packet of a longer write, which it has not pushed yet. */
    if (bytes > tp->mss_cache || (bytes == tp->mss_cache && tp->pushed_seq != tp->write_seq))
        return 0;
    if (f->unscheduled_ns > now_ns)
        return 1;
    until_ns = bpf_map_lookup_elem(&unscheduled, &pair);
    if (until_ns) {
        before_ns = *(volatile __u64 *)until_ns;
        taken = before_ns <= now_ns && __sync_val_compare_and_swap(until_ns, before_ns, end_ns) == before_ns;
    } else {
        taken = !bpf_map_update_elem(&unscheduled, &pair, &end_ns, BPF_NOEXIST);
    }
    if (taken)
        f->unscheduled_ns = end_ns;
    return taken;
}

/* Holds back a flow that must wait. Called before every attempt to send. */
static __always_inline void shim_gate(struct sock *sk, struct shim_flow *f)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct ncc_host *h;
    struct ncc_report *r;
    __u64 patience_ns, now_ns;
    int may, waits;

    if ((f->begun && f->mark == sk->sk_mark) || tp->write_seq == tp->snd_nxt)
        return;
    h = shim_host(f);
    patience_ns = h ? *(volatile ncc_u64 *)&h->patience_ns : 0;
    if (!patience_ns && !f->held_ns) /* a flow that is held already must still be released */
        return;
    now_ns = bpf_ktime_get_ns();
    if (f->mark != sk->sk_mark || !f->held_ns) {
        f->begun = 0;
        f->held_ns = now_ns;
        shim_own_row(sk, f, now_ns);
    }
    may = !shim_must_wait(f, h && shim_waits(sk, h) ? patience_ns : 0, now_ns);
    waits = !may && !shim_unscheduled(sk, f, patience_ns, now_ns);
    r = shim_row(f);
    if (r) {
        shim_begin_row(r);
        r->held = waits;
        r->una = tp->snd_una;
        r->rcv_nxt = tp->rcv_nxt;
        r->port = sk->__sk_common.skc_num;
        r->peer_port = bpf_ntohs(sk->__sk_common.skc_dport);
        r->window = ncc_min_u64(tp->snd_wnd >> BPF_CORE_READ_BITFIELD(tp, rx_opt.snd_wscale), 0xFFFF);
        shim_end_row(r);
    }
    if (waits) {
        /* The kernel reads it next; after any other write to it, this function is called again. */
        tp->snd_cwnd = tp->packets_out;
    } else {
        f->begun = may;
        shim_apply(sk, f, now_ns);
    }
}

#endif
