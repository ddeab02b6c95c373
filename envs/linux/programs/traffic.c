/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends a run's flows through real sockets: `traffic <fd of the table of traffic.h>`.
 *
 * One process, one thread and one epoll handle both ends of every flow; a socket belongs to the network namespace in
 * which it was made. Many hosts therefore cost no context switches, and the program sees both ends of a flow.
 *
 * Standard output: one byte when everything is ready, and one for each snapshot. Standard input: 8 bytes, the time 0 on
 * CLOCK_MONOTONIC, then an 's' for each snapshot of TCP_INFO. The end of standard input ends the program.
 * Connections are closed without a packet (TCP_REPAIR), as in the simulators: each when its flow is over; if the
 * table asks for connections that stay open (Transport.connections_per_pair of ncc/core/scenario.py), all at the end.
 * Errors: one sentence, status 1.
 */
#define _GNU_SOURCE
#include "flows.h"
#include "ncc_fronts.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

static void arm(void)
{
    uint64_t at = least(table->start_ns + table->deadline_ns, write_pieces());
    struct itimerspec when = {0};

    if (next_flow < table->n_flows && table->start_ns + flows[next_flow].start_ns < at) {
        at = table->start_ns + flows[next_flow].start_ns;
    }
    if (requests.n_due && table->start_ns + (uint64_t)requests.due[0].at_ns < at) {
        at = table->start_ns + (uint64_t)requests.due[0].at_ns;
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
    start_flows();
    now = now_ns();
    if (table->sample_ns && now >= next_sample_ns) {
        for (uint32_t k = 0; k < n_live; ++k) {
            sample(live[k], 1);
        }
        next_sample_ns += table->sample_ns * (1 + (now - next_sample_ns) / table->sample_ns);
    }
}

static void say(char what)
{
    if (write(STDOUT_FILENO, &what, 1) != 1) {
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
        exit(0);
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

    if (fstat(fd, &file) || (size_t)file.st_size < sizeof(*table)) {
        fail("file descriptor %s is no table of flows", argument);
    }
    table = mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (table == MAP_FAILED) {
        fail("the table of flows cannot be mapped: %s", strerror(errno));
    }
    if (table->magic != NCC_TRAFFIC_MAGIC || table->header_bytes != sizeof(*table) ||
        table->host_bytes != sizeof(*hosts) || table->flow_bytes != sizeof(*flows) ||
        table->graph_bytes != sizeof(struct ncc_traffic_graph)) {
        fail("the table of flows is of another version of ncc: rebuild with `make build`");
    }
    hosts = (struct ncc_traffic_host *)(table + 1);
    flows = (struct ncc_traffic_flow *)(hosts + table->n_hosts);
}

static void *array(size_t n, size_t each)
{
    void *made = calloc(n ? n : 1, each);

    if (!made) {
        fail("no memory for %zu entries", n);
    }
    return made;
}

static void find_front(const struct ncc_traffic_front *seen)
{
    for (size_t k = 0; k < sizeof(ncc_front_table) / sizeof(*ncc_front_table); ++k) {
        if (!strcmp(ncc_front_table[k]->name, table->front)) {
            requests.front = ncc_front_table[k];
        }
    }
    if (!requests.front) {
        fail("there is no front end %.16s: rebuild with `make build`", table->front);
    }
    requests.params = (const ncc_u64 *)table->front_params;
    requests.ends = array(table->n_fronts, sizeof(*requests.ends));
    for (uint32_t k = 0; k < table->n_fronts; ++k) {
        requests.ends[k].seen.rate_bytes_per_s = seen[k].rate_bytes_per_s;
        requests.ends[k].seen.buffer_bytes = seen[k].buffer_bytes;
        requests.ends[k].seen.base_rtt_ns = seen[k].base_rtt_ns;
        requests.ends[k].seen.packet_bytes = seen[k].packet_bytes;
        ncc_front_begin(&requests, &requests.ends[k]);
    }
    requests.next = array(table->n_flows, sizeof(*requests.next));
    requests.asked_ns = array(table->n_flows, sizeof(*requests.asked_ns));
    memset(requests.asked_ns, -1, table->n_flows * sizeof(*requests.asked_ns));
    requests.late_ns = (int64_t)table->late_ns;
}

static void find_requests(void)
{
    const struct ncc_traffic_front *seen = (const struct ncc_traffic_front *)(flows + table->n_flows);
    const size_t n = table->n_flows;
    uint32_t groups;

    if (!table->requests) {
        return;
    }
    requests.think_ns = (const int64_t *)(seen + table->n_fronts);
    requests.wire_bytes = (const uint64_t *)(requests.think_ns + n);
    requests.group = (const int32_t *)(requests.wire_bytes + n);
    requests.after = requests.group + n;
    requests.query_of = requests.after + n;
    requests.end_of = requests.query_of + n;
    started = (uint32_t *)(requests.end_of + n);
    requests.n_flows = table->n_flows;
    groups = ncc_requests_groups(&requests, table->n_flows);
    requests.waiting = array(n, sizeof(*requests.waiting));
    requests.first = array(groups + 1, sizeof(*requests.first));
    requests.left = array(groups, sizeof(*requests.left));
    requests.due = array(2 * (n + table->n_fronts), sizeof(*requests.due));
    ncc_requests_list(&requests, table->n_flows, groups);
    if (table->n_fronts) {
        find_front(seen);
    }
}

static void find_pairs(void)
{
    const size_t of_hosts = (size_t)table->n_hosts * table->n_hosts;

    first_flow = array(table->n_flows, sizeof(*first_flow));
    last_idle = array(of_hosts, sizeof(*last_idle));
    for (uint32_t i = 0; i < table->n_flows; ++i) {
        uint32_t *known = last_idle_of(&flows[i]);
        if (!*known && flows[i].size_bytes > 0) {
            *known = 1;
            first_flow[n_pairs++] = i;
        }
    }
    for (size_t k = 0; k < of_hosts; ++k) {
        last_idle[k] = NONE;
    }
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
    find_pairs();
    find_requests();
    for (uint32_t i = 0; i < table->n_flows; ++i) {
        n_pieced += flows[i].chunk_bytes > 0;
    }
    n_ends = table->n_flows + n_pairs * table->connections_per_pair;
    ends = array(n_ends, sizeof(*ends));
    live = array(table->n_flows, sizeof(*live));
    closing = array(table->n_flows, sizeof(*closing));
    for (uint32_t i = 0; i < n_ends; ++i) {
        ends[i].sender = ends[i].receiver = -1;
    }
    for (key_mask = 1024; key_mask < 4 * n_ends; key_mask *= 2) {
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
        if (set_congestion(fd)) { /* accepted connections inherit it */
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
            exit(0); /* cancelled */
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
        end_delivered();
        if (requests.n_due) {
            start_flows();
        }
        if (now_ns() >= table->start_ns + table->deadline_ns) {
            break;
        }
    }
    for (uint32_t k = 0; k < n_live; ++k) {
        sample(live[k], 0);
    }
    for (uint32_t row = 0; row < n_ends; ++row) {
        if (ends[row].idle) {
            close_ends(row);
        }
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
    if (prctl(PR_SET_PDEATHSIG, SIGKILL)) {
        fail("PR_SET_PDEATHSIG is refused: %s", strerror(errno));
    }
    signal(SIGPIPE, SIG_IGN);
    prepare();
    listen_everywhere();
    open_connections();
    wait_for_start();
    run();
    return 0;
}
