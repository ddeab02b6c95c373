// SPDX-License-Identifier: BSD-3-Clause
// A star in htsim: long flows of DCTCP from several senders to one receiver, as `incast` of packetsim.py has them.
//
// `ncc bench htsim` builds it with the library of a checkout: its queues, pipes and DCTCP. Each direction of a link is
// a queue and a pipe. Arguments: senders, packets per flow, bytes per packet, bit/s and ns of a link, bytes of a port's
// buffer, and from how many bytes on it marks. The last line of the output says how many flows have arrived whole, and
// the CPU time of all events.
#include "config.h"
#include "dctcp.h"
#include "ecnqueue.h"
#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "tcp.h"
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <vector>

namespace
{
/// Counts once in a while the flows that have arrived.
class Watch : public EventSource
{
  public:
    Watch(EventList &events, std::vector<TcpSink *> sinks, uint64_t bytes)
        : EventSource(events, "watch"), sinks_(std::move(sinks)), bytes_(bytes)
    {
        doNextEvent();
    }

    void doNextEvent() override
    {
        delivered = 0;
        for (const TcpSink *sink : sinks_)
            delivered += sink->_cumulative_ack >= bytes_ ? 1 : 0;
        eventlist().sourceIsPendingRel(*this, timeFromUs(100u));
    }

    size_t delivered = 0;

  private:
    std::vector<TcpSink *> sinks_;
    uint64_t bytes_;
};

double CpuSeconds()
{
    timespec spent;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return double(spent.tv_sec) + double(spent.tv_nsec) / 1e9;
}
} // namespace

int main(int argc, char **argv)
{
    if (argc != 8)
        return 2;
    const size_t senders = std::strtoul(argv[1], nullptr, 10);
    const uint64_t packets = std::strtoull(argv[2], nullptr, 10);
    const int packet_bytes = std::atoi(argv[3]);
    const linkspeed_bps rate = std::strtoull(argv[4], nullptr, 10);
    const simtime_picosec delay = std::strtoull(argv[5], nullptr, 10) * 1000; // from ns
    const mem_b buffer = std::atoll(argv[6]), mark = std::atoll(argv[7]);

    Packet::set_packet_size(packet_bytes);
    EventList events;
    events.setEndtime(timeFromSec(100));
    TcpRtxTimerScanner timers(timeFromMs(10), events);
    ECNQueue port(rate, buffer, events, nullptr, mark);
    Queue receiver(rate, buffer, events, nullptr);
    Pipe down(delay, events), up(delay, events);
    std::vector<TcpSink *> sinks;
    for (size_t i = 0; i < senders; ++i) {
        auto *source = new DCTCPSrc(nullptr, nullptr, events);
        auto *sink = new TcpSink();
        auto *out = new Route(), *back = new Route();
        // A sender's own queue takes any window.
        for (PacketSink *hop : std::vector<PacketSink *>{new Queue(rate, mem_b(1) << 40, events, nullptr),
                                                         new Pipe(delay, events), &port, &down, sink})
            out->push_back(hop);
        for (PacketSink *hop : std::vector<PacketSink *>{
                 &receiver, &up, new ECNQueue(rate, buffer, events, nullptr, mark), new Pipe(delay, events), source})
            back->push_back(hop);
        source->set_flowsize((packets - 2) * uint64_t(packet_bytes)); // it sends two packets more
        timers.registerTcp(*source);
        source->connect(*out, *back, *sink, 0);
        sinks.push_back(sink);
    }
    Watch watch(events, sinks, packets * uint64_t(packet_bytes));
    const double began_s = CpuSeconds();
    while (watch.delivered < senders && EventList::doNextEvent()) {
    }
    std::cout << "\ndelivered " << watch.delivered << " cpu_s " << CpuSeconds() - began_s << std::endl;
}
