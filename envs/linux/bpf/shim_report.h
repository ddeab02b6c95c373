/* SPDX-License-Identifier: GPL-2.0-only */
/* Reports of connections to user space. One CPU at a time handles a socket, so a row has one writer. */
#ifndef NCC_SHIM_REPORT_H
#define NCC_SHIM_REPORT_H

#include "shim.h"
#include "shim_controller.h"

#define SHIM_FENCE() asm volatile("" ::: "memory") /* x86-64 keeps stores in order; the compiler must too */

static __always_inline void shim_begin_row(struct ncc_report *r)
{
    *(volatile ncc_u32 *)&r->seq = r->seq | 1;
    SHIM_FENCE();
}

static __always_inline void shim_end_row(struct ncc_report *r)
{
    SHIM_FENCE();
    *(volatile ncc_u32 *)&r->seq = (r->seq | 1) + 1;
}

static __always_inline __u64 shim_inflight_pkts(const struct tcp_sock *tp)
{
    return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

/* Returns the payload that waits below TCP, in the host's queue: the memory of packets there, converted by the ratio
 * of payload to memory of all data that is written and not acknowledged. */
static __always_inline __u64 shim_held_bytes(const struct tcp_sock *tp)
{
    const struct sock *sk = (const struct sock *)tp;
    __u64 sent = tp->snd_nxt - tp->snd_una, written = tp->write_seq - tp->snd_una;
    __s32 held = sk->sk_wmem_alloc.refs.counter - 1, queued = sk->sk_wmem_queued;

    if (held <= 0 || queued <= 0)
        return 0;
    return ncc_min_u64(written * (__u32)held / (__u32)queued, sent);
}

/* Returns 1 if data waits for a receiver that takes no packet more, with nothing in flight. Such data is no demand: it
 * cannot leave, whatever the host's limit. */
static __always_inline int shim_closed(const struct tcp_sock *tp)
{
    return !tp->packets_out && tp->snd_wnd < ncc_min_u64(tp->write_seq - tp->snd_nxt, tp->mss_cache);
}

/* Fills the fields of the bytes that have left the host and of those that wait in it and could leave. */
static __always_inline void shim_fill_backlog(struct ncc_report *r, const struct shim_flow *f,
                                              const struct tcp_sock *tp)
{
    __u64 held = shim_held_bytes(tp);

    r->sent_bytes = ncc_max_u64(r->sent_bytes, shim_since(f->before.sent_bytes + held, tp->bytes_sent));
    r->unsent_bytes = held + (shim_closed(tp) ? 0 : tp->write_seq - tp->snd_nxt);
}

/* Fills the fields that change. */
static __always_inline void shim_fill_row(struct ncc_report *r, const struct shim_flow *f, const struct tcp_sock *tp,
                                          __u64 now_ns)
{
    shim_fill_backlog(r, f, tp);
    r->updated_ns = now_ns;
    r->rtt_sum_ns = f->rtt_sum_ns;
    r->rtt_samples = f->rtt_samples;
    r->delivered_bytes = shim_since(f->before.acked_bytes, f->delivered_bytes);
    r->marked_bytes = f->marked_bytes;
    r->retrans_bytes = shim_since(f->before.retrans_bytes, tp->bytes_retrans);
    r->sent_packets = shim_since(f->before.sent_packets, tp->data_segs_out);
    r->cwnd_bytes = tp->snd_cwnd * f->conn.mss_bytes;
    r->mss_bytes = f->conn.mss_bytes;
    r->acks = f->acks;
}

static __always_inline __u64 *shim_held(__u32 user)
{
    user &= NCC_USERS - 1;
    return bpf_map_lookup_elem(&users, &user);
}

/* Takes a free slot; returns its number + 1, or 0 if there is none for this user. */
static __always_inline __u32 shim_take_slot(struct ncc_agent *a, __u32 user)
{
    __u64 *held = shim_held(user);
    __u32 slot = 0;

    if (!held)
        return 0;
    if (__sync_fetch_and_add(held, 1) >= *(const volatile ncc_u64 *)&params.user_slots)
        shim_count(&a->over_quota);
    else if (!bpf_map_pop_elem(&free_slots, &slot) && slot < NCC_FLOWS_MAX)
        return slot + 1;
    __sync_fetch_and_add(held, -1);
    return 0;
}

/* Takes a slot for a connection that sends data for the first time, or for the first time with this SO_MARK. */
static __always_inline void shim_open_row(struct sock *sk, struct shim_flow *f)
{
    struct ncc_agent *a = shim_agent();
    struct ncc_report *r;

    f->opened = 1;
    f->mark = sk->sk_mark;
    if (!a || !f->of_host)
        return;
    shim_count(&a->started);
    f->user = sk->sk_uid.val;
    f->slot = shim_take_slot(a, f->user);
    if (!f->slot) {
        shim_count(&a->unreported);
        return;
    }
    r = shim_row(f);
    if (!r)
        return;
    shim_begin_row(r);
    f->generation = r->generation + 1;
    r->generation = f->generation;
    r->state = NCC_FLOW_LIVE;
    r->flow = f->mark;
    r->host = f->host;
    r->began_ns = f->began_ns;
    r->peer = shim_peer(sk);
    /* IP without options. */
    r->header_bytes = (shim_mapped(&r->peer) ? 20 : 40) + ((const struct tcp_sock *)sk)->tcp_header_len;
    r->sent_bytes = 0;
    r->held = 0;
    shim_fill_row(r, f, (const struct tcp_sock *)sk, f->began_ns);
    shim_end_row(r);
}

static __always_inline void shim_close_row(const struct sock *sk, struct shim_flow *f, __u64 now_ns)
{
    const struct tcp_sock *tp = (const struct tcp_sock *)sk;
    struct ncc_agent *a = shim_agent();
    struct ncc_report *r = shim_row(f);
    __u64 *held;

    if (a && f->opened && f->of_host) {
        shim_count(&a->finished);
        __sync_fetch_and_add(&a->acks, (ncc_u64)f->acks);
    }
    if (!r)
        return;
    shim_begin_row(r);
    /* The counters of an aborted socket are already cleared: keep those of the last ACK. */
    r->sent_bytes = ncc_max_u64(r->sent_bytes, shim_since(f->before.sent_bytes, tp->bytes_sent));
    r->retrans_bytes = ncc_max_u64(r->retrans_bytes, shim_since(f->before.retrans_bytes, tp->bytes_retrans));
    r->sent_packets = ncc_max_u64(r->sent_packets, shim_since(f->before.sent_packets, tp->data_segs_out));
    r->updated_ns = now_ns;
    r->unsent_bytes = 0;
    r->state = NCC_FLOW_FINISHED;
    shim_end_row(r);
    f->slot = 0;
    held = shim_held(f->user);
    if (held)
        __sync_fetch_and_add(held, -1);
}

/* Ends a connection's row and takes a new one for its next flow, with counters from 0. */
static __always_inline void shim_next_row(struct sock *sk, struct shim_flow *f, __u64 now_ns)
{
    const struct tcp_sock *tp = (const struct tcp_sock *)sk;

    shim_close_row(sk, f, now_ns);
    f->before.acked_bytes = tp->bytes_acked - f->acked_from;
    f->before.sent_bytes = tp->bytes_sent;
    f->before.retrans_bytes = tp->bytes_retrans;
    f->before.sent_packets = tp->data_segs_out;
    f->began_ns = now_ns;
    f->marked_bytes = f->rtt_sum_ns = f->rtt_samples = 0;
    f->acks = 0;
    shim_open_row(sk, f);
}

/* Takes a row for a flow that has none yet. */
static __always_inline void shim_own_row(struct sock *sk, struct shim_flow *f, __u64 now_ns)
{
    if (!f->opened)
        shim_open_row(sk, f);
    else if (f->mark != sk->sk_mark)
        shim_next_row(sk, f, now_ns);
}

#endif
