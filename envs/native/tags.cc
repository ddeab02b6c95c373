// SPDX-License-Identifier: BSD-3-Clause
#include "tags.h"

#include <stdexcept>

namespace ncc
{

std::vector<std::string> TagNames() { return NamesIn(ncc_tag_table, {"none"}); }

std::vector<ParamRow> TagParamRows(const std::string &name) { return ParamRows(RowIn(ncc_tag_table, name)); }

std::unique_ptr<Tags> Tags::Make(const std::string &name, const std::vector<std::pair<std::string, uint64_t>> &params)
{
    if (name == "none") {
        return nullptr;
    }
    const ncc_tag_ops *ops = RowIn(ncc_tag_table, name);
    if (ops == nullptr) {
        throw std::out_of_range("no tags called " + name);
    }
    auto made = std::make_unique<Tags>();
    made->ops_ = ops;
    made->params_ = ControllerParams(*ops, params);
    return made;
}

} // namespace ncc
