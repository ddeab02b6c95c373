// SPDX-License-Identifier: GPL-2.0-only
// One end of a flow: ns-3's TCP with the host's back-pressure, the controller and the measurements.
#pragma once

#include "cc_ops.h"
#include "delivery_rate.h"
#include "frame.h"
#include "modern.h"
#include "rtt_noise.h"

#include "ns3/rtt-estimator.h"
#include "ns3/tcp-rate-ops.h"
#include "ns3/tcp-socket-base.h"

namespace ncc
{

class Network;

// Returns the 64-bit stream offset nearest to `near` whose low 32 bits are those of `seq`.
uint64_t Unwrap(ns3::SequenceNumber32 seq, uint64_t near);

// Kind of ECN echo. With a controller of baselines/ the echo is ours (RFC 8257 section 3.2 or RFC 3168); with one of
// ns-3's own congestion controls it is ns-3's.
enum class Echo { kNone, kClassic, kPrecise, kNs3 };

// Estimator of the delivery rate that ns-3 calls for packets sent and delivered. ns3::TcpRateLinux has an older rule:
// it keeps a sample over ACKs that deliver nothing and takes the first of the packets sent between two ACKs.
class RateProbe final : public ns3::TcpRateOps
{
  public:
    explicit RateProbe(HostSocket &socket) : socket_(socket) {}
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
    bool idle = false; // everything sent is acknowledged when the next packet is sent

  private:
    HostSocket &socket_;
    TcpRateSample sample_;
    TcpRateConnection connection_;
};

// ns-3's estimator, which also passes what arrives to the socket.
class ArrivalProbe final : public ns3::TcpRateLinux
{
  public:
    explicit ArrivalProbe(HostSocket &socket) : socket_(socket) {}
    void SkbDelivered(ns3::TcpTxItem *item) override;

  private:
    HostSocket &socket_;
};

// Modern recovery (recovery.cc): the window shrinks by PRR (cc_ops.h), losses of the tail are probed (TLP), and the
// first loss of a window is found by time, as RACK does it (both RFC 8985). Known differences from packetsim's: within
// a recovery, a packet counts as lost at the first selective acknowledgement of a later one; a retransmission that is
// lost waits for the timeout; there is neither F-RTO nor DSACK, so nothing is undone.
class HostSocket final : public ns3::TcpSocketBase
{
  public:
    HostSocket(Network &network, uint32_t flow, bool sender, Echo echo, const RttNoise &rtt_noise);

    // Sender: opens the connection and offers the flow's written bytes; `at_once`: without a handshake.
    void Open(const ns3::Address &local, const ns3::Address &peer, uint64_t size_bytes, uint64_t written_bytes,
              bool at_once);
    // Sender: the application writes more bytes of the flow; before, true if all that it had written is acknowledged,
    // and then the controller is told of the pause. `idle_rtos`: see cc.h.
    bool WaitsForApplication() const;
    void Restart(uint32_t idle_rtos);
    void Write(uint64_t bytes);
    // Receiver: waits for the SYN; `at_once`: for data.
    void Await(const ns3::Address &local, const ns3::Address &peer, bool at_once);
    // Goes on with the next flow on this connection, at the receiver and then at the sender.
    void Continue(uint32_t flow);
    void Continue(uint32_t flow, uint64_t size_bytes, uint64_t written_bytes, uint32_t idle_rtos);
    void SetController(ns3::Ptr<CcOps> controller, bool needs_rate);
    void SetTimeouts(ns3::Time min_rto, ns3::Time initial_rto);
    // A switch's signal for the controller, and the controller's own timer.
    void Signal(const ncc_cc_signal &signal);
    void ArmControl(ns3::Time delay);
    // Frees the end point and cancels all timers.
    void Shut();

    void Receive(Frame *frame);
    // Continues sending, because the host's queue of this flow has room again.
    void Wake();
    // Restarts the retransmission timer when the first unacknowledged segment leaves the host after a wait. RFC
    // 6298 5.1 counts from sending, Linux from the departure; otherwise a slow limit would look like a loss.
    void HeadLeft();

    ncc_cc_event Event(ncc_u32 flags) const;
    ncc_cc_event AckEvent(); // event of the current ACK; counts its delivered bytes
    void ControllerFault(const std::string &message);
    void RttSample(int64_t ns);
    void Arrived(ns3::TcpTxItem &item);

    uint64_t una_bytes() const { return una_bytes_; }
    bool more_lost() const; // the current ACK showed a loss
    bool timed() const { return timed_; }
    bool needs(ncc_cc_needs what) const { return controller_ && controller_->needs(what); }
    // Receiver: gives what ports wrote into the last data to an ACK.
    void GiveBack(std::vector<ncc_cc_hop> &hops)
    {
        hops.swap(hops_);
        hops_.clear();
    }
    uint64_t earlier_bytes() const { return earlier_bytes_; }
    uint64_t received_bytes() const; // payload of this flow that has come, with what lies beyond a gap
    int64_t rto_ns() const { return m_rto.Get().GetTimeStep(); }
    uint32_t cwnd_bytes() const { return m_tcb->m_cWnd; }
    uint32_t ssthresh_bytes() const { return m_tcb->m_ssThresh; }

  protected:
    uint32_t SendDataPacket(ns3::SequenceNumber32 seq, uint32_t max_size, bool with_ack) override;
    void SendEmptyPacket(uint8_t flags) override;
    uint32_t Window() const override;
    uint32_t AvailableWindow() const override;
    uint16_t AdvertisedWindowSize(bool scale) const override;
    void ReceivedAck(ns3::Ptr<ns3::Packet> packet, const ns3::TcpHeader &header) override;
    void ReceivedData(ns3::Ptr<ns3::Packet> packet, const ns3::TcpHeader &header) override;
    void NewAck(const ns3::SequenceNumber32 &ack, bool reset_rto) override;
    void ReTxTimeout() override;
    void PersistTimeout() override;
    ns3::Ptr<ns3::TcpSocketBase> Fork() override;

  private:
    void TakeIn(ns3::Ptr<ns3::Packet> packet, uint64_t offset_bytes, uint32_t payload, bool ecn_capable);
    void Trimmed(uint64_t offset_bytes); // receiver: data came without its payload
    void Lost(uint64_t offset_bytes);    // sender: the receiver says so
    void ControlTimer();
    bool Undelivered() const { return m_state == ESTABLISHED && una_bytes_ < end_bytes_; }
    ncc_u32 InRecovery() const
    {
        const auto state = m_tcb->m_congState.Get();
        const bool repairing = state == ns3::TcpSocketState::CA_RECOVERY || state == ns3::TcpSocketState::CA_LOSS;
        return repairing ? NCC_CC_ACK_IN_RECOVERY : 0;
    }
    void Establish();
    void OfferAndSend();
    void Offer(ns3::Ptr<ns3::Socket> socket, uint32_t available);
    ncc_u64 TakeDelivered(); // newly acknowledged payload, also by SACK, each byte once
    // The receive window, but for room of less than a packet, which ns-3 would fill with a part of one.
    uint32_t OfferedBytes() const;
    void Outgoing(uint64_t offset_bytes, bool retransmission, bool cwr, bool data);
    void GivenUp(ns3::Ptr<ns3::Socket> socket);
    void SetRto();
    void ArmProbe();
    void Probe();
    void ProbeAnswered(bool advanced);
    void ModernAck();
    void NoteUse(bool sent);
    void ArmReordering();
    void ReorderingOver();

    Network &network_;
    uint32_t flow_;
    bool sender_;
    Echo echo_;
    RttNoise rtt_noise_;
    ns3::Ptr<CcOps> controller_;
    ns3::EventId control_event_;
    ns3::Ptr<RateProbe> rate_; // only for controllers that want delivery rates
    ns3::Address local_, peer_;

    uint64_t earlier_bytes_ = 0;   // payload of earlier flows on this connection
    uint64_t end_bytes_ = 0;       // payload of this flow and of earlier ones
    uint64_t unoffered_bytes_ = 0; // written, and not in the send buffer
    uint32_t syns_ = 0;
    mutable bool held_back_ = false; // TCP wanted to send, but the host's queue was full

    // Stream offsets of the connection in 64 bits, because ns-3's sequence numbers wrap. Its first payload byte has
    // number 1.
    uint64_t una_bytes_ = 0;
    uint64_t delivered_bytes_ = 0;
    uint64_t received_bytes_ = 0;

    // Modern recovery: time of the latest packet that has arrived and the last RTT, and the loss probe
    bool modern_;
    int64_t newest_sent_ns_ = 0, rack_rtt_ns_ = 0;
    ns3::EventId reordering_event_;
    WindowUse use_;
    bool timed_ = false; // the recovery begins by that event, without an ACK
    ns3::EventId probe_event_;
    uint64_t probe_end_bytes_ = 0;   // end of what was sent when a probe was; 0: no probe is out
    bool probe_resent_ = false;      // the probe was no new data
    uint32_t last_sent_bytes_ = 0;   // payload of the newest packet
    uint32_t lost_before_bytes_ = 0; // payload that counted as lost before the current ACK

    // RTT samples that the controller gets
    int64_t measured_rtt_ns_ = 0; // sample of the current packet; 0: none
    int64_t min_rtt_ns_ = 0;
    uint64_t rtt_samples_ = 0;
    uint64_t una_before_ = 0;
    uint32_t in_flight_before_ = 0;
    bool ece_ = false;
    bool cwr_due_ = false;       // RFC 3168: set CWR on the next new packet, because ECE came
    uint64_t cwr_end_bytes_ = 0; // from here on, something of the last packet with CWR is acknowledged

    // Receiver
    bool ce_ = false; // mark of the current packet
    bool cwr_ = false;
    bool ce_state_ = false;        // DCTCP.CE, or "repeat ECE until CWR"
    std::vector<ncc_cc_hop> hops_; // telemetry: of the last data, or of the current ACK
    bool telling_trimmed_ = false; // the ACK that is sent now tells of the data at `trimmed_bytes_`
    uint64_t trimmed_bytes_ = 0;
};

// ns-3's estimator, which also passes every sample to the socket.
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
