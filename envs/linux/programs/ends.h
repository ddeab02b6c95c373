/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of flows: their sockets, their counters, and those that stay open. Part of traffic.c. */
#ifndef NCC_LINUX_ENDS_H
#define NCC_LINUX_ENDS_H

#include "order.h"
#include "traffic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/tcp.h> /* the kernel's header, whose tcp_info is longer than libc's */

#define UNSENT_BYTES 262144 /* unsent bytes in a socket of fixed size: 4 ms at 500 Mbit/s without this process */

/* The kernel's tcp_info as of 6.7, which counts timeouts; headers of older systems do not have it. */
struct long_tcp_info {
    struct tcp_info known;
    uint32_t more[16];
};
#define TOTAL_RTO_AT (offsetof(struct tcp_info, tcpi_snd_wnd) + 3 * sizeof(uint32_t)) /* a u16 */

enum kind { KIND_TIMER, KIND_CONTROL, KIND_LISTENER, KIND_SENDER, KIND_RECEIVER };

/* Counters of a connection (TCP_INFO). */
struct counts {
    uint64_t acked_bytes, left_bytes;
    uint32_t sent_pkts, retransmitted_pkts, ce_pkts;
    uint16_t timeouts;
};

/* Both ends of a connection. Row i below n_flows has the connection of flow i while the flow uses it, and after that
 * until the next flow of the pair takes it. The other rows are connections that no flow has used. */
struct ends {
    int sender, receiver; /* -1: none */
    int idle;             /* 1: the flow is over */
    uint32_t next_idle;   /* row of the connection of the pair that became idle before, or NONE */
    struct counts before; /* counts of earlier flows */
};
#define NONE UINT32_MAX
#define ESTABLISHED 1 /* tcpi_state, TCP_ESTABLISHED */

/* The row of `ends` that an arriving connection belongs to. A host may use one port for several destinations. */
struct key {
    uint32_t from, to; /* addresses */
    uint32_t port;     /* of the sender, in network order; 0: free */
    uint32_t row;
};

static struct ncc_traffic_header *table;
static struct ncc_traffic_host *hosts;
static struct ncc_traffic_flow *flows;
static struct ends *ends;
static uint32_t n_ends;
static uint32_t *last_idle; /* row of the connection that became idle last, by src * n_hosts + dst; or NONE */
static struct key *keys;
static uint32_t key_mask;
static int poller, *namespaces;

static void fail(const char *format, ...)
{
    va_list values;

    va_start(values, format);
    fputs("traffic: ", stderr);
    vfprintf(stderr, format, values);
    fputs(".\n", stderr);
    va_end(values);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void watch(int operation, int fd, uint32_t events, enum kind kind, uint32_t index)
{
    struct epoll_event event = {.events = events, .data.u64 = (uint64_t)kind << 32 | index};

    if (epoll_ctl(poller, operation, fd, &event)) {
        fail("epoll_ctl failed: %s", strerror(errno));
    }
}

static void set_option(int fd, int level, int name, int value, const char *what)
{
    if (setsockopt(fd, level, name, &value, sizeof(value))) {
        fail("a socket cannot be given %s = %d: %s", what, value, strerror(errno));
    }
}

static void enter(uint32_t host)
{
    if (setns(namespaces[host], CLONE_NEWNET)) {
        fail("namespace %s cannot be entered: %s", hosts[host].netns, strerror(errno));
    }
}

/* Makes a TCP socket of a host, with the options that both ends share.
 * The program itself stays in the first host's namespace, where the clean-up of a crashed run finds it. */
static int make_socket(uint32_t host)
{
    enter(host);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fail("no socket in namespace %s: %s", hosts[host].netns, strerror(errno));
    }
    enter(0);
    /* The kernel doubles both sizes, to allow for the memory that packets take in addition to their payload. */
    if (table->send_buffer_bytes) {
        set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, (int)table->send_buffer_bytes, "SO_SNDBUFFORCE");
    }
    set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, (int)table->receive_buffer_bytes, "SO_RCVBUFFORCE");
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    /* If this program is killed, its connections end at once and do not keep their namespace until they give up. */
    if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger))) {
        fail("a socket cannot be given SO_LINGER: %s", strerror(errno));
    }
    return fd;
}

static int set_congestion(int fd)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, table->congestion, (socklen_t)strlen(table->congestion));
}

static struct key *find_key(uint32_t from, uint32_t to, uint16_t port)
{
    uint32_t at = ((from ^ to * 2246822519u) * 2654435761u) ^ (port * 40503u);

    for (at &= key_mask; keys[at].port; at = (at + 1) & key_mask) {
        if (keys[at].from == from && keys[at].to == to && keys[at].port == port) {
            break;
        }
    }
    return &keys[at];
}

/* Reads the counters of a connection; returns 0 if there are none. */
static int count(uint32_t row, struct long_tcp_info *all, struct counts *so_far)
{
    socklen_t length = sizeof(*all);

    memset(all, 0, sizeof(*all));
    if (ends[row].sender < 0 || getsockopt(ends[row].sender, IPPROTO_TCP, TCP_INFO, all, &length)) {
        return 0;
    }
    if (length < TOTAL_RTO_AT + sizeof(so_far->timeouts)) {
        fail("this kernel does not count timeouts (TCP_INFO of %u bytes): it must be 6.7 or later", length);
    }
    memcpy(&so_far->timeouts, (const char *)all + TOTAL_RTO_AT, sizeof(so_far->timeouts));
    /* bytes_acked counts the SYN as one. */
    so_far->acked_bytes = all->known.tcpi_bytes_acked ? all->known.tcpi_bytes_acked - 1 : 0;
    so_far->left_bytes = all->known.tcpi_bytes_sent - all->known.tcpi_bytes_retrans;
    so_far->sent_pkts = all->known.tcpi_data_segs_out;
    so_far->retransmitted_pkts = all->known.tcpi_total_retrans;
    so_far->ce_pkts = all->known.tcpi_delivered_ce;
    return 1;
}

static void close_silently(int *fd)
{
    if (*fd >= 0) {
        set_option(*fd, IPPROTO_TCP, TCP_REPAIR, 1, "TCP_REPAIR");
        close(*fd);
        *fd = -1;
    }
}

static void close_ends(uint32_t row)
{
    close_silently(&ends[row].sender);
    close_silently(&ends[row].receiver);
}

static uint32_t *last_idle_of(const struct ncc_traffic_flow *flow)
{
    return &last_idle[(size_t)flow->src * table->n_hosts + flow->dst];
}

/* Keeps a connection for the next flow of its pair. */
static void keep_idle(uint32_t row, uint32_t *last)
{
    ends[row].idle = 1;
    ends[row].next_idle = *last;
    *last = row;
}

/* Gives a flow the connection of its pair that became idle last; returns 0 if there is none. */
static int take_idle(uint32_t i)
{
    uint32_t *last = last_idle_of(&flows[i]);
    struct long_tcp_info all;

    while (*last != NONE) {
        const uint32_t row = *last;
        *last = ends[row].next_idle;
        if (count(row, &all, &ends[i].before) && all.known.tcpi_state == ESTABLISHED) {
            ends[i].sender = ends[row].sender;
            ends[i].receiver = ends[row].receiver;
            ends[row].sender = ends[row].receiver = -1;
            return 1;
        }
        close_ends(row);
        ends[i].before = (struct counts){0};
    }
    return 0;
}

/* Marks a connection with its flow, for the shim. A new mark clears the socket's route until it sends, and with it the
 * initial window, to which the kernel's own controls shrink after a pause. Their connections therefore get no mark. */
static void set_mark(uint32_t i)
{
    if (table->marks) {
        set_option(ends[i].sender, SOL_SOCKET, SO_MARK, (int)i + 1, "SO_MARK");
    }
}

/* Announces the size of the next message to the host's queue. */
static void tell_size(uint32_t i, uint64_t size)
{
    set_option(ends[i].sender, NCC_ORDER_LEVEL, NCC_ORDER_SIZE, (int)(size < table->tells ? size : table->tells),
               "a size");
}

/* Begins the handshake of a connection between the hosts of a flow; returns an errno, or 0. */
static int open_ends(uint32_t row, const struct ncc_traffic_flow *flow)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = hosts[flow->src].address};
    struct sockaddr_in there = {
        .sin_family = AF_INET, .sin_addr.s_addr = hosts[flow->dst].address, .sin_port = htons(NCC_TRAFFIC_PORT)};
    socklen_t length = sizeof(here);
    const int fd = make_socket(flow->src);

    ends[row].sender = fd;
    if (row < table->n_flows) {
        set_mark(row);
    }
    if (table->send_buffer_bytes) {
        set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES, "TCP_NOTSENT_LOWAT");
    }
    set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1, "IP_BIND_ADDRESS_NO_PORT");
    if (set_congestion(fd) || bind(fd, (struct sockaddr *)&here, sizeof(here)) ||
        (connect(fd, (struct sockaddr *)&there, sizeof(there)) && errno != EINPROGRESS)) {
        return errno;
    }
    if (getsockname(fd, (struct sockaddr *)&here, &length)) {
        fail("getsockname failed: %s", strerror(errno));
    }
    *find_key(here.sin_addr.s_addr, there.sin_addr.s_addr, here.sin_port) =
        (struct key){here.sin_addr.s_addr, there.sin_addr.s_addr, here.sin_port, row};
    return 0;
}

static int socket_error(int fd)
{
    int error = 0;
    socklen_t length = sizeof(error);

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) ? errno : error;
}

#endif
