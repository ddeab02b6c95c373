// SPDX-License-Identifier: BSD-3-Clause
// The programs of a port (switch.h): their states, their timers and the calls of their hooks, for both simulators.
#pragma once

#include "controllers.h"
#include "mix.h"
#include "spec.h"

#include "switch.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ncc
{

const ncc_sw_ops &FindProgram(const std::string &name); // there must be one

// The programs of one port, in order.
class Programs
{
  public:
    // `seed`: seed of the port's random numbers in this run.
    Programs(const std::vector<ProgramSpec> &specs, uint64_t seed);

    bool need(uint32_t needs) const { return (needs_ & needs) != 0; }
    // The program that chooses ways (NCC_SW_ROUTE), and its state at this port; null: there is none.
    struct Routing {
        const ncc_sw_ops *ops = nullptr;
        void *state = nullptr;
    };
    Routing routing()
    {
        if (routing_ < 0) {
            return {};
        }
        Program &program = programs_[static_cast<size_t>(routing_)];
        return {&program.ops, program.state.data()};
    }
    uint32_t count() const { return static_cast<uint32_t>(programs_.size()); }

    // Runs `init`. Here and below, `arm(program, delay_ns)` schedules the event at which `Due` is asked.
    template <typename Arm>
    void Init(ncc_sw_port port, Arm arm)
    {
        for (uint32_t i = 0; i < count(); ++i) {
            Run(i, programs_[i].ops.init, port, arm);
        }
    }

    // Runs `ingress` of every program that has it, and returns what the last of them says.
    template <typename Arm>
    ncc_sw_pause Ingress(ncc_sw_port port, Arm arm)
    {
        ncc_sw_pause pause = NCC_SW_AS_IT_WAS;
        for (uint32_t i = 0; i < count(); ++i) {
            if ((programs_[i].ops.needs & NCC_SW_INGRESS) != 0) {
                const ncc_sw_pause its = Run(i, programs_[i].ops.ingress, port, arm).pause;
                pause = its == NCC_SW_AS_IT_WAS ? pause : its;
            }
        }
        return pause;
    }

    // Runs the hook `need` of every program that has it. Returns the strictest verdict, at
    // least `verdict`. A packet that is not ECN-capable is never marked, and one without payload never trimmed.
    template <typename Arm>
    ncc_verdict Packet(ncc_sw_needs need, ncc_sw_port port, ncc_sw_packet &packet, ncc_verdict verdict, Arm arm)
    {
        for (uint32_t i = 0; i < count(); ++i) {
            Program &program = programs_[i];
            if ((program.ops.needs & need) == 0) {
                continue;
            }
            ncc_sw_out out{};
            out.verdict = verdict;
            port.random = Draw();
            const auto hook = need == NCC_SW_ENQUEUE   ? program.ops.enqueue
                              : need == NCC_SW_DEQUEUE ? program.ops.dequeue
                                                       : program.ops.reverse;
            hook(program.state.data(), program.params.data(), &port, &packet, &out);
            if (need == NCC_SW_ENQUEUE && out.signal.kind != NCC_CC_SIGNAL_NONE &&
                (program.ops.needs & NCC_SW_SIGNALS)) {
                signal_ = out.signal;
            }
            if (need == NCC_SW_DEQUEUE && out.hop.rate_bytes_per_s != 0 && (program.ops.needs & NCC_SW_TELEMETRY)) {
                hop_ = out.hop;
            }
            const bool able = out.verdict == NCC_MARK   ? (packet.flags & NCC_SW_ECT) != 0
                              : out.verdict == NCC_TRIM ? packet.payload_bytes > 0
                                                        : true;
            verdict = able ? std::max(verdict, out.verdict) : verdict;
            Timer(i, port.now_ns, out, arm);
        }
        return verdict;
    }

    // Number of queues into which a program divides the buffer of the port; 0: there is no such program.
    uint32_t queues() const { return queueing_ < 0 ? 0 : programs_[static_cast<size_t>(queueing_)].ops.queues; }
    // Returns the queue that a packet joins.
    uint32_t Classify(const ncc_sw_packet &packet)
    {
        Program &program = programs_[static_cast<size_t>(queueing_)];
        const uint32_t queue = program.ops.classify(program.state.data(), program.params.data(), &packet);
        return queue < program.ops.queues ? queue : throw WrongQueue(program.ops, "classify", queue);
    }
    // Returns the queue of `of` that sends next; at least one of them is not empty.
    uint32_t Next(const std::vector<ncc_sw_queue> &of)
    {
        Program &program = programs_[static_cast<size_t>(queueing_)];
        const uint32_t queue = program.ops.next(program.state.data(), program.params.data(), of.data());
        return queue < of.size() && of[queue].head_bytes > 0 ? queue : throw WrongQueue(program.ops, "next", queue);
    }

    // Takes the signal of the last `enqueue`; SIGNAL_NONE if there is none.
    ncc_cc_signal TakeSignal() { return std::exchange(signal_, {NCC_CC_SIGNAL_NONE, 0}); }

    // Takes the telemetry of the last `dequeue`; a rate of 0: there is none.
    ncc_cc_hop TakeHop() { return std::exchange(hop_, {}); }

    // Returns true if the timer of a program is due now. A timer that was set again is due at its last time only.
    bool Due(uint32_t program, int64_t now_ns) const { return programs_[program].due_ns == now_ns; }
    template <typename Arm>
    void Expired(uint32_t i, ncc_sw_port port, Arm arm)
    {
        programs_[i].due_ns = -1;
        Run(i, programs_[i].ops.timer, port, arm);
    }

  private:
    struct Program {
        const ncc_sw_ops &ops;
        std::vector<ncc_u64> params;
        std::vector<ncc_u64> state;
        int64_t due_ns = -1;
    };

    static std::logic_error WrongQueue(const ncc_sw_ops &ops, const char *hook, uint32_t queue)
    {
        return std::logic_error("Program " + std::string(ops.name) + " returned queue " + std::to_string(queue) +
                                " from " + hook + ": it must be below " + std::to_string(ops.queues) +
                                ", and not empty for next");
    }

    // Runs a hook that takes the port and no packet.
    template <typename Hook, typename Arm>
    ncc_sw_out Run(uint32_t i, Hook hook, ncc_sw_port port, Arm arm)
    {
        ncc_sw_out out{};
        port.random = Draw();
        hook(programs_[i].state.data(), programs_[i].params.data(), &port, &out);
        Timer(i, port.now_ns, out, arm);
        return out;
    }

    template <typename Arm>
    void Timer(uint32_t i, ncc_u64 now_ns, const ncc_sw_out &out, Arm arm)
    {
        if (out.timer_ns != 0 && (programs_[i].ops.needs & NCC_SW_TIMER) != 0) {
            const auto delay_ns = static_cast<int64_t>(std::min<ncc_u64>(out.timer_ns, kLongestNs));
            programs_[i].due_ns = static_cast<int64_t>(now_ns) + delay_ns;
            arm(i, delay_ns);
        }
    }

    ncc_u32 Draw()
    {
        random_ += kMixStep;
        return static_cast<ncc_u32>(Mix(random_) >> 32);
    }

    static constexpr ncc_u64 kLongestNs = 1ULL << 60;

    std::vector<Program> programs_;
    uint32_t needs_ = 0;
    int32_t queueing_ = -1; // index of the program with NCC_SW_QUEUES
    int32_t routing_ = -1;  // and of that with NCC_SW_ROUTE
    ncc_cc_signal signal_{NCC_CC_SIGNAL_NONE, 0};
    ncc_cc_hop hop_{};
    uint64_t random_;
};

// Flags of ncc_sw_packet.
inline ncc_u32 SwitchFlags(bool to_receiver, bool syn_ack, bool fin, bool ecn_capable, bool marked, bool window)
{
    const auto flag = [](bool on, ncc_sw_packet_flags which) { return on ? static_cast<ncc_u32>(which) : 0U; };
    return flag(to_receiver, NCC_SW_TO_RECEIVER) | flag(syn_ack, NCC_SW_SYN_ACK) | flag(fin, NCC_SW_FIN) |
           flag(ecn_capable, NCC_SW_ECT) | flag(marked, NCC_SW_CE) | flag(window, NCC_SW_HAS_WINDOW);
}

// Shift of a window field after the SYN (RFC 7323 section 2).
inline uint32_t WindowShift(uint32_t receive_buffer_bytes)
{
    uint32_t shift = 0;
    while (receive_buffer_bytes >> shift > UINT16_MAX && shift < 14) {
        ++shift;
    }
    return shift;
}

// The window field `field`, in steps of 2^shift bytes, lowered to `window_bytes` by a program: see ncc_sw_packet.
inline uint16_t LoweredWindow(uint16_t field, ncc_u64 window_bytes, uint32_t shift, uint32_t mss_bytes)
{
    const ncc_u64 least = ((mss_bytes - 1) >> shift) + 1;
    return static_cast<uint16_t>(std::min<ncc_u64>(field, std::max(window_bytes >> shift, least)));
}

// True if the port of this queue has a program that may pause what comes over its link.
bool PausesBy(const Spec &spec, const QueueSpec &queue);

} // namespace ncc
