// SPDX-License-Identifier: BSD-3-Clause
// A REQ socket of ZMTP 3.0 (RFC 23, mechanism NULL) over TCP, and protobuf's wire format by hand: what a simulation
// needs to speak ns3-gym's protocol with nothing but a compiler. Written from field numbers, not from ncc's Python, so
// that the two check each other.
#pragma once

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace peer
{

/// Builds a protobuf message, field by field.
class Message
{
  public:
    Message &number(int field, uint64_t value)
    {
        varint(uint64_t(field) << 3);
        varint(value);
        return *this;
    }
    Message &real(int field, float value)
    {
        varint(uint64_t(field) << 3 | 5);
        bytes_.append(reinterpret_cast<const char *>(&value), sizeof value);
        return *this;
    }
    Message &text(int field, const std::string &value)
    {
        varint(uint64_t(field) << 3 | 2);
        varint(value.size());
        bytes_ += value;
        return *this;
    }
    Message &part(int field, const Message &value) { return text(field, value.bytes_); }
    /// google.protobuf.Any of one of ns3-gym's messages.
    Message &any(int field, const std::string &name, const Message &value)
    {
        return part(field, Message().text(1, "type.googleapis.com/ns3opengym." + name).text(2, value.bytes_));
    }
    Message &reals(int field, const std::vector<float> &values)
    {
        return text(field, std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float)));
    }
    Message &numbers(int field, const std::vector<uint64_t> &values)
    {
        Message packed;
        for (uint64_t value : values)
            packed.varint(value);
        return part(field, packed);
    }
    const std::string &bytes() const { return bytes_; }

  private:
    void varint(uint64_t value)
    {
        for (; value >= 128; value >>= 7)
            bytes_ += char(value | 128);
        bytes_ += char(value);
    }
    std::string bytes_;
};

/// One field of a message that was received.
struct Field {
    int number;
    uint64_t value;
    std::string text;
};

inline uint64_t read_varint(const std::string &from, size_t &at)
{
    uint64_t value = 0;
    for (int shift = 0; at < from.size(); shift += 7) {
        auto byte = uint8_t(from[at++]);
        value |= uint64_t(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
    throw std::runtime_error("a number is cut short");
}

inline std::vector<Field> fields(const std::string &from)
{
    std::vector<Field> found;
    for (size_t at = 0; at < from.size();) {
        uint64_t key = read_varint(from, at);
        Field field{int(key >> 3), 0, ""};
        if ((key & 7) == 0) {
            field.value = read_varint(from, at);
        } else {
            size_t size = (key & 7) == 2 ? read_varint(from, at) : (key & 7) == 5 ? 4 : 8;
            if (at + size > from.size())
                throw std::runtime_error("a field is cut short");
            field.text = from.substr(at, size);
            at += size;
        }
        found.push_back(field);
    }
    return found;
}

/// The last field of that number; an empty one where there is none, as proto3 says.
inline Field field(const std::string &from, int number)
{
    Field result{number, 0, ""};
    for (const Field &found : fields(from))
        if (found.number == number)
            result = found;
    return result;
}

class Socket
{
  public:
    explicit Socket(int port)
    {
        for (int tries = 0; tries < 500; tries++) {
            fd_ = socket(AF_INET, SOCK_STREAM, 0);
            sockaddr_in to{};
            to.sin_family = AF_INET;
            to.sin_port = htons(uint16_t(port));
            to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            if (connect(fd_, reinterpret_cast<sockaddr *>(&to), sizeof to) == 0) {
                int one = 1;
                setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                greet();
                return;
            }
            ::close(fd_);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        throw std::runtime_error("nobody listens on port " + std::to_string(port));
    }
    ~Socket() { ::close(fd_); }
    Socket(const Socket &) = delete;
    Socket &operator=(const Socket &) = delete;

    /// Send a request and wait for the reply to it.
    std::string ask(const std::string &request)
    {
        send(request);
        return reply();
    }

    void send(const std::string &request) { write_all(std::string("\1\0", 2) + frame(0, request)); }

  private:
    std::string reply()
    {
        std::string last;
        for (bool more = true; more;) {
            auto flags = uint8_t(read_all(1)[0]);
            uint64_t size = 0;
            for (char byte : read_all(flags & 2 ? 8 : 1))
                size = size << 8 | uint8_t(byte);
            last = read_all(size);
            more = flags & 5; // another frame follows, or this one was a command
        }
        return last;
    }

    void greet()
    {
        std::string greeting("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16);
        greeting.resize(64);
        write_all(greeting);
        read_all(64);
        std::string ready = std::string("\5READY\13Socket-Type", 18) + std::string("\0\0\0\3REQ", 7);
        write_all(frame(4, ready));
        if ((uint8_t(read_all(1)[0]) & 4) == 0)
            throw std::runtime_error("no READY came");
        read_all(uint8_t(read_all(1)[0]));
    }

    static std::string frame(char flags, const std::string &body)
    {
        if (body.size() < 256)
            return std::string{flags, char(body.size())} + body;
        std::string head{char(flags | 2)};
        for (int shift = 56; shift >= 0; shift -= 8)
            head += char(body.size() >> shift);
        return head + body;
    }

    void write_all(const std::string &what)
    {
        for (size_t done = 0; done < what.size();) {
            ssize_t n = ::send(fd_, what.data() + done, what.size() - done, MSG_NOSIGNAL);
            if (n <= 0)
                throw std::runtime_error("the agent has closed the connection");
            done += size_t(n);
        }
    }

    std::string read_all(size_t size)
    {
        std::string what(size, 0);
        for (size_t done = 0; done < size;) {
            ssize_t n = ::read(fd_, &what[done], size - done);
            if (n <= 0)
                throw std::runtime_error("the agent has closed the connection");
            done += size_t(n);
        }
        return what;
    }

    int fd_ = -1;
};

} // namespace peer
