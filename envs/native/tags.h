// SPDX-License-Identifier: BSD-3-Clause
// The tags that hosts give to their data packets (flow_tag.h).
#pragma once

#include "order.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ncc
{

class Tags
{
  public:
    Tags(const std::string &name, const Params &params) : ops_(FindTags(name)), params_(ControllerParams(ops_, params))
    {
    }

    ncc_tag_out Of(const FlowView &flow, uint64_t offset_bytes, uint32_t payload_bytes) const
    {
        const ncc_tag_packet packet{offset_bytes, payload_bytes, flow.estimated_bytes(), flow.delivered_bytes};
        ncc_tag_out out{};
        ops_.tag(params_.data(), &packet, &out);
        return out;
    }
    // Replaces all parameters, in the order of the tags' own.
    void Set(std::vector<ncc_u64> params) { params_ = std::move(params); }

  private:
    const ncc_tag_ops &ops_;
    std::vector<ncc_u64> params_;
};

} // namespace ncc
