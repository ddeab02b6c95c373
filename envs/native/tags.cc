// SPDX-License-Identifier: BSD-3-Clause
#include "tags.h"

#include <stdexcept>

namespace ncc
{

namespace
{

const ncc_tag_ops *FindTags(const std::string &name)
{
    for (const ncc_tag_ops *ops : ncc_tag_table) {
        if (name == ops->name) {
            return ops;
        }
    }
    return nullptr;
}

} // namespace

std::vector<std::string> TagNames()
{
    std::vector<std::string> names = {"none"};
    for (const ncc_tag_ops *ops : ncc_tag_table) {
        names.emplace_back(ops->name);
    }
    return names;
}

std::vector<ParamRow> TagParamRows(const std::string &name)
{
    const ncc_tag_ops *ops = FindTags(name);
    return ops ? ParamRows(*ops) : std::vector<ParamRow>();
}

std::unique_ptr<Tags> Tags::Make(const std::string &name, const std::vector<std::pair<std::string, uint64_t>> &params)
{
    if (name == "none") {
        return nullptr;
    }
    const ncc_tag_ops *ops = FindTags(name);
    if (ops == nullptr) {
        throw std::out_of_range("no tags called " + name);
    }
    auto made = std::make_unique<Tags>();
    made->ops_ = ops;
    made->params_ = ControllerParams(*ops, params);
    return made;
}

} // namespace ncc
