/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The delay of a link: a TUN device in each of two network namespaces; every packet that enters one leaves the other a
 * fixed time later. It works on kernels without netem and leaves nothing behind: the devices disappear with the
 * process, and the process ends when its standard input closes.
 *
 *   delay <delay_ns> <ring_pkts> <slot_bytes>  <namespace> <device> <ifindex>  <namespace> <device> <ifindex>
 *
 * It prints "ready" once both devices exist. A packet that finds the ring full is dropped.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ULL
#define PRIORITY 45 /* SCHED_FIFO priority: above the hosts' traffic, below the decisions */
#define ONCE 64     /* packets of one direction before the other gets its turn */

struct waiting {
    uint64_t release_ns;
    size_t length;
};

/* One direction: a ring whose `head` and `tail` only grow. */
struct line {
    int from, to;
    uint64_t head, tail;
    struct waiting *ring;
    unsigned char *slots;
};

static uint64_t delay_ns, ring_pkts;
static size_t slot_bytes;

static void fail(const char *what)
{
    fprintf(stderr, "delay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Makes the device in its namespace. Reading and writing it later is independent of the caller's namespace. */
static int tun(char **end)
{
    struct ifreq request = {0};
    int index = atoi(end[2]), namespace = open(end[0], O_RDONLY | O_CLOEXEC), device;

    if (namespace < 0 || setns(namespace, CLONE_NEWNET))
        fail(end[0]);
    close(namespace);
    device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (device < 0)
        fail("/dev/net/tun");
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    strncpy(request.ifr_name, end[1], IFNAMSIZ - 1);
    if (ioctl(device, TUNSETIFINDEX, &index) || ioctl(device, TUNSETIFF, &request))
        fail(end[1]);
    return device;
}

static void take_in(struct line *line)
{
    for (int i = 0; i < ONCE; i++) {
        const uint64_t slot = line->head % ring_pkts;
        const ssize_t length = read(line->from, line->slots + slot * slot_bytes, slot_bytes);

        if (length <= 0)
            return;
        if (line->head + 1 - line->tail >= ring_pkts)
            continue;
        line->ring[slot] = (struct waiting){now_ns() + delay_ns, (size_t)length};
        line->head++;
    }
}

static void let_out(struct line *line)
{
    const uint64_t now = now_ns();

    for (; line->tail != line->head; line->tail++) {
        const uint64_t slot = line->tail % ring_pkts;
        const struct waiting *packet = &line->ring[slot];

        if (packet->release_ns > now)
            return;
        if (write(line->to, line->slots + slot * slot_bytes, packet->length) < 0)
            continue; /* the other end is full or gone */
    }
}

/* Sets the timer to the time at which the next packet is due, or switches it off if none waits. */
static void set_alarm(int timer, const struct line *lines)
{
    struct itimerspec when = {0};
    uint64_t next_ns = UINT64_MAX;

    for (int i = 0; i < 2; i++) {
        const struct line *line = &lines[i];

        if (line->tail != line->head && line->ring[line->tail % ring_pkts].release_ns < next_ns)
            next_ns = line->ring[line->tail % ring_pkts].release_ns;
    }
    if (next_ns != UINT64_MAX) {
        when.it_value.tv_sec = (time_t)(next_ns / NS_PER_S);
        when.it_value.tv_nsec = (long)(next_ns % NS_PER_S);
    }
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL))
        fail("timerfd_settime");
}

static void run(struct line *lines)
{
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct pollfd polled[] = {
        {lines[0].from, POLLIN, 0}, {lines[1].from, POLLIN, 0}, {timer, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};

    if (timer < 0)
        fail("timerfd_create");
    for (;;) {
        for (int i = 0; i < 2; i++) {
            take_in(&lines[i]);
            let_out(&lines[i]);
        }
        set_alarm(timer, lines);
        if (poll(polled, 4, -1) < 0 && errno != EINTR)
            fail("poll");
        if (polled[3].revents) /* standard input was closed */
            return;
    }
}

/* Gives this program precedence over others, because packets are late while it waits for a processor. If neither call
 * is allowed (in a container) packets are late. */
static void take_precedence(void)
{
    const struct sched_param first = {.sched_priority = PRIORITY};

    if (sched_setscheduler(0, SCHED_FIFO, &first))
        setpriority(PRIO_PROCESS, 0, -20);
}

int main(int argc, char **argv)
{
    struct line lines[2] = {0};

    if (argc != 10) {
        fprintf(stderr, "usage: delay <delay_ns> <ring_pkts> <slot_bytes> (<namespace> <device> <ifindex>) twice\n");
        return 2;
    }
    delay_ns = strtoull(argv[1], NULL, 10);
    ring_pkts = strtoull(argv[2], NULL, 10);
    slot_bytes = strtoull(argv[3], NULL, 10);
    for (int i = 0; i < 2; i++) {
        lines[i].ring = calloc(ring_pkts, sizeof *lines[i].ring);
        lines[i].slots = calloc(ring_pkts, slot_bytes);
        if (!lines[i].ring || !lines[i].slots)
            fail("memory for the packets under way");
        lines[i].from = tun(argv + 4 + 3 * i);
    }
    lines[0].to = lines[1].from;
    lines[1].to = lines[0].from;
    if (prctl(PR_SET_TIMERSLACK, 1UL))
        fail("PR_SET_TIMERSLACK");
    take_precedence();
    printf("ready\n");
    fflush(stdout);
    run(lines);
    return 0;
}
