/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract of a message transport, whose receivers or both ends decide when packets leave: one C header with both
 * ends of a flow, in the restricted C of cc.h, the same source for the simulators. It sees values, never a clock, a
 * packet or a queue.
 *
 * The datapath owns all lists: of packets that have left, have arrived, or are to be sent again, of permissions that
 * wait for their time, and the queues of hosts. The header decides how many packets may leave and when, which of them
 * count as lost, which control packets go to the other end, and in which order a host serves its incoming flows.
 *
 * A packet of data leaves when a permission (`grant`) is due, the host has room, and there is one to send: first those
 * to be sent again, lowest number first, then new ones. A permission is for one transmission, not for one number.
 *
 * To add one, write `transports/<name>.h` with NCC_TP_REGISTER(<name>, ...) at its end, by which the build finds it.
 * No controller and no program may have the same name.
 */
#ifndef NCC_TRANSPORT_H
#define NCC_TRANSPORT_H
#include "cc.h"

#define NCC_TP_STATE_MAX 128 /* bytes, of an end of a flow */
#define NCC_TP_HOST_MAX 256  /* bytes, of a host that takes turns */
#define NCC_TP_TOP 16        /* most flows that a turn sees */
#define NCC_TP_SAYS 4        /* most control packets of an answer */
#define NCC_TP_SAY_BYTES 46  /* IP packet of a control packet: payload of the least Ethernet frame (IEEE 802.3) */
#define NCC_TP_PROBED 64     /* most holes that are named at once */
#define NCC_TP_OFF (~0ULL)   /* of a timer: it stops; of an urgency: the flow asks for no turn */
#define NCC_TP_ALL (~0U)     /* of a number: no packet; of a count: all up to the last that has left */

/* Needs of a transport, which the network must meet. */
enum ncc_tp_needs {
    NCC_TP_SHAPED = 1,    /* ports and NICs have a shaped queue, for control packets with NCC_TP_IN_SHAPED */
    NCC_TP_SYMMETRIC = 2, /* control packets take the path of the data in reverse */
    NCC_TP_ONE_WAY = 4,   /* packets of a flow do not overtake each other: no spraying */
    NCC_TP_TRIMS = 8,     /* ports trim (trim.h) */
    NCC_TP_CLASSES = 16,  /* ports have NCC_SW_CLASSES classes */
    NCC_TP_RANKED = 32,   /* ports serve by rank */
    NCC_TP_TURNS = 64,    /* hosts take turns */
    NCC_TP_MARKS = 128,   /* ports mark by the queue that a packet leaves behind */
};

/* Kinds of packets. All but data are control packets, of NCC_TP_SAY_BYTES. */
enum ncc_tp_kind { NCC_TP_DATA, NCC_TP_REQUEST, NCC_TP_CREDIT, NCC_TP_ACK, NCC_TP_NACK, NCC_TP_PROBE, NCC_TP_STOP };

enum ncc_tp_flags {
    NCC_TP_IN_SHAPED = 1,   /* a control packet that waits in the shaped queue */
    NCC_TP_EXPENDABLE = 2,  /* the first to be dropped where room is short */
    NCC_TP_TRIMMED = 4,     /* data that has arrived without its payload */
    NCC_TP_AGAIN = 8,       /* data that is sent again */
    NCC_TP_CE = 16,         /* data that has been marked */
    NCC_TP_ECT = 32,        /* data that may be marked */
    NCC_TP_THEN_PROBE = 64, /* of a permission: a PROBE follows its last packet in the flow's own queue */
    NCC_TP_MAPPED = 128,    /* of an ACK: the datapath fills `map` */
};

/* The content of a packet beside its addresses. */
struct ncc_tp_packet {
    ncc_u64 stamp;   /* the transport's own; data has that of its permission */
    ncc_u64 sent_ns; /* data: when its transmission began at its host, which the NIC writes; else the transport's own */
    ncc_u64 map;     /* ACK with NCC_TP_MAPPED: bit i: packet max(number, 64) - 64 + i has arrived */
    ncc_u32 number;  /* data: from 0; ACK: this packet has arrived, or NCC_TP_ALL; else the transport's own */
    ncc_u32 count;   /* the transport's own; PROBE: packets below it have left; NACK: packets from `number` on */
    ncc_u32 below;   /* all packets below it have arrived; the datapath writes it into every control packet */
    ncc_u32 flags;   /* enum ncc_tp_flags */
    ncc_u32 kind;    /* enum ncc_tp_kind */
    ncc_u32 prio;    /* class */
    ncc_u32 entropy; /* by which switches choose among paths of equal length, if they hash it (`routing: entropy`) */
};

/* An end of a flow as its datapath knows it, after the packet that the call is about. */
struct ncc_tp_flow {
    ncc_u64 now_ns;
    ncc_u64 line_bytes_per_s;   /* of this end's link */
    ncc_u64 sender_bytes_per_s; /* of the sender's link */
    ncc_u64 shaped_bytes_per_s; /* of the shaped queue in this end's NIC, on the wire; 0: there is none */
    ncc_u64 base_rtt_ns;        /* of this flow through empty queues, as an operator configures it */
    ncc_u64 max_rtt_ns;         /* the longest base RTT of the run */
    ncc_u64 longest_rtt_ns;     /* the longest base RTT of any two hosts of the network */
    ncc_u32 mtu_bytes;          /* full packet, IP */
    ncc_u32 wire_bytes;         /* full packet, on the wire */
    ncc_u32 last_wire_bytes;    /* the flow's last packet, on the wire */
    ncc_u32 say_wire_bytes;     /* control packet, on the wire */
    ncc_u32 pkts;               /* size of the flow; a receiver knows it from any packet */
    ncc_u32 peer;               /* host at the other end */
    ncc_u32 random;             /* uniform, new for every call */
    /* at the sender */
    ncc_u32 rivals;  /* flows whose data waits at this host, with this one */
    ncc_u32 sent;    /* transmissions so far, repeated ones included */
    ncc_u32 fresh;   /* packets that have not left yet */
    ncc_u32 again;   /* packets to be sent again */
    ncc_u32 acked;   /* packets known to have arrived */
    ncc_u32 granted; /* permissions that have not been used */
    ncc_u32 at_host; /* packets that wait in the host's queue: those cannot be lost */
    ncc_u64 late_ns; /* time for which the host, which has no room, has held data back: since the first permission was
                      * due and there was something to send, whichever came later. 0: the host has room, or no
                      * permission is due, or there is nothing to send */
    /* at the receiver */
    ncc_u32 here;    /* packets that have arrived */
    ncc_u32 reached; /* highest number that has arrived or that a PROBE named, + 1 */
    ncc_u32 hole;    /* end of the first hole: packets of [below, hole) have not arrived; `below`: there is none */
    /* at both */
    ncc_u32 below; /* all packets below it have arrived, or are known to */
};

struct ncc_tp_grant {
    ncc_u64 due_ns; /* the packets do not leave before; it never falls within a flow. 0: now */
    ncc_u64 stamp;
    ncc_u32 pkts;  /* 0: nothing is permitted */
    ncc_u32 flags; /* NCC_TP_EXPENDABLE, NCC_TP_ECT, NCC_TP_THEN_PROBE */
    ncc_u32 prio;
};

/* Decisions of a call. All but `says` is zeroed before it. */
struct ncc_tp_out {
    struct ncc_tp_grant grant;
    ncc_u32 revoke;    /* 1: permissions that have not been used are void, before `grant` counts */
    ncc_u32 lost;      /* packets of [lost, lost + lost_pkts) that have left the host and are not known to have arrived
                        * are sent again */
    ncc_u32 lost_pkts; /* NCC_TP_ALL: all up to the last that has left */
    ncc_u32 lost_go;   /* 1: each of them that was not yet to be sent again brings a permission like `grant` */
    ncc_u32 wasted;    /* credits that could not be used, for records */
    ncc_u32 timed_out; /* 1: a timeout of this end, for records */
    ncc_u32 holes;     /* receiver: sends a NACK for each hole below it, at most NCC_TP_PROBED; 0: none */
    ncc_u32 n_says;
    ncc_u64 timer_ns; /* time until this end's timer is due; 0: as it was; NCC_TP_OFF */
    ncc_u64 urgency;  /* receiver: key among the host's incoming flows, smallest first; 0: as it was; NCC_TP_OFF */
    struct ncc_tp_packet says[NCC_TP_SAYS];
};

/* The most urgent flows to a host: the states of their receivers, views of them, and the decisions about each. */
struct ncc_tp_turn {
    ncc_u32 n;
    void *rcv[NCC_TP_TOP];
    const struct ncc_tp_flow *f;
    struct ncc_tp_out *o;
};

#define NCC_TP_END_ void *s, const ncc_u64 *p, const struct ncc_tp_flow *f

/*
 * The operations. `s` is the state of an end, zeroed at first; `p` the parameters in table order.
 *   start           the flow begins
 *   leaves          a packet of data is handed down to the host's queue; sets its entropy, count and stamp. May be null
 *   heard           a control packet of the receiver has arrived. Not called once all packets are known to have arrived
 *   sender_timer    likewise
 *   got             data or a control packet of the sender has arrived. The datapath itself sends the ACK of a receiver
 *                   that has everything, and before this call answers a PROBE by a NACK for each hole below `count`,
 *                   else by an ACK
 *   receiver_timer  not called once all packets have arrived
 *   turn            an urgency has changed, or the time that the last turn named has come. Returns the time until the
 *                   next turn, in ns, before which none is taken; 0: at the next change. A turn that changes an urgency
 *                   is followed by another one
 */
struct ncc_tp_ops {
    const char *name;
    const char *summary; /* one line, with the source */
    ncc_u32 needs;       /* enum ncc_tp_needs */
    ncc_u32 top;         /* flows that a turn sees, <= NCC_TP_TOP */
    const struct ncc_cc_param *params;
    ncc_u32 n_params;
    void (*start)(NCC_TP_END_, struct ncc_tp_out *o);
    void (*heard)(NCC_TP_END_, const struct ncc_tp_packet *k, struct ncc_tp_out *o);
    void (*sender_timer)(NCC_TP_END_, struct ncc_tp_out *o);
    void (*got)(NCC_TP_END_, const struct ncc_tp_packet *k, struct ncc_tp_out *o);
    void (*receiver_timer)(NCC_TP_END_, struct ncc_tp_out *o);
    ncc_u64 (*turn)(void *host, const ncc_u64 *p, const struct ncc_tp_turn *t);
    void (*leaves)(NCC_TP_END_, struct ncc_tp_packet *k);
};

/* Returns the next control packet to send, zeroed but for its kind and `number`. */
NCC_CC_FN struct ncc_tp_packet *ncc_tp_say(struct ncc_tp_out *o, ncc_u32 kind)
{
    struct ncc_tp_packet *k = &o->says[o->n_says++ % NCC_TP_SAYS];

    k->stamp = k->sent_ns = k->map = 0;
    k->number = NCC_TP_ALL;
    k->count = k->below = k->flags = k->prio = k->entropy = 0;
    k->kind = kind;
    return k;
}

#define NCC_TP_DOUBLINGS 5

/* A wait for an answer, twice as long after each of `waits` that brought none, and at most 32 times as long. */
NCC_CC_FN ncc_u64 ncc_tp_wait_ns(ncc_u64 ns, ncc_u32 waits) { return ns << ncc_min_u64(waits, NCC_TP_DOUBLINGS); }

/* Expects struct <name>_sender, <name>_receiver, <name>_host, <name>_params[] and the functions <name>_start, _heard,
 * _sender_timer, _got, _receiver_timer, _turn. */
#ifdef __bpf__
#define NCC_TP_REGISTER(name_, needs_, top_, summary_)                                                                 \
    _Static_assert(sizeof(struct name_##_sender) <= NCC_TP_STATE_MAX, "state is larger than a sender has room for");   \
    _Static_assert(sizeof(struct name_##_receiver) <= NCC_TP_STATE_MAX, "state is larger than a receiver has room "    \
                                                                        "for");
#define NCC_TP_REGISTER_LEAVES NCC_TP_REGISTER
#else
#define NCC_TP_ADAPT_(name_, op_, end_)                                                                                \
    static void name_##_##op_##_any(NCC_TP_END_, struct ncc_tp_out *o)                                                 \
    {                                                                                                                  \
        name_##_##op_((struct name_##_##end_ *)s, p, f, o);                                                            \
    }
#define NCC_TP_ADAPT_PACKET_(name_, op_, end_)                                                                         \
    static void name_##_##op_##_any(NCC_TP_END_, const struct ncc_tp_packet *k, struct ncc_tp_out *o)                  \
    {                                                                                                                  \
        name_##_##op_((struct name_##_##end_ *)s, p, f, k, o);                                                         \
    }
#define NCC_TP_TABLE_(name_, needs_, top_, summary_, leaves_)                                                          \
    NCC_CC_STATIC_ASSERT(sizeof(struct name_##_sender) <= NCC_TP_STATE_MAX, "state is larger than a sender has room"); \
    NCC_CC_STATIC_ASSERT(sizeof(struct name_##_receiver) <= NCC_TP_STATE_MAX, "state is larger than a receiver's");    \
    NCC_CC_STATIC_ASSERT(sizeof(struct name_##_host) <= NCC_TP_HOST_MAX, "state is larger than a host has room for");  \
    NCC_CC_STATIC_ASSERT(sizeof(name_##_params) <= NCC_CC_PARAMS_MAX * sizeof(struct ncc_cc_param),                    \
                         "too many parameters");                                                                       \
    NCC_TP_ADAPT_(name_, start, sender)                                                                                \
    NCC_TP_ADAPT_PACKET_(name_, heard, sender)                                                                         \
    NCC_TP_ADAPT_(name_, sender_timer, sender)                                                                         \
    NCC_TP_ADAPT_PACKET_(name_, got, receiver)                                                                         \
    NCC_TP_ADAPT_(name_, receiver_timer, receiver)                                                                     \
    static ncc_u64 name_##_turn_any(void *h, const ncc_u64 *p, const struct ncc_tp_turn *t)                            \
    {                                                                                                                  \
        return name_##_turn((struct name_##_host *)h, p, t);                                                           \
    }                                                                                                                  \
    static const struct ncc_tp_ops name_##_transport = {#name_,                                                        \
                                                        summary_,                                                      \
                                                        needs_,                                                        \
                                                        top_,                                                          \
                                                        name_##_params,                                                \
                                                        (ncc_u32)(sizeof(name_##_params) / sizeof(name_##_params[0])), \
                                                        name_##_start_any,                                             \
                                                        name_##_heard_any,                                             \
                                                        name_##_sender_timer_any,                                      \
                                                        name_##_got_any,                                               \
                                                        name_##_receiver_timer_any,                                    \
                                                        name_##_turn_any,                                              \
                                                        leaves_};
#define NCC_TP_REGISTER(name_, needs_, top_, summary_) NCC_TP_TABLE_(name_, needs_, top_, summary_, 0)
/* The same with a function <name>_leaves. */
#define NCC_TP_REGISTER_LEAVES(name_, needs_, top_, summary_)                                                          \
    static void name_##_leaves_any(NCC_TP_END_, struct ncc_tp_packet *k)                                               \
    {                                                                                                                  \
        name_##_leaves((struct name_##_sender *)s, p, f, k);                                                           \
    }                                                                                                                  \
    NCC_TP_TABLE_(name_, needs_, top_, summary_, name_##_leaves_any)
#endif

/* The receiver's timer of a transport that has none, and the turn of one whose hosts take none. */
#define NCC_TP_NO_RECEIVER_TIMER(name_)                                                                                \
    NCC_CC_FN void name_##_receiver_timer(struct name_##_receiver *s, const ncc_u64 *p, const struct ncc_tp_flow *f,   \
                                          struct ncc_tp_out *o)                                                        \
    {                                                                                                                  \
        (void)s, (void)p, (void)f, (void)o;                                                                            \
    }
#define NCC_TP_NO_TURN(name_)                                                                                          \
    struct name_##_host {                                                                                              \
        ncc_u64 none;                                                                                                  \
    };                                                                                                                 \
    NCC_CC_FN ncc_u64 name_##_turn(struct name_##_host *h, const ncc_u64 *p, const struct ncc_tp_turn *t)              \
    {                                                                                                                  \
        (void)h, (void)p, (void)t;                                                                                     \
        return 0;                                                                                                      \
    }

#endif
