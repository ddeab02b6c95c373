/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract of a program that runs at the ports of a switch. Each mechanism is one C header in the restricted C of cc.h,
 * which every datapath that runs it compiles. It sees the port and the packet as values, never a clock or a queue.
 *
 * A program belongs to one egress port, and has state there. Packets that leave by the port travel in its data
 * direction. Packets that come back over the same link travel in its reverse direction; with symmetric routes these are
 * the ACKs. A port may have several programs, which run one after the other. Step marking, RED and shared buffers
 * (step_mark.h, red.h, dynamic_threshold.h) are settings of the port itself, and decide before its programs do.
 *
 * To add one, write `<name>.h` with NCC_SW_REGISTER(<name>, ...) at its end. The build finds it by that line.
 */
#ifndef NCC_SWITCH_H
#define NCC_SWITCH_H
#include "cc.h"
#include "verdict.h"

#define NCC_SW_STATE_MAX 256    /* bytes, of a program at a port */
#define NCC_SW_TABLE_MAX 131072 /* bytes, of a program with NCC_SW_QUEUES at a port, with NCC_SW_ROUTE in a switch */
#define NCC_SW_CLASSES 8        /* most classes of a port */
#define NCC_SW_LEAVES 32        /* most leaves of a network, and most paths between two, with NCC_SW_TAGS */
#define NCC_SW_WAYS 16
#define NCC_SW_SIGNAL_BYTES 64 /* IP packet of a signal */
#define NCC_SW_TRIM_BYTES 64   /* IP packet of which the payload has been cut off (NCC_TRIM) */
#define NCC_SW_PAUSE_BYTES 46  /* payload of the smallest Ethernet frame, which a pause is (IEEE 802.3, 31B) */

/* The hooks that a program has, and what else a datapath must do for it. */
enum ncc_sw_needs {
    NCC_SW_ENQUEUE = 1, /* every packet that arrives for this port, after the port's own verdict */
    NCC_SW_DEQUEUE =
        2, /* every packet as its transmission begins, without it in queue_bytes; NCC_DROP: the next one goes */
    NCC_SW_REVERSE = 4, /* every packet that arrives over this port's link */
    NCC_SW_TIMER = 8,
    NCC_SW_RANKED = 16,    /* the port serves by the ranks that `enqueue` sets: see `rank` */
    NCC_SW_SYMMETRIC = 32, /* right only if ACKs come back the way that their data went */
    NCC_SW_COUNTS = 64,    /* counts flows by SYN-ACKs and FINs: connections must open and close with their flows */
    NCC_SW_SIGNALS = 128,  /* sends signals to senders (out.signal) */
    NCC_SW_INGRESS = 256, /* every change of ingress_bytes; may pause the far end of this port's link (out.pause), above
                           * its parameter `xoff_bytes` */
    NCC_SW_TRIMS = 512,   /* returns NCC_TRIM for data: its header goes on as a packet without data, and the receiver
                           * names the packet that lost its payload to the sender */
    NCC_SW_TELEMETRY = 1024, /* `dequeue` writes into data (out.hop), for senders that read it (NCC_CC_HOPS) */
    NCC_SW_ROUTE = 2048,  /* chooses among ways of equal length, in every switch; registers by NCC_SW_REGISTER_ROUTE */
    NCC_SW_QUEUES = 4096, /* divides the port's buffer into queues, by `classify` and `next`; registers by
                           * NCC_SW_REGISTER_QUEUES. When the buffer is full, the first packets of the longest queue
                           * are dropped, so that the newcomer has room */
    NCC_SW_TAGS = 8192,   /* writes `tag` in `route` and `dequeue`. `route` is called for every packet in every switch,
                           * also where there is one path. For two layers of switches: leaves, which have hosts, and
                           * spines; with NCC_SW_ROUTE, and without ranks, whose field the tag takes */
};

/* Needs that ports of the kernel can meet. Only simulators meet the other ones. */
#define NCC_SW_KERNEL                                                                                                  \
    (NCC_SW_ENQUEUE | NCC_SW_REVERSE | NCC_SW_TIMER | NCC_SW_SYMMETRIC | NCC_SW_COUNTS | NCC_SW_SIGNALS)

enum ncc_sw_packet_flags {
    NCC_SW_TO_RECEIVER = 1,
    NCC_SW_SYN_ACK = 2,
    NCC_SW_FIN = 4, /* the last data of its flow; also when it is sent again, but not trimmed */
    NCC_SW_ECT = 8,
    NCC_SW_CE = 16,
    NCC_SW_HAS_WINDOW = 32, /* it carries a receive window: an ACK or SYN-ACK */
    NCC_SW_EXPENDABLE = 64, /* the first to be dropped (transport.h) */
    NCC_SW_ECT1 = 128,      /* with NCC_SW_ECT: ECT(1), of a sender that reacts as RFC 9331 asks; else ECT(0) */
};

struct ncc_sw_packet {
    ncc_u32 flow;
    ncc_u32 bytes;         /* IP packet */
    ncc_u32 payload_bytes; /* 0: a packet without data, or data that a port has trimmed */
    ncc_u32 flags;         /* enum ncc_sw_packet_flags */
    ncc_u32 hops;          /* links crossed so far; 1: this switch is next to its source */
    ncc_u32 prio;          /* class that its host has given it (flow_tag.h), 0: the most urgent */
    ncc_u64 rank;          /* given by its host, smaller is more urgent. With NCC_SW_RANKED `enqueue` may set it: the
                            * packet with the smallest rank decides which flow is served, by its earliest packet; when
                            * the buffer is full, packets with larger ranks than the newcomer's make room, the largest
                            * first and of equals the last */
    ncc_u64 window_bytes;  /* receive window, unscaled. `reverse` may lower it: the datapath writes it in the steps of
                            * the flow's window scale, rounded down, but never less than one full packet, because a
                            * sender whose window is smaller waits for an update that does not come */
    ncc_u64 queued_ns;     /* `dequeue`: time at which it joined the queue of this port; now, if it did not wait */
    /* With NCC_SW_TAGS. */
    ncc_u32 tag;                /* 16 bits, which stay in the packet on its way; 0 as it leaves its host */
    ncc_u32 src_leaf, dst_leaf; /* the switches next to its hosts, counted from 0 */
};

/* A queue of a program with NCC_SW_QUEUES: first in, first out. */
struct ncc_sw_queue {
    ncc_u64 bytes;      /* waiting in it */
    ncc_u32 head_bytes; /* its first packet; 0: it is empty */
    ncc_u64 head_ns;    /* time at which that packet joined */
};

struct ncc_sw_port { /* up to date */
    ncc_u64 now_ns;
    ncc_u64 rate_bytes_per_s;
    ncc_u64 size_bytes;    /* the port's own buffer */
    ncc_u64 queue_bytes;   /* waiting, without the packet in transmission */
    ncc_u64 tx_bytes;      /* IP packets whose transmission has begun, since the start */
    ncc_u64 ingress_bytes; /* bytes from this port's link that wait anywhere in this switch; with NCC_SW_INGRESS */
    ncc_u32 mtu_bytes;
    ncc_u32 random;                    /* uniform, new for every call */
    const struct ncc_sw_queue *queues; /* all of them, with NCC_SW_QUEUES; else 0 */
};

enum ncc_sw_pause { NCC_SW_AS_IT_WAS, NCC_SW_PAUSE, NCC_SW_RESUME };

struct ncc_sw_out {
    enum ncc_verdict verdict; /* `enqueue`, `dequeue`: set to the verdict so far; a dropped packet cannot be revived,
                               * and programs that come later may drop one that this one has counted */
    ncc_u64 timer_ns;         /* from now; 0: as it was */
    /* `enqueue`, with NCC_SW_SIGNALS: the signal for the packet's sender (enum ncc_cc_signal_kind), which leaves here
     * in a packet of NCC_SW_SIGNAL_BYTES. Of several programs the last one decides. Only data causes signals. */
    struct ncc_cc_signal signal;
    /* `ingress`: tells the far end of the link to stop sending, after the packet in transmission, or to go on. A frame
     * of NCC_SW_PAUSE_BYTES carries this; it leaves before any packet that waits. */
    enum ncc_sw_pause pause;
    /* `dequeue`, with NCC_SW_TELEMETRY: telemetry that data carries to its receiver, which returns it with its ACK. It
     * takes no room in either. Of several programs the last one writes; ports beyond NCC_CC_HOPS_MAX do not. */
    struct ncc_cc_hop hop; /* rate 0: nothing */
};

/* The paths among which `route` chooses in a switch. */
struct ncc_sw_ways {
    ncc_u64 now_ns;
    ncc_u32 n;      /* ports to the packet's destination, >= 2 (>= 1 with NCC_SW_TAGS), always in the same order */
    ncc_u32 random; /* uniform, by the time and the packet's flow and direction */
    /* With NCC_SW_TAGS, in the order of the ports: the program's state there, 0 where it does not run, and the rates of
     * their links. The first NCC_SW_WAYS of them. */
    void *const *states;
    const ncc_u64 *rates_bytes_per_s;
};

/* The operations. `s` is the program's own state, zeroed before init; `p` its parameters in table order. For a program
 * with NCC_SW_ROUTE, each switch has one more state, `d`, beside those of its ports; it is zeroed at first. */
struct ncc_sw_ops {
    const char *name;
    const char *summary; /* one line, with the source */
    ncc_u32 needs;       /* enum ncc_sw_needs; hooks that it does not name are never called */
    ncc_u32 state_bytes;
    const struct ncc_cc_param *params;
    ncc_u32 n_params;
    void (*init)(void *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_out *o);
    void (*enqueue)(void *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_packet *k,
                    struct ncc_sw_out *o);
    void (*dequeue)(void *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_packet *k,
                    struct ncc_sw_out *o);
    void (*reverse)(void *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_packet *k,
                    struct ncc_sw_out *o);
    void (*timer)(void *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_out *o);
    void (*ingress)(void *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_out *o);
    ncc_u32 node_bytes;
    /* Returns which of w->n paths a packet takes. It is called before `enqueue`, for packets with several paths. */
    ncc_u32 (*route)(void *d, const ncc_u64 *p, const struct ncc_sw_ways *w, struct ncc_sw_packet *k);
    ncc_u32 queues;
    /* Returns the queue that the packet joins, below `queues`. It is called for every packet that is not dropped, also
     * if nothing waits. */
    ncc_u32 (*classify)(void *s, const ncc_u64 *p, const struct ncc_sw_packet *k);
    /* Returns the queue whose first packet is transmitted now, not an empty one; `of` has all of them. `dequeue` is
     * called for that packet next; if it drops the packet and others wait, `next` is called again. */
    ncc_u32 (*next)(void *s, const ncc_u64 *p, const struct ncc_sw_queue *of);
};

/* A hook of packets (`enqueue`, `dequeue`, `reverse`) or the timer that a program does not have. */
#define NCC_SW_NO_HOOK(name_, hook_)                                                                                   \
    NCC_CC_FN void name_##_##hook_(struct name_##_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,             \
                                   struct ncc_sw_packet *k, struct ncc_sw_out *o)                                      \
    {                                                                                                                  \
        (void)s, (void)p, (void)q, (void)k, (void)o;                                                                   \
    }
#define NCC_SW_NO_TIMER(name_)                                                                                         \
    NCC_CC_FN void name_##_timer(struct name_##_state *s, const ncc_u64 *p, const struct ncc_sw_port *q,               \
                                 struct ncc_sw_out *o)                                                                 \
    {                                                                                                                  \
        (void)s, (void)p, (void)q, (void)o;                                                                            \
    }

/* Expects struct <name>_state, at least one row of <name>_params[], and the functions <name>_init, _enqueue, _dequeue,
 * _reverse and _timer; with NCC_SW_REGISTER_INGRESS also _ingress. */
#ifdef __bpf__
#define NCC_SW_ADAPT_PORT_(name_, hook_)
#define NCC_SW_ADAPT_ROUTE_(name_)
#define NCC_SW_ADAPT_QUEUES_(name_)
#define NCC_SW_ROW_(name_, needs_, summary_, state_max_, ...)                                                          \
    _Static_assert(sizeof(struct name_##_state) <= (state_max_), "state is larger than a port has room for");
#else
#define NCC_SW_ADAPT_(name_, hook_)                                                                                    \
    static void name_##_##hook_##_any(void *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_packet *k, \
                                      struct ncc_sw_out *o)                                                            \
    {                                                                                                                  \
        name_##_##hook_((struct name_##_state *)s, p, q, k, o);                                                        \
    }
#define NCC_SW_ADAPT_PORT_(name_, hook_)                                                                               \
    static void name_##_##hook_##_any(void *s, const ncc_u64 *p, const struct ncc_sw_port *q, struct ncc_sw_out *o)    \
    {                                                                                                                  \
        name_##_##hook_((struct name_##_state *)s, p, q, o);                                                           \
    }
#define NCC_SW_ADAPT_ROUTE_(name_)                                                                                     \
    NCC_CC_STATIC_ASSERT(sizeof(struct name_##_node) <= NCC_SW_TABLE_MAX,                                              \
                         "state is larger than a switch has room for");                                                \
    static ncc_u32 name_##_route_any(void *d, const ncc_u64 *p, const struct ncc_sw_ways *w, struct ncc_sw_packet *k)  \
    {                                                                                                                  \
        return name_##_route((struct name_##_node *)d, p, w, k);                                                       \
    }
#define NCC_SW_ADAPT_QUEUES_(name_)                                                                                    \
    static ncc_u32 name_##_classify_any(void *s, const ncc_u64 *p, const struct ncc_sw_packet *k)                      \
    {                                                                                                                  \
        return name_##_classify((struct name_##_state *)s, p, k);                                                      \
    }                                                                                                                  \
    static ncc_u32 name_##_next_any(void *s, const ncc_u64 *p, const struct ncc_sw_queue *of)                          \
    {                                                                                                                  \
        return name_##_next((struct name_##_state *)s, p, of);                                                         \
    }
#define NCC_SW_ROW_(name_, needs_, summary_, state_max_, ...)                                                          \
    NCC_CC_STATIC_ASSERT(sizeof(struct name_##_state) <= (state_max_), "state is larger than a port has room for");    \
    NCC_CC_STATIC_ASSERT(sizeof(name_##_params) <= NCC_CC_PARAMS_MAX * sizeof(struct ncc_cc_param),                    \
                         "too many parameters");                                                                       \
    NCC_SW_ADAPT_PORT_(name_, init)                                                                                    \
    NCC_SW_ADAPT_(name_, enqueue)                                                                                      \
    NCC_SW_ADAPT_(name_, dequeue)                                                                                      \
    NCC_SW_ADAPT_(name_, reverse)                                                                                      \
    NCC_SW_ADAPT_PORT_(name_, timer)                                                                                   \
    static const struct ncc_sw_ops name_##_program = {#name_,                                                          \
                                                      summary_,                                                        \
                                                      needs_,                                                          \
                                                      (ncc_u32)sizeof(struct name_##_state),                           \
                                                      name_##_params,                                                  \
                                                      (ncc_u32)(sizeof(name_##_params) / sizeof(name_##_params[0])),   \
                                                      name_##_init_any,                                                \
                                                      name_##_enqueue_any,                                             \
                                                      name_##_dequeue_any,                                             \
                                                      name_##_reverse_any,                                             \
                                                      name_##_timer_any,                                               \
                                                      __VA_ARGS__};
#endif
#define NCC_SW_REGISTER(name_, needs_, summary_)                                                                       \
    NCC_SW_ROW_(name_, needs_, summary_, NCC_SW_STATE_MAX, 0, 0, 0, 0, 0, 0)
#define NCC_SW_REGISTER_INGRESS(name_, needs_, summary_)                                                               \
    NCC_SW_ADAPT_PORT_(name_, ingress)                                                                                 \
    NCC_SW_ROW_(name_, (needs_) | NCC_SW_INGRESS, summary_, NCC_SW_STATE_MAX, name_##_ingress_any, 0, 0, 0, 0, 0)
/* Expects struct <name>_node and <name>_route too. */
#define NCC_SW_REGISTER_ROUTE(name_, needs_, summary_)                                                                 \
    NCC_SW_ADAPT_ROUTE_(name_)                                                                                         \
    NCC_SW_ROW_(name_, (needs_) | NCC_SW_ROUTE, summary_, NCC_SW_STATE_MAX, 0, (ncc_u32)sizeof(struct name_##_node),   \
                name_##_route_any, 0, 0, 0)
/* Expects the constant <name>_queues and the functions <name>_classify and <name>_next too. */
#define NCC_SW_REGISTER_QUEUES(name_, needs_, summary_)                                                                \
    NCC_SW_ADAPT_QUEUES_(name_)                                                                                        \
    NCC_SW_ROW_(name_, (needs_) | NCC_SW_QUEUES, summary_, NCC_SW_TABLE_MAX, 0, 0, 0, name_##_queues,                  \
                name_##_classify_any, name_##_next_any)

/* A number of 10 bits by the packet's flow and direction (a multiplicative hash). */
NCC_CC_FN ncc_u32 ncc_sw_flow_hash(const struct ncc_sw_packet *k)
{
    return ((k->flow * 2 + (k->flags & NCC_SW_TO_RECEIVER)) * 2654435769U) >> 22;
}

/* a / b, rounded towards 0: a signed division by a variable is more than clang 14 can do for BPF. */
NCC_CC_FN ncc_s64 ncc_div_s64(ncc_s64 a, ncc_u64 b)
{
    return a < 0 ? -(ncc_s64)((ncc_u64)-a / b) : (ncc_s64)((ncc_u64)a / b);
}

#endif
