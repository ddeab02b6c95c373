// SPDX-License-Identifier: BSD-3-Clause
// Classes of an HTB, made and changed by rtnetlink (queue.py). A host's limit may change in every period. Meanwhile
// other programs fill the caches, and this code is back in them sooner than Python's would be.
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <nanobind/nanobind.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

constexpr double kTickNs = 64;
constexpr uint32_t kInner = 7;   // level of a class with children
constexpr uint8_t kEthernet = 1; // TC_LINKLAYER_ETHERNET: the kernel computes transmission times itself
constexpr size_t kAnswerBytes = 65536;
constexpr time_t kPatienceS = 5;

// TCA_OPTIONS of a class: three attributes, each with its head.
struct Options {
    nlattr parameters_head{sizeof(nlattr) + sizeof(tc_htb_opt), TCA_HTB_PARMS};
    tc_htb_opt parameters{};
    nlattr rate_head{sizeof(nlattr) + sizeof(uint64_t), TCA_HTB_RATE64};
    uint32_t rate[2]{}; // 64 bits, aligned to 32
    nlattr ceil_head{sizeof(nlattr) + sizeof(uint64_t), TCA_HTB_CEIL64};
    uint32_t ceil[2]{};
};

struct Request {
    nlmsghdr head{sizeof(Request), RTM_NEWTCLASS, NLM_F_REQUEST | NLM_F_CREATE, 0, 0};
    tcmsg about{};
    nlattr kind_head{sizeof(nlattr) + 4, TCA_KIND};
    char kind[4]{"htb"};
    nlattr options_head{sizeof(nlattr) + sizeof(Options), TCA_OPTIONS};
    Options options;
};
static_assert(sizeof(Request) % NLMSG_ALIGNTO == 0 && sizeof(Options) == 4 + sizeof(tc_htb_opt) + 24);

class Classes
{
  public:
    // Opens a socket in the network namespace of the calling thread, for the classes of the device `index`. Bursts have
    // `burst_pkts` of `packet_bytes` each, or `burst_s` at the rate if that is more.
    Classes(int index, uint32_t packet_bytes, double burst_pkts, double burst_s)
        : index_(index), packet_bytes_(packet_bytes), burst_bytes_(burst_pkts * packet_bytes), burst_s_(burst_s),
          socket_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)), answer_(kAnswerBytes)
    {
        const timeval patience{kPatienceS, 0};
        if (socket_ < 0 || setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0) {
            const int error = errno;
            Close();
            Raise(error);
        }
    }
    Classes(const Classes &) = delete;
    Classes &operator=(const Classes &) = delete;
    ~Classes() { Close(); }

    // May be called twice.
    void Close()
    {
        if (socket_ >= 0) {
            close(socket_);
        }
        socket_ = -1;
    }

    // Adds a request to the next `Send`, which makes or changes a class. Rates are in bytes/s as the device counts
    // bytes. A class with `rate` 1 borrows all its bandwidth.
    void Set(uint32_t handle, uint32_t parent, uint64_t rate, uint64_t ceil, uint32_t prio, uint16_t overhead_bytes,
             bool inner)
    {
        Request request;
        request.about.tcm_ifindex = index_;
        request.about.tcm_handle = handle, request.about.tcm_parent = parent;
        tc_htb_opt &parameters = request.options.parameters;
        for (auto [spec, value] : {std::pair{&parameters.rate, rate}, std::pair{&parameters.ceil, ceil}}) {
            spec->linklayer = kEthernet, spec->overhead = overhead_bytes;
            spec->rate = static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX));
        }
        parameters.buffer = BurstTicks(rate), parameters.cbuffer = BurstTicks(ceil);
        parameters.quantum = packet_bytes_, parameters.level = inner ? kInner : 0, parameters.prio = prio;
        std::memcpy(request.options.rate, &rate, sizeof(rate));
        std::memcpy(request.options.ceil, &ceil, sizeof(ceil));
        requests_.push_back(request);
        written_[handle] = request.options;
    }

    // Sends the requests together and waits until they are done, in order, also those after one that is refused.
    // Raises OSError with the first refusal.
    void Send()
    {
        if (requests_.empty()) {
            return;
        }
        const uint32_t first = number_ + 1, last = number_ += static_cast<uint32_t>(requests_.size());
        for (size_t i = 0; i < requests_.size(); ++i) {
            requests_[i].head.nlmsg_seq = first + static_cast<uint32_t>(i);
        }
        requests_.back().head.nlmsg_flags |= NLM_F_ACK; // the kernel answers the others only if it refuses them
        const ssize_t sent = send(socket_, requests_.data(), requests_.size() * sizeof(Request), 0);
        requests_.clear();
        int refused = sent < 0 ? errno : 0;
        for (bool over = sent < 0; !over;) {
            const ssize_t got = recv(socket_, answer_.data(), answer_.size(), 0);
            if (got < 0 && errno == EINTR) {
                continue;
            }
            if (got < 0) {
                const int error = errno == EAGAIN ? ETIMEDOUT : errno;
                refused = refused != 0 ? refused : error;
                break;
            }
            auto *head = reinterpret_cast<const nlmsghdr *>(answer_.data());
            for (auto left = static_cast<int>(got); NLMSG_OK(head, left); head = NLMSG_NEXT(head, left)) {
                if (head->nlmsg_type == NLMSG_ERROR && head->nlmsg_seq - first <= last - first) {
                    const int error = -static_cast<const nlmsgerr *>(NLMSG_DATA(head))->error;
                    refused = refused != 0 ? refused : error;
                    over = over || head->nlmsg_seq == last;
                }
            }
        }
        if (refused != 0) {
            Raise(refused);
        }
    }

    // The options of each class as they were sent last, by handle.
    nb::dict Written() const
    {
        nb::dict written;
        for (const auto &[handle, options] : written_) {
            written[nb::int_(handle)] = nb::bytes(reinterpret_cast<const char *>(&options), sizeof(options));
        }
        return written;
    }

  private:
    [[noreturn]] static void Raise(int error)
    {
        errno = error;
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }

    // The time of a burst; a class that only borrows has the least.
    uint32_t BurstTicks(uint64_t rate) const
    {
        const auto bytes_per_s = static_cast<double>(rate);
        const double burst_bytes = rate > 1 ? std::max(burst_bytes_, bytes_per_s * burst_s_) : 1;
        const double ticks = std::nearbyint(burst_bytes / bytes_per_s * 1e9 / kTickNs);
        return static_cast<uint32_t>(std::clamp(ticks, 1.0, static_cast<double>(UINT32_MAX)));
    }

    int index_;
    uint32_t packet_bytes_;
    double burst_bytes_, burst_s_;
    int socket_;
    uint32_t number_ = 0;
    std::vector<Request> requests_;
    std::map<uint32_t, Options> written_;
    std::vector<char> answer_;
};

} // namespace

void bind_classes(nb::module_ &m)
{
    nb::class_<Classes>(m, "Classes")
        .def(nb::init<int, uint32_t, double, double>(), "index"_a, "packet_bytes"_a, "burst_pkts"_a, "burst_s"_a)
        .def("set", &Classes::Set, "handle"_a, "parent"_a, "rate"_a, "ceil"_a, "prio"_a = 0, "overhead_bytes"_a = 0,
             "inner"_a = false)
        .def("send", &Classes::Send)
        .def("written", &Classes::Written)
        .def("close", &Classes::Close);
}
