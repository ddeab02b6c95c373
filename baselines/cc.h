/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract of a congestion controller. Each algorithm is one C header, which simulators and kernel compile alike.
 *
 * A header is restricted C that g++, clang++ and `clang -target bpf` all compile: fixed-width integers, no libc, no
 * floats, no recursion, bounded loops, all state in one struct of at most NCC_CC_STATE_MAX bytes (a socket's private
 * area in Linux). It sees events and values, never a socket, a clock or a packet.
 *
 * The controller alone decides its window. Every event handler sets the window, the slow-start threshold and the pacing
 * rate in `struct ncc_cc_out`, also in recovery, and the datapath applies them. The datapath detects losses,
 * retransmits, and sends while inflight (RFC 6675 "pipe") is below the window.
 *
 * To add one, write `<name>.h` with NCC_CC_REGISTER(<name>, ...) at its end. The build finds it by that line.
 */
#ifndef NCC_CC_H
#define NCC_CC_H
#ifdef __bpf__
typedef unsigned char ncc_u8;
typedef unsigned int ncc_u32;
typedef unsigned long long ncc_u64;
typedef long long ncc_s64;
#else
#include <stdint.h>
typedef uint8_t ncc_u8;
typedef uint32_t ncc_u32;
typedef uint64_t ncc_u64;
typedef int64_t ncc_s64;
#endif

#define NCC_CC_STATE_MAX 104     /* bytes of a controller's state: a socket of Linux has room for no more */
#define NCC_CC_SIM_STATE_MAX 128 /* the same for controllers with NCC_CC_REGISTER_WITH */
#define NCC_CC_PARAMS_MAX 16
#define NCC_CC_HOPS_MAX 8 /* most ports of which an event has telemetry */
#define NCC_NS_PER_S 1000000000ULL
#define NCC_CC_CWND_MAX (1ULL << 40)  /* 1 TB in flight: far above 400 Gbit/s x 200 ms = 10 GB, far below overflow */
#define NCC_CC_PACING_MAX (~0ULL / 8) /* bytes/s: as bits/s it fits 64 bits; a negative number does not */

/* Use of ECN that the controller asks of the network and the receiver. */
enum ncc_cc_ecn {
    NCC_CC_ECN_NONE = 0,    /* packets are not ECN-capable */
    NCC_CC_ECN_CLASSIC = 1, /* RFC 3168: the receiver repeats ECE until it sees CWR */
    NCC_CC_ECN_DCTCP = 2,   /* RFC 8257 section 3.2: the receiver echoes each CE precisely */
};

/* Handlers and fields of events that a controller uses beyond those that all use; the datapath provides them. */
enum ncc_cc_needs {
    NCC_CC_RATE = 1,    /* events carry the delivery rate, for which the datapath keeps a record per packet */
    NCC_CC_SIGNALS = 2, /* on_signal */
    NCC_CC_TIMER = 4,   /* on_timer */
    NCC_CC_HOPS = 8,    /* events carry what ports wrote into a packet (telemetry) */
    NCC_CC_ECT1 = 16,   /* data carries ECT(1), by which switches know it (RFC 9331); with NCC_CC_ECN_DCTCP */
};

/* State of a port when a packet left it (telemetry). */
struct ncc_cc_hop {
    ncc_u64 rate_bytes_per_s;
    ncc_u64 queue_bytes; /* waiting, without the packet */
    ncc_u64 tx_bytes;    /* IP packets whose transmission had begun, with the packet, since the start */
    ncc_u64 at_ns;
};

/* Signals by which switches on the path inform a sender, each in a packet of its own (switch.h). */
enum ncc_cc_signal_kind {
    NCC_CC_SIGNAL_NONE = 0,
    NCC_CC_QCN = 1, /* congestion of a sampled packet's queue; value: quantised feedback, 1 to 63 (IEEE 802.1Qau) */
};
struct ncc_cc_signal {
    ncc_u32 kind; /* enum ncc_cc_signal_kind */
    ncc_u32 value;
};

/* Constants of a connection. */
struct ncc_cc_conn {
    ncc_u32 mss_bytes;        /* payload of a full packet, >= 1 */
    ncc_u32 init_cwnd_bytes;  /* initial window (RFC 6928), >= mss_bytes */
    ncc_u64 line_bytes_per_s; /* rate of the host's link; 0: not known */
};

enum ncc_cc_ack_flags {
    NCC_CC_ACK_ECE = 1,         /* this ACK carries ECN-Echo */
    NCC_CC_ACK_IN_RECOVERY = 2, /* the datapath is repairing losses (fast recovery or after a timeout) */
    NCC_CC_ACK_APP_LIMITED = 4, /* the window was not full when this ACK came: more window would not have been used */
    NCC_CC_ACK_RATE_APP_LIMITED = 8, /* the rate sample measures the application rather than the network */
};

/* An acknowledgement, or another event, for which the fields about an ACK are 0. Byte counts cover the whole
 * connection, even if it carries several flows one after the other. */
struct ncc_cc_event {
    ncc_u64 now_ns;
    ncc_u64 rtt_ns;          /* RTT sample of this ACK; 0: none */
    ncc_u64 min_rtt_ns;      /* smallest sample of the connection, a handshake's and small packets' too; 0: none yet */
    ncc_u64 srtt_ns;         /* RFC 6298 smoothed RTT; 0: none yet */
    ncc_u64 delivered_bytes; /* payload newly acknowledged, cumulatively or selectively, each byte once */
    ncc_u64 acked_bytes;     /* part of this by which the cumulative ACK moved */
    ncc_u64 inflight_bytes;  /* sent but neither acknowledged nor deemed lost, after this event */
    ncc_u64 una_bytes;       /* stream offset of the cumulative ACK, after this event */
    ncc_u64 nxt_bytes;       /* stream offset after the last byte ever sent */
    ncc_u32 flags;           /* enum ncc_cc_ack_flags */
    ncc_u32 idle_rtos;       /* RTOs without data, for on_restart (struct ncc_cc_ops) */
    /* Delivery rate, as in draft-cheng-iccrg-delivery-rate-estimation; 0 without NCC_CC_RATE. */
    ncc_u64 total_delivered_bytes; /* of this connection so far; also set at a loss or timeout */
    ncc_u64 prior_delivered_bytes; /* total when the last sent of the packets now acknowledged was sent */
    ncc_u64 interval_ns; /* time since then, the longer of sending and ACKs; 0: none. Rate: (total - prior) / this */
    ncc_u64 lost_bytes;  /* payload newly deemed lost with this ACK */
    /* With NCC_CC_HOPS: what ports (int.h) wrote, in the order of the path, into the last data that the receiver had
     * when it sent this ACK. n_hops is 0 if that is nothing new, and at other events. */
    const struct ncc_cc_hop *hops;
    ncc_u32 n_hops;
};

/* Decisions of the controller, all set after every handler. */
struct ncc_cc_out {
    ncc_u64 cwnd_bytes;         /* window, >= mss_bytes */
    ncc_u64 ssthresh_bytes;     /* for information: the slow-start threshold that the datapath shows */
    ncc_u64 pacing_bytes_per_s; /* <= NCC_CC_PACING_MAX; 0: unpaced, back to back as the window allows */
    ncc_u64 timer_ns; /* time until on_timer (NCC_CC_TIMER); 0: unchanged. The timer stops once all is acknowledged */
};

/* A parameter: an integer in the unit that its help names. */
struct ncc_cc_param {
    const char *name;
    ncc_u64 def, min, max;
    const char *help; /* unit, meaning, source */
};

/*
 * The operations. `s` is the controller's own state, zeroed before init; `p` its parameters in table order.
 *   init        connection established, nothing sent
 *   on_ack      every acknowledgement, recovery included
 *   on_loss     fast retransmit: once per recovery episode, at its start (RFC 6675 step 4)
 *   on_timeout  retransmission timer expired (RFC 6298 5.4-5.7)
 *   on_restart  data is sent again after all data was acknowledged and the application had no more, before it is sent
 *               (CA_EVENT_TX_START in Linux). `idle_rtos`: times that the window is to halve because nothing was sent
 *               (RFC 2861, RFC 5681 section 4.1), (time since the last data - 1 ns) / RTO, rounded down as in Linux'
 *               tcp_cwnd_restart; 0: within one RTO, or the host does not do this (tcp_slow_start_after_idle).
 *   on_signal   a switch's signal has arrived (NCC_CC_SIGNALS); not called before the handshake is done or after all
 *               data is acknowledged
 *   on_timer    `timer_ns` have passed since it was set last (NCC_CC_TIMER)
 */
struct ncc_cc_ops {
    const char *name;
    const char *summary; /* one line, with the source */
    enum ncc_cc_ecn ecn;
    ncc_u32 state_bytes;
    const struct ncc_cc_param *params;
    ncc_u32 n_params;
    void (*init)(void *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o);
    void (*on_ack)(void *s, const ncc_u64 *p, const struct ncc_cc_conn *c, const struct ncc_cc_event *e,
                   struct ncc_cc_out *o);
    void (*on_loss)(void *s, const ncc_u64 *p, const struct ncc_cc_conn *c, const struct ncc_cc_event *e,
                    struct ncc_cc_out *o);
    void (*on_timeout)(void *s, const ncc_u64 *p, const struct ncc_cc_conn *c, const struct ncc_cc_event *e,
                       struct ncc_cc_out *o);
    void (*on_restart)(void *s, const ncc_u64 *p, const struct ncc_cc_conn *c, const struct ncc_cc_event *e,
                       struct ncc_cc_out *o);
    ncc_u32 needs; /* enum ncc_cc_needs */
    void (*on_signal)(void *s, const ncc_u64 *p, const struct ncc_cc_conn *c, const struct ncc_cc_event *e,
                      const struct ncc_cc_signal *signal, struct ncc_cc_out *o);
    void (*on_timer)(void *s, const ncc_u64 *p, const struct ncc_cc_conn *c, const struct ncc_cc_event *e,
                     struct ncc_cc_out *o);
};

#define NCC_CC_FN static inline __attribute__((unused))

/* Expects struct <name>_state, <name>_params[] and the functions <name>_init, _on_ack, _on_loss, _on_timeout,
 * _on_restart. BPF programs call the functions directly (a table of function pointers cannot be loaded). */
#define NCC_CC_REGISTER(name_, ecn_, summary_) NCC_CC_TABLE_(name_, ecn_, summary_, 0)
#define NCC_CC_REGISTER_RATE(name_, ecn_, summary_) NCC_CC_TABLE_(name_, ecn_, summary_, NCC_CC_RATE)
/* For controllers with needs_ other than NCC_CC_RATE. Expects <name>_on_signal and <name>_on_timer too. Linux runs only
 * those whose sole need is NCC_CC_SIGNALS. */
#define NCC_CC_REGISTER_WITH(name_, ecn_, needs_, summary_) NCC_CC_SIMULATED_(name_, ecn_, summary_, needs_)
#ifdef __bpf__
#define NCC_CC_TABLE_(name_, ecn_, summary_, needs_)                                                                   \
    _Static_assert(sizeof(struct name_##_state) <= NCC_CC_STATE_MAX, "state exceeds the socket's private area");
#define NCC_CC_SIMULATED_(name_, ecn_, summary_, needs_)
#else
#ifdef __cplusplus
#define NCC_CC_STATIC_ASSERT static_assert
#else
#define NCC_CC_STATIC_ASSERT _Static_assert
#endif
#define NCC_CC_ADAPT_(name_, op_)                                                                                      \
    static void name_##_##op_##_any(void *s, const ncc_u64 *p, const struct ncc_cc_conn *c,                            \
                                    const struct ncc_cc_event *e, struct ncc_cc_out *o)                                \
    {                                                                                                                  \
        name_##_##op_((struct name_##_state *)s, p, c, e, o);                                                          \
    }
#define NCC_CC_ADAPT_SIGNAL_(name_)                                                                                    \
    static void name_##_on_signal_any(void *s, const ncc_u64 *p, const struct ncc_cc_conn *c,                          \
                                      const struct ncc_cc_event *e, const struct ncc_cc_signal *signal,                \
                                      struct ncc_cc_out *o)                                                            \
    {                                                                                                                  \
        name_##_on_signal((struct name_##_state *)s, p, c, e, signal, o);                                              \
    }
#define NCC_CC_TABLE_(name_, ecn_, summary_, needs_)                                                                   \
    NCC_CC_TABLE_WITH_(name_, ecn_, summary_, needs_, NCC_CC_STATE_MAX, 0, 0)
#define NCC_CC_SIMULATED_(name_, ecn_, summary_, needs_)                                                               \
    NCC_CC_ADAPT_SIGNAL_(name_)                                                                                        \
    NCC_CC_ADAPT_(name_, on_timer)                                                                                     \
    NCC_CC_TABLE_WITH_(name_, ecn_, summary_, needs_, NCC_CC_SIM_STATE_MAX, name_##_on_signal_any, name_##_on_timer_any)
#define NCC_CC_TABLE_WITH_(name_, ecn_, summary_, needs_, state_max_, on_signal_, on_timer_)                           \
    NCC_CC_STATIC_ASSERT(sizeof(struct name_##_state) <= (state_max_),                                                 \
                         "state is larger than a datapath has room for");                                              \
    NCC_CC_STATIC_ASSERT(sizeof(name_##_params) <= NCC_CC_PARAMS_MAX * sizeof(struct ncc_cc_param),                    \
                         "too many parameters");                                                                       \
    static void name_##_init_any(void *s, const ncc_u64 *p, const struct ncc_cc_conn *c, struct ncc_cc_out *o)         \
    {                                                                                                                  \
        name_##_init((struct name_##_state *)s, p, c, o);                                                              \
    }                                                                                                                  \
    NCC_CC_ADAPT_(name_, on_ack)                                                                                       \
    NCC_CC_ADAPT_(name_, on_loss)                                                                                      \
    NCC_CC_ADAPT_(name_, on_timeout)                                                                                   \
    NCC_CC_ADAPT_(name_, on_restart)                                                                                   \
    static const struct ncc_cc_ops name_##_ops = {#name_,                                                              \
                                                  summary_,                                                            \
                                                  ecn_,                                                                \
                                                  (ncc_u32)sizeof(struct name_##_state),                               \
                                                  name_##_params,                                                      \
                                                  (ncc_u32)(sizeof(name_##_params) / sizeof(name_##_params[0])),       \
                                                  name_##_init_any,                                                    \
                                                  name_##_on_ack_any,                                                  \
                                                  name_##_on_loss_any,                                                 \
                                                  name_##_on_timeout_any,                                              \
                                                  name_##_on_restart_any,                                              \
                                                  needs_,                                                              \
                                                  on_signal_,                                                          \
                                                  on_timer_};
#endif
/* Empty handlers, for those of NCC_CC_REGISTER_WITH that a controller does not need. */
#define NCC_CC_NO_SIGNAL(name_)                                                                                        \
    NCC_CC_FN void name_##_on_signal(struct name_##_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,           \
                                     const struct ncc_cc_event *e, const struct ncc_cc_signal *signal,                 \
                                     struct ncc_cc_out *o)                                                             \
    {                                                                                                                  \
        (void)s, (void)p, (void)c, (void)e, (void)signal, (void)o;                                                     \
    }
#define NCC_CC_NO_TIMER(name_)                                                                                         \
    NCC_CC_FN void name_##_on_timer(struct name_##_state *s, const ncc_u64 *p, const struct ncc_cc_conn *c,            \
                                    const struct ncc_cc_event *e, struct ncc_cc_out *o)                                \
    {                                                                                                                  \
        (void)s, (void)p, (void)c, (void)e, (void)o;                                                                   \
    }
NCC_CC_FN ncc_u64 ncc_min_u64(ncc_u64 a, ncc_u64 b) { return a < b ? a : b; }
NCC_CC_FN ncc_u64 ncc_max_u64(ncc_u64 a, ncc_u64 b) { return a > b ? a : b; }

#endif
