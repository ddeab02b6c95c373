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
  sa: "plain",
  sb: "plain",
  pa: {},
  pb: {},
  psa: {},
  psb: {},
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
  waits: [
    "Waits in switches: CUBIC with and without CoDel",
    {
      kind: "dumbbell",
      n: 4,
      flow: 3000,
      mark: 0,
      buffer: 250,
      a: "cubic",
      b: "cubic",
      sa: "codel",
      psa: { target_ns: 100000, interval_ns: 1000000 },
    },
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
  annulus: "Annulus",
  mine: "Mine",
  plain: "Plain",
  bcc: "BCC",
  codel: "CoDel",
  fq_codel: "FQ-CoDel",
  rwndq: "RWNDQ",
  qcn: "QCN",
  trim: "Trimming",
  pfc: "PFC",
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
  annulus: "DCTCP that also listens to what switches with QCN say.",
  mine: "Yours: functions in JavaScript, below the pictures.",
  plain: "Ports mark packets above the marking threshold and drop what does not fit.",
  bcc: "Marks packets also by how full the shared buffer is, so that many busy ports keep room (INFOCOM 2020).",
  codel: "Marks or drops packets that have waited too long (RFC 8289). Its times are a WAN’s: lower target and interval.",
  fq_codel: "A queue for each flow, in turn, each with CoDel (RFC 8290). Its times are a WAN’s: lower target and interval.",
  rwndq: "Writes an equal share of the path into each acknowledgement.",
  qcn: "Tells senders of sampled packets how congested the port is; Annulus listens.",
  trim: "Cuts the payload off packets that meet a long queue, so that senders learn of it at once.",
  pfc: "Pauses links in place of dropping packets; every port needs room for what is on its way.",
};
const EXAMPLE = `// AIMD: s has 13 numbers of a connection, e an event, o the decision (baselines/cc.h).
const WINDOW = 0, REDUCED = 1;
function init(s, e, o) {
  s[WINDOW] = e.init_cwnd_bytes;
  o.cwnd_bytes = s[WINDOW];
}
function on_ack(s, e, o) {
  if (e.ece && e.una_bytes > s[REDUCED]) {
    cut(s, e, e.knob / 1000); // a mark, once in each window
  } else if (!e.in_recovery) {
    s[WINDOW] += (e.mss_bytes * e.acked_bytes) / s[WINDOW]; // a packet in each round trip
  }
  o.cwnd_bytes = s[WINDOW];
}
function on_loss(s, e, o) {
  cut(s, e, 0.5);
  o.cwnd_bytes = s[WINDOW];
}
function on_timeout(s, e, o) {
  cut(s, e, 0);
  o.cwnd_bytes = s[WINDOW];
}
function on_restart(s, e, o) {
  o.cwnd_bytes = s[WINDOW];
}
function cut(s, e, factor) {
  s[WINDOW] = Math.max(s[WINDOW] * factor, e.mss_bytes);
  s[REDUCED] = e.nxt_bytes;
}
`;
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
