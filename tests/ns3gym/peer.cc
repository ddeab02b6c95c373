// SPDX-License-Identifier: BSD-3-Clause
// A simulation that takes no library: each step it draws a level, shows it, and pays for actions near it. It speaks
// ns3-gym's protocol as ns-3's scripts do, in every kind of space, and fails in every way that they can.
//   peer --openGymPort=5555 [--simSeed=1] [--steps=50] [--actions=5] [--spaces=discrete|box|dict] [--end=time|game]
//        [--fault=exit|crash|hang|garbage|again|short@STEP]
#include <csignal>

#include "zmtp.h"

namespace
{

using peer::field;
using peer::fields;
using peer::Message;

enum Type { kDiscrete = 1, kBox = 2, kTuple = 3, kDict = 4 };
enum Dtype { kInt = 1, kUint = 2, kFloat = 3, kDouble = 4 };

struct Options {
    int port = 5555, seed = 1, steps = 50, actions = 5, fault_at = -1;
    std::string spaces = "discrete", end = "time", fault;
};

Options parse(int argc, char **argv)
{
    Options o;
    for (int i = 1; i < argc; i++) {
        std::string word = argv[i];
        size_t is = word.find('=');
        std::string name = word.substr(0, is), value = is == std::string::npos ? "" : word.substr(is + 1);
        if (name == "--openGymPort") {
            o.port = std::stoi(value);
        } else if (name == "--simSeed") {
            o.seed = int(std::stoll(value));
        } else if (name == "--steps") {
            o.steps = std::stoi(value);
        } else if (name == "--actions") {
            o.actions = std::stoi(value);
        } else if (name == "--spaces") {
            o.spaces = value;
        } else if (name == "--end") {
            o.end = value;
        } else if (name == "--fault") {
            o.fault = value.substr(0, value.find('@'));
            o.fault_at = std::stoi(value.substr(value.find('@') + 1));
        } else {
            throw std::runtime_error("unknown argument " + word);
        }
    }
    return o;
}

Message discrete_space(int n) { return Message().number(1, kDiscrete).any(2, "DiscreteSpace", Message().number(1, n)); }

Message box_space(float low, float high, Dtype dtype, uint64_t size)
{
    Message box = Message().real(1, low).real(2, high).number(3, dtype).numbers(4, {size});
    return Message().number(1, kBox).any(2, "BoxSpace", box);
}

Message discrete(uint64_t value)
{
    return Message().number(1, kDiscrete).any(2, "DiscreteDataContainer", Message().number(1, value));
}

Message floats(const std::vector<float> &values)
{
    Message inner = Message().number(1, kFloat).numbers(2, {values.size()}).reals(5, values);
    return Message().number(1, kBox).any(2, "BoxDataContainer", inner);
}

Message uints(const std::vector<uint64_t> &values)
{
    Message inner = Message().number(1, kUint).numbers(2, {values.size()}).numbers(4, values);
    return Message().number(1, kBox).any(2, "BoxDataContainer", inner);
}

/// The message within a container's Any.
std::string unpacked(const std::string &container) { return field(field(container, 2).text, 2).text; }

class Simulation
{
  public:
    explicit Simulation(const Options &o) : o_(o), random_(uint32_t(o.seed) * 2654435761U + 1), socket_(o.port) {}

    void run()
    {
        Message act_space = discrete_space(o_.actions), obs_space = box_space(0, 1, kFloat, 2);
        if (o_.spaces == "box")
            act_space = box_space(0, 1, kDouble, 1);
        if (o_.spaces == "dict") {
            Message pair = Message().part(1, box_space(0, 1e9F, kUint, 2)).part(1, discrete_space(2));
            Message dict = Message().part(1, box_space(0, 1, kFloat, 2).text(3, "level"));
            dict.part(1, Message().number(1, kTuple).any(2, "TupleSpace", pair).text(3, "more"));
            obs_space = Message().number(1, kDict).any(2, "DictSpace", dict);
            Message both = Message().part(1, discrete_space(o_.actions)).part(1, box_space(0, 1, kFloat, 1));
            act_space = Message().number(1, kTuple).any(2, "TupleSpace", both);
        }
        Message hello = Message().number(1, uint64_t(getpid())).number(2, uint64_t(getppid()));
        hello.part(3, obs_space).part(4, act_space);
        std::string ack = socket_.ask(hello.bytes());
        if (field(ack, 2).value)
            return;
        float reward = 0;
        for (int step = 0;; step++) {
            bool over = step == o_.steps;
            draw();
            if (step == o_.fault_at)
                fail(hello);
            Message state = Message().part(1, observation(step));
            if (reward != 0)
                state.real(2, reward);
            if (over)
                state.number(3, 1);
            if (over && o_.end == "game")
                state.number(4, 1);
            state.text(5, "step=" + std::to_string(step) + " seed=" + std::to_string(uint32_t(o_.seed)));
            std::string act = socket_.ask(state.bytes());
            if (over || field(act, 2).value)
                return;
            reward = paid(field(act, 1).text);
        }
    }

  private:
    Message observation(int step) const
    {
        std::vector<float> shown{float(level_) / float(o_.actions - 1), float(step) / float(o_.steps)};
        if (o_.fault == "short" && step == o_.fault_at)
            shown.pop_back();
        if (o_.spaces != "dict")
            return floats(shown);
        Message pair =
            Message().part(1, uints({uint64_t(step), uint64_t(level_)})).part(1, discrete(uint64_t(step % 2)));
        Message more = Message().number(1, kTuple).any(2, "TupleDataContainer", pair).text(3, "more");
        Message dict = Message().part(1, floats(shown).text(3, "level")).part(1, more);
        return Message().number(1, kDict).any(2, "DictDataContainer", dict);
    }

    /// 1 for the level itself, less the farther from it.
    float paid(const std::string &action) const
    {
        float chosen = 0;
        if (o_.spaces == "discrete")
            chosen = float(field(unpacked(action), 1).value) / float(o_.actions - 1);
        if (o_.spaces == "box")
            chosen = first_real(unpacked(action));
        if (o_.spaces == "dict") {
            auto parts = fields(unpacked(action));
            if (parts.size() != 2)
                throw std::runtime_error("an action of two parts was to come");
            float whole = float(field(unpacked(parts[0].text), 1).value) / float(o_.actions - 1);
            chosen = (whole + first_real(unpacked(parts[1].text))) / 2;
        }
        return 1 - std::abs(chosen - float(level_) / float(o_.actions - 1));
    }

    static float first_real(const std::string &box)
    {
        float value = 0;
        std::string data = field(box, 5).text;
        if (data.size() != sizeof value || field(box, 1).value != kFloat)
            throw std::runtime_error("a float was to come");
        std::memcpy(&value, data.data(), sizeof value);
        return value;
    }

    void draw()
    {
        random_ = random_ * 1664525U + 1013904223U;
        level_ = int((random_ >> 8) % uint32_t(o_.actions));
    }

    void fail(const Message &hello)
    {
        if (o_.fault == "exit")
            std::exit(3);
        if (o_.fault == "crash")
            raise(SIGSEGV);
        if (o_.fault == "hang")
            pause();
        if (o_.fault == "garbage")
            socket_.ask("\xff\xff this is no message");
        if (o_.fault == "again")
            socket_.ask(hello.bytes());
    }

    Options o_;
    uint32_t random_;
    int level_ = 0;
    peer::Socket socket_;
};

} // namespace

int main(int argc, char **argv)
{
    try {
        Simulation(parse(argc, argv)).run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "peer: %s\n", error.what());
        return 1;
    }
    return 0;
}
