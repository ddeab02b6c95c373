// SPDX-License-Identifier: BSD-3-Clause
// The tags that hosts give to their data packets (flow_tag.h).
#pragma once

#include "order.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ncc
{

std::vector<std::string> TagNames();                         // "none" first
std::vector<ParamRow> TagParamRows(const std::string &name); // none for "none", or an unknown one

class Tags
{
  public:
    // Null for "none". Throws std::out_of_range for an unknown name.
    static std::unique_ptr<Tags> Make(const std::string &name,
                                      const std::vector<std::pair<std::string, uint64_t>> &params);

    ncc_tag_out Of(const FlowView &flow, uint64_t offset_bytes, uint32_t payload_bytes) const
    {
        const ncc_tag_packet packet{offset_bytes, payload_bytes, flow.told_bytes(), flow.delivered_bytes};
        ncc_tag_out out{};
        ops_->tag(params_.data(), &packet, &out);
        return out;
    }

  private:
    const ncc_tag_ops *ops_ = nullptr;
    std::vector<ncc_u64> params_;
};

} // namespace ncc
