/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends a run's flows through real sockets: `traffic <fd of the table of traffic.h>`.
 *
 * One process, one thread and one epoll hold both ends of every flow; a socket belongs to the network namespace in
 * which it was made. So many hosts cost no context switch, and whoever waits for a flow's end knows both of its ends.
 *
 * Standard output: one byte when everything is ready, and one for each snapshot. Standard input: 8 bytes, the time 0 on
 * CLOCK_MONOTONIC, then an 's' for each snapshot of TCP_INFO. Its end ends the program, unless it is to outlive.
 * Connections are closed without a packet (TCP_REPAIR), as in the simulators. Errors: one sentence, status 1.
 */
#define _GNU_SOURCE
#include "traffic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <linux/tcp.h> /* the kernel's, whose tcp_info is longer than libc's */

#define CHUNK_BYTES 65536   /* handed to a socket at once */
#define UNSENT_BYTES 262144 /* that wait in a socket: 4 ms at 500 Mbit/s, should this process not get a turn */
#define WAKE_BYTES 65536    /* that a receiver waits for, so that it wakes for packets by the dozen */
#define CLOSING_NS 500000   /* how often delivered flows are asked whether their last ACK is there */
#define EVENTS 256

/* The kernel's tcp_info from 6.7 on, which headers of older systems do not have: it counts timeouts. */
struct long_tcp_info {
    struct tcp_info known;
    uint32_t more[16];
};
#define TOTAL_RTO_AT (offsetof(struct tcp_info, tcpi_snd_wnd) + 3 * sizeof(uint32_t)) /* a u16 */

enum kind { KIND_TIMER, KIND_CONTROL, KIND_LISTENER, KIND_SENDER, KIND_RECEIVER };

struct ends {
    int sender, receiver; /* -1: none */
};

/* Who a connection that arrives belongs to. */
struct key {
    uint32_t address;
    uint32_t port; /* port, 0: free */
    uint32_t flow;
};

static struct ncc_traffic_header *table;
static struct ncc_traffic_host *hosts;
static struct ncc_traffic_flow *flows;
static struct ends *ends;
static struct key *keys;
static uint32_t key_mask;
static uint32_t *live, n_live;       /* opened, not done */
static uint32_t *closing, n_closing; /* delivered, not acknowledged whole */
static uint32_t next_flow, n_over;
static int poller, timer, *namespaces;
static uint64_t next_sample_ns;
static char zeros[CHUNK_BYTES];

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

/* A TCP socket of a host, with what both ends have in common.
 * The program itself lives in the first host's namespace, so that whoever removes what a crashed run left finds it. */
static int make_socket(uint32_t host)
{
    enter(host);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fail("no socket in namespace %s: %s", hosts[host].netns, strerror(errno));
    }
    enter(0);
    /* The kernel doubles both, for what a packet takes beside its payload. */
    set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, (int)table->send_buffer_bytes, "SO_SNDBUFFORCE");
    set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, (int)table->receive_buffer_bytes, "SO_RCVBUFFORCE");
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    return fd;
}

static int set_congestion(int fd)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, table->congestion, (socklen_t)strlen(table->congestion));
}

static struct key *find_key(uint32_t address, uint16_t port)
{
    uint32_t at = (address * 2654435761u) ^ (port * 40503u);

    for (at &= key_mask; keys[at].port; at = (at + 1) & key_mask) {
        if (keys[at].address == address && keys[at].port == port) {
            break;
        }
    }
    return &keys[at];
}

static void sample(uint32_t i, int count)
{
    struct ncc_traffic_flow *flow = &flows[i];
    struct long_tcp_info all = {0};
    socklen_t length = sizeof(all);
    uint16_t timeouts;

    if (ends[i].sender < 0 || getsockopt(ends[i].sender, IPPROTO_TCP, TCP_INFO, &all, &length)) {
        return;
    }
    if (length < TOTAL_RTO_AT + sizeof(timeouts)) {
        fail("this kernel does not count timeouts (TCP_INFO of %u bytes): it must be 6.7 or later", length);
    }
    memcpy(&timeouts, (const char *)&all + TOTAL_RTO_AT, sizeof(timeouts));
    /* bytes_acked counts the SYN as one. */
    const uint64_t acked = all.known.tcpi_bytes_acked ? all.known.tcpi_bytes_acked - 1 : 0;
    const uint64_t left = all.known.tcpi_bytes_sent - all.known.tcpi_bytes_retrans;
    flow->acked_bytes = acked < flow->size_bytes ? acked : flow->size_bytes;
    flow->left_bytes = left < flow->size_bytes ? left : flow->size_bytes;
    flow->min_rtt_us = all.known.tcpi_min_rtt == UINT32_MAX ? 0 : all.known.tcpi_min_rtt;
    flow->rtt_us = all.known.tcpi_rtt;
    if (count && all.known.tcpi_rtt) {
        flow->rtt_sum_us += all.known.tcpi_rtt;
        ++flow->rtt_samples;
    }
    flow->sent_pkts = all.known.tcpi_data_segs_out;
    flow->retransmitted_pkts = all.known.tcpi_total_retrans;
    flow->timeouts = timeouts;
    flow->ce_pkts = all.known.tcpi_delivered_ce;
    flow->cwnd_pkts = all.known.tcpi_snd_cwnd;
}

static void close_silently(int *fd)
{
    if (*fd >= 0) {
        set_option(*fd, IPPROTO_TCP, TCP_REPAIR, 1, "TCP_REPAIR");
        close(*fd);
        *fd = -1;
    }
}

static void end_flow(uint32_t i, enum ncc_traffic_state state, int error)
{
    sample(i, 1);
    close_silently(&ends[i].sender);
    close_silently(&ends[i].receiver);
    flows[i].error = error;
    __atomic_store_n(&flows[i].state, state, __ATOMIC_RELEASE);
    ++n_over;
    for (uint32_t k = 0; k < n_live; ++k) {
        if (live[k] == i) {
            live[k] = live[--n_live];
            break;
        }
    }
    for (uint32_t k = 0; k < n_closing; ++k) {
        if (closing[k] == i) {
            closing[k] = closing[--n_closing];
            break;
        }
    }
}

static int socket_error(int fd)
{
    int error = 0;
    socklen_t length = sizeof(error);

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) ? errno : error;
}

static void open_flow(uint32_t i)
{
    struct ncc_traffic_flow *flow = &flows[i];
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = hosts[flow->src].address};
    struct sockaddr_in there = {
        .sin_family = AF_INET, .sin_addr.s_addr = hosts[flow->dst].address, .sin_port = htons(NCC_TRAFFIC_PORT)};
    socklen_t length = sizeof(here);
    const int fd = make_socket(flow->src);

    ends[i].sender = fd;
    live[n_live++] = i;
    set_option(fd, SOL_SOCKET, SO_MARK, (int)i + 1, "SO_MARK");
    set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES, "TCP_NOTSENT_LOWAT");
    set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1, "IP_BIND_ADDRESS_NO_PORT");
    flow->opened_ns = now_ns();
    flow->state = NCC_TRAFFIC_CONNECTING;
    if (set_congestion(fd) || bind(fd, (struct sockaddr *)&here, sizeof(here)) ||
        (connect(fd, (struct sockaddr *)&there, sizeof(there)) && errno != EINPROGRESS)) {
        end_flow(i, NCC_TRAFFIC_FAILED, errno);
        return;
    }
    if (getsockname(fd, (struct sockaddr *)&here, &length)) {
        fail("getsockname failed: %s", strerror(errno));
    }
    *find_key(here.sin_addr.s_addr, here.sin_port) = (struct key){here.sin_addr.s_addr, here.sin_port, i};
    watch(EPOLL_CTL_ADD, fd, EPOLLOUT, KIND_SENDER, i);
}

static void send_some(uint32_t i, uint32_t events)
{
    struct ncc_traffic_flow *flow = &flows[i];
    int error;

    if (ends[i].sender < 0) {
        return;
    }
    if (events & (EPOLLERR | EPOLLHUP)) {
        error = socket_error(ends[i].sender);
        end_flow(i, NCC_TRAFFIC_FAILED, error ? error : ECONNRESET);
        return;
    }
    flow->state = NCC_TRAFFIC_SENDING;
    for (int turn = 0; turn < 4 && flow->handed_bytes < flow->size_bytes; ++turn) {
        const uint64_t rest = flow->size_bytes - flow->handed_bytes;
        const int more = rest > CHUNK_BYTES; /* so that no short packet leaves between two chunks */
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
        watch(EPOLL_CTL_MOD, ends[i].sender, 0, KIND_SENDER, i);
    }
}

static void wake_after(uint32_t i)
{
    const uint64_t rest = flows[i].size_bytes - flows[i].received_bytes;

    set_option(ends[i].receiver, SOL_SOCKET, SO_RCVLOWAT, rest < WAKE_BYTES ? (int)rest : WAKE_BYTES, "SO_RCVLOWAT");
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
    n = recv(fd, NULL, rest, MSG_TRUNC | MSG_DONTWAIT); /* taken off the queue without being copied */
    if (n < 0 && (errno == EAGAIN || errno == EINTR) && !(events & (EPOLLERR | EPOLLHUP))) {
        return;
    }
    if (n <= 0) {
        end_flow(i, NCC_TRAFFIC_FAILED, n < 0 ? errno : ECONNRESET);
        return;
    }
    flow->received_bytes += (uint64_t)n;
    if (flow->received_bytes == flow->size_bytes) {
        __atomic_store_n(&flow->finish_ns, now_ns(), __ATOMIC_RELEASE);
        flow->state = NCC_TRAFFIC_DELIVERED;
        watch(EPOLL_CTL_DEL, fd, 0, KIND_RECEIVER, i);
        closing[n_closing++] = i;
    } else if (rest - (uint64_t)n < WAKE_BYTES) {
        wake_after(i);
    }
}

static void accept_all(int listener)
{
    struct sockaddr_in peer;
    socklen_t length = sizeof(peer);
    int fd;

    while ((fd = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        const struct key *key = find_key(peer.sin_addr.s_addr, peer.sin_port);
        if (!key->port || ends[key->flow].receiver >= 0) {
            close(fd); /* of nobody here */
            continue;
        }
        ends[key->flow].receiver = fd;
        wake_after(key->flow);
        watch(EPOLL_CTL_ADD, fd, EPOLLIN, KIND_RECEIVER, key->flow);
        length = sizeof(peer);
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        fail("accept failed: %s", strerror(errno));
    }
}

/* Flows whose last byte is acknowledged, or whose sender will never hear of it. */
static void close_delivered(void)
{
    for (uint32_t k = n_closing; k-- > 0;) {
        const uint32_t i = closing[k];
        int unacked = 0;
        if (ioctl(ends[i].sender, SIOCOUTQ, &unacked) || unacked == 0) {
            end_flow(i, NCC_TRAFFIC_DONE, 0);
        }
    }
}

static void arm(void)
{
    uint64_t at = table->start_ns + table->deadline_ns;
    struct itimerspec when = {0};

    if (next_flow < table->n_flows && table->start_ns + flows[next_flow].start_ns < at) {
        at = table->start_ns + flows[next_flow].start_ns;
    }
    if (table->sample_ns && next_sample_ns < at) {
        at = next_sample_ns;
    }
    if (n_closing && now_ns() + CLOSING_NS < at) {
        at = now_ns() + CLOSING_NS;
    }
    when.it_value.tv_sec = (time_t)(at / 1000000000u);
    when.it_value.tv_nsec = (long)(at % 1000000000u);
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void tick(void)
{
    uint64_t expired, now;

    if (read(timer, &expired, sizeof(expired)) < 0 && errno != EAGAIN) {
        fail("the timer cannot be read: %s", strerror(errno));
    }
    now = now_ns();
    while (next_flow < table->n_flows && table->start_ns + flows[next_flow].start_ns <= now) {
        open_flow(next_flow++);
    }
    if (table->sample_ns && now >= next_sample_ns) {
        for (uint32_t k = 0; k < n_live; ++k) {
            sample(live[k], 1);
        }
        __atomic_store_n(&table->samples, table->samples + 1, __ATOMIC_RELEASE);
        next_sample_ns += table->sample_ns * (1 + (now - next_sample_ns) / table->sample_ns);
    }
}

static void say(char what)
{
    if (write(STDOUT_FILENO, &what, 1) != 1 && !table->outlive) {
        fail("nobody listens: %s", strerror(errno));
    }
}

static void control(void)
{
    char said[64];
    const ssize_t n = read(STDIN_FILENO, said, sizeof(said));

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        if (!table->outlive) {
            exit(0);
        }
        watch(EPOLL_CTL_DEL, STDIN_FILENO, 0, KIND_CONTROL, 0);
        return;
    }
    for (uint32_t k = 0; k < n_live; ++k) {
        sample(live[k], 0);
    }
    for (ssize_t k = 0; k < n; ++k) {
        say('s');
    }
}

static void map_table(const char *argument)
{
    const int fd = atoi(argument);
    struct stat file;
    size_t wanted;

    if (fstat(fd, &file) || (size_t)file.st_size < sizeof(*table)) {
        fail("file descriptor %s is no table of flows", argument);
    }
    table = mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (table == MAP_FAILED) {
        fail("the table of flows cannot be mapped: %s", strerror(errno));
    }
    if (table->magic != NCC_TRAFFIC_MAGIC || table->header_bytes != sizeof(*table) ||
        table->host_bytes != sizeof(*hosts) || table->flow_bytes != sizeof(*flows)) {
        fail("the table of flows is of another version of ncc: rebuild with `make build`");
    }
    wanted = sizeof(*table) + sizeof(*hosts) * (size_t)table->n_hosts + sizeof(*flows) * (size_t)table->n_flows;
    if ((size_t)file.st_size < wanted) {
        fail("the table of flows has %zu bytes instead of %zu", (size_t)file.st_size, wanted);
    }
    hosts = (struct ncc_traffic_host *)(table + 1);
    flows = (struct ncc_traffic_flow *)(hosts + table->n_hosts);
    for (uint32_t i = 0; i < table->n_flows; ++i) {
        if (flows[i].src >= table->n_hosts || flows[i].dst >= table->n_hosts || flows[i].size_bytes < 1) {
            fail("flow %u goes from host %u to host %u of %u with %llu bytes", i, flows[i].src, flows[i].dst,
                 table->n_hosts, (unsigned long long)flows[i].size_bytes);
        }
    }
}

static void *array(size_t n, size_t each)
{
    void *made = calloc(n ? n : 1, each);

    if (!made) {
        fail("no memory for %zu entries", n);
    }
    return made;
}

static void prepare(void)
{
    struct rlimit files;

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (setpriority(PRIO_PROCESS, 0, table->nice)) {
        fail("nice %d is refused: %s", table->nice, strerror(errno));
    }
    ends = array(table->n_flows, sizeof(*ends));
    live = array(table->n_flows, sizeof(*live));
    closing = array(table->n_flows, sizeof(*closing));
    for (uint32_t i = 0; i < table->n_flows; ++i) {
        ends[i] = (struct ends){-1, -1};
    }
    for (key_mask = 1024; key_mask < 4 * table->n_flows; key_mask *= 2) {
    }
    keys = array(key_mask--, sizeof(*keys));
    namespaces = array(table->n_hosts, sizeof(*namespaces));
    poller = epoll_create1(EPOLL_CLOEXEC);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (poller < 0 || timer < 0) {
        fail("no epoll or timer: %s", strerror(errno));
    }
    watch(EPOLL_CTL_ADD, timer, EPOLLIN, KIND_TIMER, 0);
}

static void set_ecn(const char *netns)
{
    const int fd = open("/proc/sys/net/ipv4/tcp_ecn", O_WRONLY | O_CLOEXEC);
    const char value[] = {(char)('0' + table->ecn), '\n'};

    if (fd < 0 || write(fd, value, sizeof(value)) != (ssize_t)sizeof(value)) {
        fail("net.ipv4.tcp_ecn of namespace %s cannot be set to %u: %s", netns, table->ecn, strerror(errno));
    }
    close(fd);
}

static void listen_everywhere(void)
{
    for (uint32_t i = 0; i < table->n_hosts; ++i) {
        struct sockaddr_in here = {
            .sin_family = AF_INET, .sin_addr.s_addr = hosts[i].address, .sin_port = htons(NCC_TRAFFIC_PORT)};
        char path[96];
        int fd;

        snprintf(path, sizeof(path), "/var/run/netns/%.55s", hosts[i].netns);
        namespaces[i] = open(path, O_RDONLY | O_CLOEXEC);
        if (namespaces[i] < 0) {
            fail("namespace %s cannot be opened: %s", hosts[i].netns, strerror(errno));
        }
        enter(i);
        set_ecn(hosts[i].netns);
        fd = make_socket(i);
        if (set_congestion(fd)) { /* whose connections have it too */
            fail("the kernel has no congestion control called %s: %s", table->congestion, strerror(errno));
        }
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
        if (bind(fd, (struct sockaddr *)&here, sizeof(here)) || listen(fd, 4096)) {
            fail("host %u cannot listen in namespace %s: %s", i, hosts[i].netns, strerror(errno));
        }
        watch(EPOLL_CTL_ADD, fd, EPOLLIN, KIND_LISTENER, (uint32_t)fd);
    }
}

static void wait_for_start(void)
{
    uint64_t start;
    size_t got = 0;

    say('r');
    while (got < sizeof(start)) {
        const ssize_t n = read(STDIN_FILENO, (char *)&start + got, sizeof(start) - got);
        if (n <= 0) {
            exit(0); /* called off */
        }
        got += (size_t)n;
    }
    table->start_ns = start;
    next_sample_ns = start + table->sample_ns;
    fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
    watch(EPOLL_CTL_ADD, STDIN_FILENO, EPOLLIN, KIND_CONTROL, 0);
}

static void run(void)
{
    struct epoll_event events[EVENTS];

    while (n_over < table->n_flows) {
        int n;

        arm();
        n = epoll_wait(poller, events, EVENTS, -1);
        if (n < 0 && errno != EINTR) {
            fail("epoll_wait failed: %s", strerror(errno));
        }
        for (int k = 0; k < n; ++k) {
            const uint32_t index = (uint32_t)events[k].data.u64;
            switch ((enum kind)(events[k].data.u64 >> 32)) {
            case KIND_TIMER:
                tick();
                break;
            case KIND_CONTROL:
                control();
                break;
            case KIND_LISTENER:
                accept_all((int)index);
                break;
            case KIND_SENDER:
                send_some(index, events[k].events);
                break;
            case KIND_RECEIVER:
                receive_some(index, events[k].events);
                break;
            }
        }
        close_delivered();
        if (now_ns() >= table->start_ns + table->deadline_ns) {
            break;
        }
    }
    for (uint32_t k = 0; k < n_live; ++k) {
        sample(live[k], 0);
    }
    __atomic_store_n(&table->over, n_over < table->n_flows ? NCC_TRAFFIC_OUT_OF_TIME : NCC_TRAFFIC_ALL_DONE,
                     __ATOMIC_RELEASE);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fail("usage: traffic <file descriptor of the table of flows>");
    }
    map_table(argv[1]);
    if (!table->outlive && prctl(PR_SET_PDEATHSIG, SIGKILL)) {
        fail("PR_SET_PDEATHSIG is refused: %s", strerror(errno));
    }
    signal(SIGPIPE, SIG_IGN);
    prepare();
    listen_everywhere();
    wait_for_start();
    run();
    return 0;
}
