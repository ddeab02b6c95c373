// SPDX-License-Identifier: BSD-3-Clause
// Functions of C++20 that the library of emscripten 3.1 lacks; every source of the page includes it first.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

#include <version>

namespace std // NOLINT
{
#if !defined(__cpp_lib_smart_ptr_for_overwrite)
template <class T>
auto make_unique_for_overwrite(size_t n)
{
    return unique_ptr<T>(new remove_extent_t<T>[n]);
}
#endif
#if !defined(__cpp_lib_bit_cast)
template <class To, class From>
constexpr To bit_cast(const From &from) noexcept
{
    return __builtin_bit_cast(To, from);
}
#endif
} // namespace std
