/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flows that wait for a grant of their receiver. The data of a waiting flow stays in the socket, so it counts in no RTT
 * and no retransmission timer runs. The flow begins at its granted start or, without a grant, when its host's patience
 * is over; it begins at once if user space is silent or no flow to its receiver waits. Something must then make the
 * kernel try again: user space sends the socket an ACK with nothing new. Otherwise the kernel's own probe of a closed
 * window does so, after 200 ms or more.
 *
 * A connection without a row is not held, because user space could not wake it.
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

/* Holds back a flow that must wait. Called before every attempt to send. */
static __always_inline void shim_gate(struct sock *sk, struct shim_flow *f)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct ncc_host *h;
    struct ncc_report *r;
    __u64 patience_ns, now_ns;
    int waits;

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
    waits = shim_must_wait(f, h && shim_waits(sk, h) ? patience_ns : 0, now_ns);
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
        tp->snd_cwnd = 0; /* the kernel reads it next; after any other write to it, this function is called again */
    } else {
        f->begun = 1;
        shim_apply(sk, f, now_ns);
    }
}

#endif
