// SPDX-License-Identifier: BSD-3-Clause
// Settings of the engine for a run of one contender. The formulas are those of
// ncc.envs.native.spec, ncc.envs.observation.columns and ncc.harness.receivers.
"use strict";

// Returns sentences, one for each range of the policy that the network is outside of.
function outside(state, net, facts) {
  const within = facts.policy.within,
    period = periodS(state),
    reach = reachBytes(state);
  const values = [
    ["hosts", state.n, "the number of hosts"],
    ["uplink_frac", uplinkBps(state) / rateOf(state.rate), "the bottleneck's rate over a host's"],
    ["rtt_periods", baseRttS(net, facts) / period, "the round-trip time in periods"],
    ["buffer_periods", reach / ((uplinkBps(state) * period) / 8), "the buffer in periods"],
  ];
  return values
    .filter(([name, value]) => value < within[name][0] * (1 - 1e-6) || value > within[name][1] * (1 + 1e-6))
    .map(
      ([name, value, words]) =>
        `${words} is ${Number(value.toPrecision(3))}, and the policy is trusted with ${within[name][0]} to ${within[name][1]}`,
    );
}

// Parameters of the observer of equal hosts, as columns.py makes them.
function tablesOf(state, net, facts) {
  const policy = facts.policy,
    n = state.n,
    link = rateOf(state.rate),
    uplink = uplinkBps(state),
    period = periodS(state);
  const reach = reachBytes(state),
    mtu = facts.spec.mtu_bytes,
    rtt = baseRttS(net, facts);
  const units = { one: 1, link_rate: 1 / link, uplink_rate: 1 / uplink, base_rtt: 1 / rtt, period: 1 / period };
  units.link_bytes = 8 / (link * period);
  units.mtu = 1 / mtu;
  const out = { cut: [], unit: [], offset: [], least: [], most: [], gain: [] },
    first = {},
    columns = [];
  let at = 0;
  for (const column of policy.columns) {
    const size = column.uplink ? 1 : n,
      logarithmic = column.scale !== null;
    const gain = logarithmic ? 1 / Math.log1p(column.scale === "buffer" ? reach / mtu : column.scale) : 1;
    const row = {
      cut: column.cut ? link : Infinity,
      unit: units[column.unit],
      offset: logarithmic ? 1 - column.minus : 0,
      least: logarithmic ? Math.exp(policy.low / gain) : policy.low,
      most: logarithmic ? Math.exp(policy.high / gain) : policy.high,
      gain,
    };
    first[column.name] = at;
    columns.push([column.signal, column.over, at, size, logarithmic ? 1 : 0]);
    Object.keys(out).forEach((name) => out[name].push(...Array(size).fill(row[name])));
    at += size;
  }
  const upper = policy.columns.filter((column) => column.uplink).map((column) => column.name);
  const share = Math.min(uplink / (n * link), 1);
  const constants = {
    static_share: Math.max(1 + Math.log(share) / Math.log(100), policy.low),
    period: Math.log1p(period / rtt) / Math.log1p(100),
    buffer: Math.log1p((reach * 8) / (uplink * period)) / Math.log1p(100),
  };
  const place = (names, name) => Math.max(names.indexOf(name), 0);
  const all = (value) => Array(n).fill(value);
  const near = Array.from({ length: n }, (_, i) =>
    Array.from({ length: n - 1 }, (_unused, j) => (i + 1 + j) % n),
  ).flat();
  return {
    ...policy.tables,
    ...out,
    n,
    neighbours: n - 1,
    size: at,
    columns,
    near,
    entries: policy.entries.map(([kind, of]) => [
      kind,
      first[of] || 0,
      place(policy.shared, of),
      place(upper, of),
      place(Object.keys(constants), of),
      0,
    ]),
    area: all(0),
    lies: all(0),
    uplink_frac: all(uplink / link),
    links: Array(n * (n - 1)).fill(1),
    constants: Object.values(constants).map(all),
    shared: policy.shared.map((name) => first[name]),
    uplink: upper.map((name) => first[name]),
    next: first.next,
    flows: first.flows,
    queue_log: all(Math.log1p(reach / mtu)),
    queue_unit: all(mtu / ((uplink * period) / 8)),
  };
}

function limiterOf(state, net, facts, contender, trusted) {
  const link = rateOf(state.rate),
    frac = uplinkBps(state) / link,
    policy = facts.policy;
  if (contender.limit.kind === "local") {
    return { ...contender.limit, period_s: periodS(state), uplink_bps: uplinkBps(state), link_bps: link };
  }
  if (contender.limit.kind !== "policy") {
    return { kind: "none" };
  }
  const all = (value) => Array(state.n).fill(value);
  const held = 0.1 * policy.rates.use_frac * frac;
  const rates = { ...policy.rates, link_bps: all(link), held: all(held), port: all(Math.min(frac, 1)), trusted };
  const { layers, weights, signals } = policy;
  return { kind: "policy", tables: tablesOf(state, net, facts), rates, layers, weights, signals };
}

// Returns the settings of receivers beside a limiter (`WithReceivers`).
function receiversOf(state, net, facts, contender, countsHeld) {
  const rule = contender.receivers,
    constants = facts.receivers,
    reach = reachBytes(state),
    period = periodS(state);
  const overflows = (port, timeS) => reach * 8 < net.rateOf(port) * timeS;
  const byNode = (value) => net.isHost.map((host, node) => (host ? value(node) : 0));
  const turnS = (host) => {
    const { delay_ns, rate_bps } = net.links[net.linkOf[host]];
    const wire = facts.spec.mtu_bytes + HEADER + 2 * facts.spec.frame_overhead_bytes;
    return 2 * ((2 * delay_ns) / NS + (8 * wire) / rate_bps);
  };
  const granting = byNode((host) =>
    contender.stack.answer_frac !== null && overflows(net.downPort(host), period + turnS(host)) ? 0 : 1,
  );
  const host = net.receivers.find((one) => net.downPort(one) === net.uplink);
  const crowded = host !== undefined && granting[host] && state.n > constants.crowd;
  return {
    rule: {
      ...rule,
      ...constants,
      by_arrival: rule.order === "arrival",
      period_s: period,
      mss_bytes: facts.spec.mtu_bytes - HEADER,
      extra_bytes: HEADER + facts.spec.frame_overhead_bytes,
      mtu_bytes: facts.spec.mtu_bytes,
      link_bps: byNode((one) => net.links[net.linkOf[one]].rate_bps),
      rate_bps: byNode((one) => net.rateOf(net.downPort(one))),
      buffer_bytes: byNode(() => reach),
    },
    granting,
    masks_held: !countsHeld,
    receiver_starts: countsHeld && host !== undefined && !overflows(net.uplink, constants.deep_periods * period),
    receiver_alone: Boolean(!countsHeld && host !== undefined && (crowded || overflows(net.uplink, period))),
  };
}

// Returns the settings of the engine for one side, "a" or "b", and the facts that the page shows beside them.
function planOf(state, facts, side) {
  const net = networkOf(state),
    flows = flowsOf(state, net, facts),
    reach = reachBytes(state),
    equipped = equip(net, state, side, facts);
  const contender = chosen(state, side, facts),
    { stack } = contender;
  const doubts = contender.limit.kind === "policy" ? outside(state, net, facts) : [];
  const countsHeld = contender.limit.kind === "policy" && !doubts.length,
    period = periodS(state);
  const wire = wireBytes(facts) / (facts.spec.mtu_bytes - HEADER),
    given = state["p" + side];
  const answer = (host) => ({
    ahead_bytes: stack.answer_frac * reach,
    ns_per_byte: (wire * 8 * NS) / net.rateOf(net.downPort(host)),
  });
  const slowest = Math.min(...net.links.map((one) => one.rate_bps));
  const spec = {
    ...facts.spec,
    is_host: net.isHost,
    links: net.links,
    pools: net.pools,
    ...equipped,
    flows: flows.flat(),
    agents: net.senders,
    uplinks: [net.uplink],
    period_ns: Math.round(period * NS),
    seed: facts.seeds[state.seed],
    transport: stack.transport,
    order: stack.order,
    order_params: stack.order_params,
    params: [...stack.params.filter(([name]) => !own(given, name)), ...Object.entries(given)],
    receivers: contender.receivers !== null,
    hold: stack.hold,
    answers: stack.answer_frac === null ? [] : net.isHost.map((host, node) => (host ? answer(node) : {})),
    patience_ns: Math.round(2 * period * NS),
    queue_ns: Math.round(((reach * 8) / slowest) * NS),
  };
  const endS = durationS(state) + facts.drain_s;
  return {
    net,
    flows,
    doubts,
    contender,
    settings: {
      spec,
      limiter: limiterOf(state, net, facts, contender, !doubts.length),
      last_epoch: Math.ceil(endS / period - 1e-9),
      ...(contender.receivers ? receiversOf(state, net, facts, contender, countsHeld) : {}),
    },
  };
}
