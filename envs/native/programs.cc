// SPDX-License-Identifier: BSD-3-Clause
#include "programs.h"

namespace ncc
{

bool PausesBy(const Spec &spec, const QueueSpec &queue)
{
    if (queue.programs < 0) {
        return false;
    }
    const auto &programs = spec.programs.at(static_cast<size_t>(queue.programs));
    return std::any_of(programs.begin(), programs.end(),
                       [](const ProgramSpec &each) { return (FindProgram(each.name).needs & NCC_SW_INGRESS) != 0; });
}

Programs::Programs(const std::vector<ProgramSpec> &specs, uint64_t seed) : random_(Mix(seed))
{
    for (const ProgramSpec &spec : specs) {
        const ncc_sw_ops &ops = FindProgram(spec.name);
        queueing_ = (ops.needs & NCC_SW_QUEUES) != 0 ? static_cast<int32_t>(programs_.size()) : queueing_;
        routing_ = ops.route != nullptr ? static_cast<int32_t>(programs_.size()) : routing_;
        programs_.push_back({ops, ControllerParams(ops, spec.params), std::vector<ncc_u64>((ops.state_bytes + 7) / 8)});
        needs_ |= ops.needs;
    }
}

} // namespace ncc
