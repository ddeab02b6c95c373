// SPDX-License-Identifier: BSD-3-Clause
// Settings to start from, and names for the page.
"use strict";

const BASE = {
  kind: "incast",
  n: 32,
  size: 32,
  rounds: 1,
  gap: 20,
  flow: 2000,
  stagger: 1,
  load: 80,
  time: 50,
  rate: 1,
  uplink: 1,
  delay: 10,
  buffer: 100,
  mark: 30,
  shared: 0,
  alpha: 1,
  period: 100,
  seed: 0,
  a: "ncc",
  b: "dctcp",
  pa: {},
  pb: {},
};
const PRESETS = {
  incast: ["Incast: 32 answers at once", {}],
  marking: [
    "Marking threshold: DCTCP and CUBIC",
    { kind: "dumbbell", n: 4, flow: 3000, mark: 30, buffer: 250, a: "dctcp", b: "cubic" },
  ],
  sharing: [
    "Buffer sharing: 24 answers, a shared pool",
    { n: 24, size: 64, buffer: 20, mark: 0, shared: 400, a: "newreno", b: "cubic" },
  ],
  order: ["Order of flows: a rack, short flows first", { kind: "rack", n: 16, load: 80, time: 100, buffer: 250 }],
  two: ["Two flows share one link", { kind: "dumbbell", n: 2, flow: 5000, stagger: 3, a: "dctcp", b: "cubic" }],
  late: [
    "Where DCTCP is ahead: decisions come too late",
    { n: 2, size: 26, rate: 0.5, delay: 27, buffer: 800, mark: 240, period: 1000 },
  ],
  fair: ["Where DCTCP is ahead: equal shares of long flows", { kind: "dumbbell", n: 4, flow: 4000, stagger: 0 }],
};
const NAMES = {
  ncc: "NCC",
  local_both: "Formula at both ends",
  local: "Formula LOCAL",
  dctcp: "DCTCP",
  cubic: "CUBIC",
  bbr: "BBR",
  vegas: "Vegas",
  gemini: "GEMINI",
  newreno: "NewReno",
  dcqcn: "DCQCN",
};
const ABOUT = {
  ncc: "Learned. Hosts share what they have to send, a policy limits their rates, and receivers say who starts when.",
  local_both: "As NCC, with a formula in place of the learned policy.",
  local: "A formula limits the rates of hosts: the shortest flow first.",
  dctcp: "Shrinks its window by the share of marked packets (RFC 8257).",
  cubic: "Grows until packets are marked or lost; the default of Linux (RFC 9438).",
  bbr: "Sends at the rate that the path was seen to carry.",
  vegas: "Keeps a few packets in the queue, by the round-trip time.",
  gemini: "Reacts to marks inside a datacentre and to delay between datacentres.",
  newreno: "Grows by a packet in each round trip and halves at a mark or a loss (RFC 6582).",
  dcqcn: "Sets a rate by marks, as network cards for RDMA do.",
};
const ROWS = [
  ["fct_mean_s", "Mean completion time", -1],
  ["fct_p99_s", "99th percentile of it", -1],
  ["slowdown_all_mean", "Mean slowdown (1 is ideal)", -1],
  ["queue_delay_mean_s", "Mean wait in the queue", -1],
  ["loss_frac", "Packets lost", -1],
  ["retransmit_frac", "Packets sent again", -1],
  ["timeouts_per_flow", "Timeouts per flow", -1],
  ["mark_frac", "Packets marked", 0],
  ["jain", "Jain’s index", 1],
  ["unfinished", "Flows not finished", -1],
];
const SPEEDS = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1];
