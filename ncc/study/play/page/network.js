// SPDX-License-Identifier: BSD-3-Clause
// The page's settings, and the network and the flows that they mean (ncc.core.topologies, ncc.core.workload).
"use strict";

// Settings: name, least, most, step, unit, the kinds of network that have them, and what the page calls them.
const SETTINGS = [
  [
    "n",
    2,
    64,
    1,
    "hosts",
    "incast rack dumbbell",
    "Senders",
    "Hosts that send. In an incast all of them answer at once.",
  ],
  ["size", 1, 2000, 1, "KB", "incast", "Answer size", "Bytes that each sender sends per question."],
  ["rounds", 1, 20, 1, "", "incast", "Questions", "How many times all senders answer."],
  ["gap", 1, 100, 1, "ms", "incast", "Time between questions", "With several questions, each comes this long after the last one."],
  ["flow", 10, 20000, 10, "KB", "dumbbell", "Flow size", "Bytes of each flow; every sender has one."],
  ["stagger", 0, 20, 0.1, "ms", "dumbbell", "Time between starts", "Flow 2 starts this long after flow 1, and so on."],
  ["load", 10, 95, 1, "%", "rack", "Load", "Share of the uplink that the flows need on average."],
  ["time", 5, 200, 1, "ms", "rack", "Time of arrivals", "Flows arrive for this long; the run ends when all are done."],
  [
    "rate",
    0.1,
    10,
    0.1,
    "Gbit/s",
    "incast rack dumbbell",
    "Link rate",
    "Rate of the links between hosts and switches.",
  ],
  ["uplink", 0.1, 10, 0.1, "Gbit/s", "rack dumbbell", "Bottleneck rate", "Rate of the link that all senders share."],
  [
    "delay",
    1,
    100,
    1,
    "µs",
    "incast rack dumbbell",
    "Delay of a link",
    "Travel time of a bit over each link, one way.",
  ],
  [
    "buffer",
    5,
    2000,
    1,
    "KB",
    "incast rack dumbbell",
    "Buffer of a port",
    "Bytes that each switch port can hold by itself.",
  ],
  [
    "mark",
    0,
    1000,
    1,
    "KB",
    "incast rack dumbbell",
    "Marking threshold",
    "Queue above which packets are marked; 0: no marks.",
  ],
  [
    "shared",
    0,
    4000,
    10,
    "KB",
    "incast rack dumbbell",
    "Shared buffer",
    "Bytes that all ports of a switch share; 0: none.",
  ],
  [
    "alpha",
    0.25,
    8,
    0.25,
    "",
    "incast rack dumbbell",
    "Alpha of sharing",
    "A port may hold alpha times the free bytes of a shared buffer; without one, alpha is not used.",
  ],
  [
    "period",
    20,
    2000,
    10,
    "µs",
    "incast rack dumbbell",
    "Decision period",
    "Time between two decisions of NCC and of formulas.",
  ],
  ["seed", 0, 9, 1, "", "incast rack dumbbell", "Seed", "Number that fixes what is random."],
];
const KINDS = { incast: "Incast: all answer one", rack: "Rack with an uplink", dumbbell: "Dumbbell: one shared link" };
const NS = 1e9,
  HEADER = 40,
  KB = 1000;

const sum = (values) => values.reduce((total, value) => total + value, 0);
const own = (table, key) => Object.prototype.hasOwnProperty.call(table, key);

function settingsOf(kind) {
  return SETTINGS.filter((setting) => setting[5].split(" ").includes(kind));
}

// Throws an error in words unless the settings can be run.
function check(state, facts) {
  if (!own(KINDS, state.kind)) {
    throw new Error(`There is no network called "${state.kind}"; there are ${Object.keys(KINDS).join(", ")}.`);
  }
  for (const [name, least, most, , unit, , title] of settingsOf(state.kind)) {
    const value = state[name];
    if (typeof value !== "number" || !(value >= least && value <= most)) {
      throw new Error(`${title} must be from ${least} to ${most}${unit && " " + unit}, and is ${value}.`);
    }
    if (["n", "rounds", "seed"].includes(name) && !Number.isInteger(value)) {
      throw new Error(`${title} must be a whole number, and is ${value}.`);
    }
  }
  for (const side of ["a", "b"]) {
    const known = facts.contenders.map((contender) => contender.name);
    if (!known.includes(state[side])) {
      throw new Error(`There is no controller called "${state[side]}"; there are ${known.join(", ")}.`);
    }
    const { params, marks } = facts.contenders.find((contender) => contender.name === state[side]);
    if (marks && bytes(state.mark) === 0) {
      throw new Error(`${state[side]} needs marked packets: raise the marking threshold above 0.`);
    }
    for (const [name, value] of Object.entries(state["p" + side] || {})) {
      const param = params.find((one) => one.name === name);
      if (!param) {
        throw new Error(`${state[side]} has no parameter called "${name}".`);
      }
      if (!Number.isInteger(value) || value < param.min || value > param.max) {
        throw new Error(`${name} of ${state[side]} must be a whole number from ${param.min} to ${param.max}.`);
      }
    }
  }
  if (state.a === state.b) {
    throw new Error("Both sides have the same controller: choose another one on one side.");
  }
  const reach = reachBytes(state);
  if (bytes(state.mark) >= reach) {
    throw new Error(`The marking threshold must be below what a queue can hold (${reach / KB} KB): lower it.`);
  }
  if (state.period * 1e-6 > durationS(state)) {
    throw new Error("The decision period must not be longer than the time in which flows arrive.");
  }
}

const bytes = (kb) => Math.round(kb * KB);
const rateOf = (gbps) => Math.round(gbps * 1e6) * 1e3;
const periodS = (state) => Math.round(state.period * 1e3) / NS;
const delayNs = (state) => Math.round(state.delay * 1e3);
const gapNs = (state) => Math.round(state.gap * 1e6);
const uplinkBps = (state) => rateOf(state.kind === "incast" ? state.rate : state.uplink);

function durationS(state) {
  const all = {
    incast: (state.rounds * gapNs(state)) / 1e6,
    rack: state.time,
    dumbbell: Math.max(state.n * state.stagger, 1) + 1,
  };
  return Math.round(all[state.kind] * 1e6) / NS;
}

// Longest queue of a port, while no other port uses the shared buffer.
function reachBytes(state) {
  const shared = bytes(state.shared);
  return bytes(state.buffer) + (shared ? Math.floor((shared * state.alpha) / (1 + state.alpha)) : 0);
}

// Nodes, links, and the hosts that send. Ports are numbered two for each link: from a to b, and from b to a.
function networkOf(state) {
  const hostBps = rateOf(state.rate),
    upBps = uplinkBps(state);
  const net = { names: [], isHost: [], links: [], pools: [], poolOf: {}, senders: [], receivers: [] };
  const node = (name, host) => net.names.push(name) && net.isHost.push(host ? 1 : 0) - 1;
  const port = (at) => {
    const queue = { buffer_bytes: bytes(state.buffer), threshold_bytes: bytes(state.mark) };
    if (bytes(state.shared)) {
      if (!own(net.poolOf, at)) {
        net.poolOf[at] = net.pools.push({ size_bytes: bytes(state.shared), alpha: state.alpha }) - 1;
      }
      queue.pool = net.poolOf[at];
    }
    return queue;
  };
  const link = (a, b, rate, queues) =>
    net.links.push({ a, b, rate_bps: rate, delay_ns: delayNs(state), queue: queues }) - 1;
  const leaf = (name, at, rate) => {
    const host = node(name, true);
    link(host, at, rate, [{}, port(at)]);
    return host;
  };
  const leaves = (prefix, n, at, rate) => Array.from({ length: n }, (_, i) => leaf(prefix + i, at, rate));
  if (state.kind === "incast") {
    const tor = node("tor", false);
    net.receivers = [leaf("receiver", tor, hostBps)];
    net.uplink = 1;
    net.senders = leaves("s", state.n, tor, hostBps);
  } else {
    const rack = state.kind === "rack";
    const left = node(rack ? "tor" : "left", false),
      right = node(rack ? "core" : "right", false);
    net.uplink = 2 * link(left, right, upBps, [port(left), port(right)]);
    net.senders = leaves(rack ? "h" : "s", state.n, left, hostBps);
    net.receivers = leaves("r", rack ? 4 : state.n, right, rack ? upBps : hostBps);
  }
  net.linkOf = {};
  net.links.forEach((one, i) => [one.a, one.b].forEach((end) => net.isHost[end] && (net.linkOf[end] = i)));
  net.downPort = (host) => 2 * net.linkOf[host] + (net.links[net.linkOf[host]].a === host ? 1 : 0);
  net.rateOf = (p) => net.links[p >> 1].rate_bps;
  net.path = (src, dst) => {
    const first = 2 * net.linkOf[src] + (net.links[net.linkOf[src]].a === src ? 0 : 1);
    return state.kind === "incast"
      ? [first, net.downPort(dst)]
      : [first, net.senders.includes(src) ? net.uplink : net.uplink + 1, net.downPort(dst)];
  };
  return net;
}

// Flows in order of start: start in ns, nodes of sender and receiver, bytes.
function flowsOf(state, net, facts) {
  const rows = [],
    lastNs = Math.ceil(durationS(state) * NS) - 1;
  const at = (ns) => Math.min(Math.round(ns), lastNs);
  if (state.kind === "incast") {
    for (let round = 0; round < state.rounds; ++round) {
      net.senders.forEach((src) =>
        rows.push([at(round * gapNs(state)), src, net.receivers[0], bytes(state.size)]),
      );
    }
  } else if (state.kind === "dumbbell") {
    net.senders.forEach((src, i) => rows.push([at(i * state.stagger * 1e6), src, net.receivers[i], bytes(state.flow)]));
  } else {
    const drawn = facts.drawn.flows[state.seed],
      slower = facts.drawn.rate_bps / ((state.load / 100) * uplinkBps(state));
    for (let k = 0; k < drawn.length && Math.round(drawn[k] * slower) <= lastNs; k += 4) {
      rows.push([
        at(drawn[k] * slower),
        net.senders[drawn[k + 1] % state.n],
        net.receivers[drawn[k + 2]],
        drawn[k + 3],
      ]);
    }
    if (!rows.length) {
      throw new Error("No flow arrives in this time: raise the load, the rate, the time, or choose another seed.");
    }
  }
  return rows;
}

const wireBytes = (facts) => facts.spec.mtu_bytes + facts.spec.frame_overhead_bytes;

// Time of one IP packet through the empty network, in ns.
function oneWayNs(net, facts, src, dst, packetBytes) {
  const wire = packetBytes + facts.spec.frame_overhead_bytes,
    ports = net.path(src, dst);
  return (
    sum(ports.map((p) => net.links[p >> 1].delay_ns)) + sum(ports.map((p) => Math.floor((wire * 8e9) / net.rateOf(p))))
  );
}

function baseRttS(net, facts) {
  const src = net.senders[0];
  const rtt = (dst) =>
    (oneWayNs(net, facts, src, dst, facts.spec.mtu_bytes) + oneWayNs(net, facts, dst, src, HEADER)) / NS;
  return Math.max(...net.receivers.map(rtt));
}
