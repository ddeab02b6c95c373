/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends of every flow: starting, opening, sending, receiving, measuring and ending. Part of traffic.c. */
#ifndef NCC_LINUX_FLOWS_H
#define NCC_LINUX_FLOWS_H

#include "ends.h"
#include "requests.h"

#define CHUNK_BYTES 65536 /* bytes handed to a socket at once */
#define WAKE_BYTES 65536  /* bytes that a receiver waits for, to wake up for dozens of packets */
#define CLOSING_NS 500000 /* period at which delivered flows are checked for their last ACK */
#define OPEN_WITHIN_S 15  /* longest time for the connections that are open from the start */
#define EVENTS 256

static uint32_t *first_flow, n_pairs;        /* first flow of each pair of hosts */
static uint32_t *live, n_live;               /* flows that are open and not done */
static uint32_t *closing, n_closing;         /* flows that are delivered and not fully acknowledged */
static uint32_t next_flow, n_over, n_pieced; /* the last: flows that are written piece by piece */
static uint64_t next_sample_ns;
static struct ncc_requests requests; /* without arrays if there is no graph */
static uint32_t *started;            /* column of the graph */
static int timer;
static char zeros[CHUNK_BYTES];

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Returns the bytes of a flow that its application has written or wants to write by now. */
static uint64_t written(const struct ncc_traffic_flow *flow)
{
    uint64_t pieces;

    if (!flow->chunk_bytes) {
        return flow->size_bytes;
    }
    pieces = 1 + (now_ns() - flow->opened_ns) / (1000ull * flow->every_us);
    return pieces > flow->size_bytes / flow->chunk_bytes ? flow->size_bytes : pieces * flow->chunk_bytes;
}

/* Resumes applications whose pause is over. Returns the time at which the next piece is due, or UINT64_MAX. */
static uint64_t write_pieces(void)
{
    uint64_t due = UINT64_MAX;

    for (uint32_t k = 0; n_pieced && k < n_live; ++k) {
        const struct ncc_traffic_flow *flow = &flows[live[k]];
        if (!flow->chunk_bytes || flow->state != NCC_TRAFFIC_SENDING) {
            continue;
        }
        if (flow->handed_bytes < written(flow)) {
            watch(EPOLL_CTL_MOD, ends[live[k]].sender, EPOLLOUT, KIND_SENDER, live[k]);
        } else {
            const uint64_t pieces = 1 + (now_ns() - flow->opened_ns) / (1000ull * flow->every_us);
            due = least(due, flow->opened_ns + pieces * 1000ull * flow->every_us);
        }
    }
    return due;
}

static void sample(uint32_t i, int count_rtt)
{
    struct ncc_traffic_flow *flow = &flows[i];
    const struct counts *before = &ends[i].before;
    struct long_tcp_info all;
    struct counts so_far;

    if (!count(i, &all, &so_far)) {
        return;
    }
    flow->acked_bytes = least(so_far.acked_bytes - before->acked_bytes, flow->size_bytes);
    flow->left_bytes = least(so_far.left_bytes - before->left_bytes, flow->size_bytes);
    flow->min_rtt_us = all.known.tcpi_min_rtt == UINT32_MAX ? 0 : all.known.tcpi_min_rtt;
    if (count_rtt && all.known.tcpi_rtt) {
        flow->rtt_sum_us += all.known.tcpi_rtt;
        ++flow->rtt_samples;
    }
    flow->sent_pkts = so_far.sent_pkts - before->sent_pkts;
    flow->retransmitted_pkts = so_far.retransmitted_pkts - before->retransmitted_pkts;
    flow->timeouts = (uint16_t)(so_far.timeouts - before->timeouts);
    flow->ce_pkts = so_far.ce_pkts - before->ce_pkts;
}

/* Removes a flow from a list and keeps the order of the others. */
static void strike(uint32_t *list, uint32_t *n, uint32_t i)
{
    for (uint32_t k = 0; k < *n; ++k) {
        if (list[k] == i) {
            memmove(&list[k], &list[k + 1], (--*n - k) * sizeof(*list));
            return;
        }
    }
}

static void end_flow(uint32_t i, enum ncc_traffic_state state, int error)
{
    sample(i, 1);
    if (state == NCC_TRAFFIC_DONE && table->connections_per_pair) {
        keep_idle(i, last_idle_of(&flows[i]));
    } else {
        close_ends(i);
    }
    flows[i].error = error;
    __atomic_store_n(&flows[i].state, state, __ATOMIC_RELEASE);
    ++n_over;
    strike(live, &n_live, i);
    strike(closing, &n_closing, i);
}

static void wake_after(uint32_t i)
{
    const uint64_t rest = flows[i].size_bytes - flows[i].received_bytes;

    set_option(ends[i].receiver, SOL_SOCKET, SO_RCVLOWAT, rest < WAKE_BYTES ? (int)rest : WAKE_BYTES, "SO_RCVLOWAT");
}

static void complete(uint32_t i)
{
    const uint64_t now = now_ns();

    __atomic_store_n(&flows[i].finish_ns, now, __ATOMIC_RELEASE);
    if (table->requests) {
        ncc_requests_complete(&requests, i, (int64_t)(now - table->start_ns));
    }
}

static void open_flow(uint32_t i)
{
    struct ncc_traffic_flow *flow = &flows[i];

    live[n_live++] = i;
    flow->opened_ns = now_ns();
    if (take_idle(i)) {
        flow->state = NCC_TRAFFIC_SENDING;
        set_mark(i);
        wake_after(i);
        watch(EPOLL_CTL_ADD, ends[i].receiver, EPOLLIN, KIND_RECEIVER, i);
        watch(EPOLL_CTL_MOD, ends[i].sender, EPOLLOUT, KIND_SENDER, i);
        return;
    }
    table->n_handshakes += flow->answer;
    flow->state = NCC_TRAFFIC_CONNECTING;
    const int error = open_ends(i, flow);
    if (error) {
        end_flow(i, NCC_TRAFFIC_FAILED, error);
        return;
    }
    watch(EPOLL_CTL_ADD, ends[i].sender, EPOLLOUT, KIND_SENDER, i);
}

static void send_some(uint32_t i, uint32_t events)
{
    struct ncc_traffic_flow *flow = &flows[i];
    uint64_t until;
    int error;

    if (ends[i].sender < 0) {
        return;
    }
    if (ends[i].idle) {
        if (events & (EPOLLERR | EPOLLHUP)) {
            close_ends(i);
        }
        return;
    }
    if (events & (EPOLLERR | EPOLLHUP)) {
        error = socket_error(ends[i].sender);
        end_flow(i, NCC_TRAFFIC_FAILED, error ? error : ECONNRESET);
        return;
    }
    flow->state = NCC_TRAFFIC_SENDING;
    until = written(flow);
    if (table->tells && !flow->handed_bytes) {
        tell_size(i, table->tells < INT32_MAX ? until : flow->size_bytes);
    }
    for (int turn = 0; turn < 4 && flow->handed_bytes < until; ++turn) {
        const uint64_t rest = until - flow->handed_bytes;
        const int more = rest > CHUNK_BYTES; /* prevents a short packet between two chunks */
        const ssize_t n =
            send(ends[i].sender, zeros, more ? CHUNK_BYTES : rest, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n < 0) {
            end_flow(i, NCC_TRAFFIC_FAILED, errno);
            return;
        }
        flow->handed_bytes += (uint64_t)n;
    }
    if (flow->handed_bytes == flow->size_bytes) {
        flow->state = NCC_TRAFFIC_HANDED;
        if (table->fins) {
            shutdown(ends[i].sender, SHUT_WR);
        }
    }
    if (flow->handed_bytes == until) {
        watch(EPOLL_CTL_MOD, ends[i].sender, 0, KIND_SENDER, i);
    }
}

static void receive_some(uint32_t i, uint32_t events)
{
    struct ncc_traffic_flow *flow = &flows[i];
    const int fd = ends[i].receiver;
    uint64_t rest;
    ssize_t n;

    if (fd < 0) {
        return;
    }
    rest = flow->size_bytes - flow->received_bytes;
    n = recv(fd, NULL, rest, MSG_TRUNC | MSG_DONTWAIT); /* removes the bytes without copying them */
    if (n < 0 && (errno == EAGAIN || errno == EINTR) && !(events & (EPOLLERR | EPOLLHUP))) {
        return;
    }
    if (n <= 0) {
        end_flow(i, NCC_TRAFFIC_FAILED, n < 0 ? errno : ECONNRESET);
        return;
    }
    flow->received_bytes += (uint64_t)n;
    if (flow->received_bytes == flow->size_bytes) {
        complete(i);
        flow->state = NCC_TRAFFIC_DELIVERED;
        watch(EPOLL_CTL_DEL, fd, 0, KIND_RECEIVER, i);
        closing[n_closing++] = i;
    } else if (rest - (uint64_t)n < WAKE_BYTES) {
        wake_after(i);
    }
}

static void accept_all(int listener)
{
    struct sockaddr_in here, peer;
    socklen_t length = sizeof(here);
    int fd;

    if (getsockname(listener, (struct sockaddr *)&here, &length)) {
        fail("getsockname failed: %s", strerror(errno));
    }
    while ((fd = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        const struct key *key = find_key(peer.sin_addr.s_addr, here.sin_addr.s_addr, peer.sin_port);
        if (!key->port || ends[key->row].receiver >= 0) {
            close(fd); /* belongs to no flow */
            continue;
        }
        ends[key->row].receiver = fd;
        if (key->row < table->n_flows) {
            wake_after(key->row);
            watch(EPOLL_CTL_ADD, fd, EPOLLIN, KIND_RECEIVER, key->row);
        }
        length = sizeof(peer);
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        fail("accept failed: %s", strerror(errno));
    }
}

/* Opens the connections that are open from the start, one of every pair at a time. */
static void open_connections(void)
{
    const uint64_t until = now_ns() + OPEN_WITHIN_S * 1000000000ull;
    uint32_t row = table->n_flows, opened = row;

    while (opened < n_ends) {
        for (uint32_t pair = 0; pair < n_pairs; ++pair, ++opened) {
            const struct ncc_traffic_flow *flow = &flows[first_flow[pair]];
            const int error = open_ends(opened, flow);
            if (error) {
                fail("host %u cannot be connected to host %u: %s", flow->src, flow->dst, strerror(error));
            }
            watch(EPOLL_CTL_ADD, ends[opened].sender, 0, KIND_SENDER, opened);
            keep_idle(opened, last_idle_of(flow));
        }
        while (row < opened) {
            struct epoll_event events[EVENTS];
            const int n = epoll_wait(poller, events, EVENTS, 100);
            for (int k = 0; k < n; ++k) {
                const uint32_t index = (uint32_t)events[k].data.u64;
                if (events[k].data.u64 >> 32 == KIND_LISTENER) {
                    accept_all((int)index);
                } else if (events[k].data.u64 >> 32 == KIND_SENDER) {
                    fail("a connection cannot be opened: %s", strerror(socket_error(ends[index].sender)));
                }
            }
            while (row < opened && ends[row].receiver >= 0) {
                ++row;
            }
            if (now_ns() > until) {
                fail("the connections that are open from the start took longer than %d s", OPEN_WITHIN_S);
            }
        }
    }
}

/* Ends delivered flows whose last byte is acknowledged or whose socket cannot be queried, in the order of delivery. */
static void end_delivered(void)
{
    for (uint32_t k = 0; k < n_closing;) {
        const uint32_t i = closing[k];
        int unacked = 0;
        if (ioctl(ends[i].sender, SIOCOUTQ, &unacked) || unacked == 0) {
            end_flow(i, NCC_TRAFFIC_DONE, 0);
        } else {
            ++k;
        }
    }
}

/* Takes the next flow that is due; returns 0 if there is none. */
static int take_flow(uint32_t *i)
{
    const int64_t now = (int64_t)(now_ns() - table->start_ns); /* < 0 before time 0 */

    while (next_flow < table->n_flows && (int64_t)flows[next_flow].start_ns <= now) {
        *i = next_flow++;
        if (ncc_requests_starts(&requests, *i, now)) {
            return 1;
        }
    }
    if (!ncc_requests_take(&requests, now, i)) {
        return 0;
    }
    flows[*i].start_ns = (uint64_t)now;
    return 1;
}

static void start_flows(void)
{
    uint32_t i;

    while (take_flow(&i)) {
        if (flows[i].size_bytes == 0) { /* a wait */
            flows[i].opened_ns = now_ns();
            complete(i);
            flows[i].state = NCC_TRAFFIC_DONE;
            ++n_over;
        } else {
            end_delivered(); /* their connections are idle now */
            open_flow(i);
        }
        if (table->requests) {
            started[table->n_started] = i;
            __atomic_store_n(&table->n_started, table->n_started + 1, __ATOMIC_RELEASE);
        }
    }
}

#endif
