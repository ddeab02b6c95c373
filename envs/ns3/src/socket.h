// SPDX-License-Identifier: GPL-2.0-only
// One end of a flow: ns-3's TCP, held back by the host's queue, with the controller and the measurements attached.
#pragma once

#include "cc_ops.h"
#include "delivery_rate.h"
#include "frame.h"
#include "rtt_noise.h"

#include "ns3/rtt-estimator.h"
#include "ns3/tcp-rate-ops.h"
#include "ns3/tcp-socket-base.h"

namespace ncc
{

class Network;

// How congestion marks travel. With a controller of baselines/ the echo is ours (RFC 8257 section 3.2 or RFC 3168), for
// one of ns-3's own congestion controls it is ns-3's.
enum class Echo { kNone, kClassic, kPrecise, kNs3 };

// ns-3 tells it of packets sent and delivered. ns3::TcpRateLinux would estimate by an older rule: it keeps a sample
// over ACKs that deliver nothing and takes, of packets sent between two ACKs, the first.
class RateProbe final : public ns3::TcpRateOps
{
  public:
    void SkbSent(ns3::TcpTxItem *item, bool start) override;
    void SkbDelivered(ns3::TcpTxItem *item) override;
    void CalculateAppLimited(uint32_t, uint32_t, uint32_t, const ns3::SequenceNumber32 &, const ns3::SequenceNumber32 &,
                             uint32_t, uint32_t) override
    {
    }
    const TcpRateSample &GenerateSample(uint32_t, uint32_t, bool, uint32_t, const ns3::Time &) override
    {
        return sample_;
    }
    const TcpRateConnection &GetConnectionRate() override { return connection_; }

    DeliveryRate estimator;
    bool idle = false; // all that was sent is acknowledged, as the next packet goes out

  private:
    TcpRateSample sample_;
    TcpRateConnection connection_;
};

class HostSocket final : public ns3::TcpSocketBase
{
  public:
    HostSocket(Network &network, uint32_t flow, bool sender, Echo echo, const RttNoise &rtt_noise);

    // Sender: opens the connection and offers the flow's bytes.
    void Open(const ns3::Address &local, const ns3::Address &peer, uint64_t size_bytes);
    // Receiver: waits for the SYN.
    void Await(const ns3::Address &local, const ns3::Address &peer);
    void SetController(ns3::Ptr<CcOps> controller, bool needs_rate);
    // Frees the end point and cancels all timers.
    void Shut();

    void Receive(Frame *frame);
    // The host's queue of this flow has room again.
    void Wake();
    // The first unacknowledged segment left the host after a wait: its retransmission timer starts now (RFC 6298 5.1
    // counts from sending; Linux likewise from the departure time), or a slow limit would look like a loss.
    void HeadLeft();

    ncc_cc_event Event(ncc_u32 flags) const;
    ncc_cc_event AckEvent(); // of the ACK being processed; counts what it delivers
    void ControllerFault(const std::string &message);
    void RttSample(int64_t ns);

    uint64_t una_bytes() const { return una_bytes_; }
    uint32_t cwnd_bytes() const { return m_tcb->m_cWnd; }
    uint32_t ssthresh_bytes() const { return m_tcb->m_ssThresh; }

  protected:
    uint32_t SendDataPacket(ns3::SequenceNumber32 seq, uint32_t max_size, bool with_ack) override;
    void SendEmptyPacket(uint8_t flags) override;
    uint32_t AvailableWindow() const override;
    void ReceivedAck(ns3::Ptr<ns3::Packet> packet, const ns3::TcpHeader &header) override;
    void ReceivedData(ns3::Ptr<ns3::Packet> packet, const ns3::TcpHeader &header) override;
    void ReTxTimeout() override;
    void PersistTimeout() override;
    ns3::Ptr<ns3::TcpSocketBase> Fork() override;

  private:
    void Offer(ns3::Ptr<ns3::Socket> socket, uint32_t available);
    ncc_u64 TakeDelivered(); // payload newly acknowledged, cumulatively or selectively, each byte once
    void Outgoing(uint64_t offset_bytes, bool retransmission, bool cwr, bool data);
    void GivenUp(ns3::Ptr<ns3::Socket> socket);

    Network &network_;
    uint32_t flow_;
    bool sender_;
    Echo echo_;
    RttNoise rtt_noise_;
    ns3::Ptr<CcOps> controller_;
    ns3::Ptr<RateProbe> rate_; // of controllers that want delivery rates
    ns3::Address local_, peer_;

    uint64_t size_bytes_ = 0;
    uint64_t unoffered_bytes_ = 0;
    uint32_t syns_ = 0;
    mutable bool held_back_ = false; // TCP would have sent but for the host's queue

    // Stream offsets in 64 bits; ns-3's sequence numbers wrap. Its first payload byte is number 1.
    uint64_t una_bytes_ = 0;
    uint64_t delivered_bytes_ = 0;
    uint64_t received_bytes_ = 0;

    // RTT samples as the controller hears of them
    int64_t heard_rtt_ns_ = 0; // of the packet being processed; 0: none
    int64_t min_rtt_ns_ = 0;
    uint64_t rtt_samples_ = 0;
    uint64_t una_before_ = 0;
    uint32_t in_flight_before_ = 0;
    bool ece_ = false;
    bool cwr_due_ = false;          // RFC 3168: tell the receiver with the next new packet that ECE was heard
    uint64_t cwr_offset_bytes_ = 0; // where it was last told

    // Receiver
    bool ce_ = false; // of the packet being processed
    bool cwr_ = false;
    bool ce_state_ = false; // DCTCP.CE, or "repeat ECE until CWR"
};

// ns-3's estimator, which also tells the socket of every sample.
class RttProbe final : public ns3::RttMeanDeviation
{
  public:
    explicit RttProbe(HostSocket &socket) : socket_(socket) {}
    void Measurement(ns3::Time sample) override
    {
        socket_.RttSample(sample.GetTimeStep());
        RttMeanDeviation::Measurement(sample);
    }

  private:
    HostSocket &socket_;
};

} // namespace ncc
