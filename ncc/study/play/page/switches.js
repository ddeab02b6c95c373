// SPDX-License-Identifier: BSD-3-Clause
// Switches beyond marking above a threshold: BCC (ncc.core.bcc), and programs of ports (ncc.envs.native.program_checks).
"use strict";

// The parameters of the switches of a side: those that are given, and defaults.
function switchParams(state, side, facts) {
  const { params } = chosen(state, "s" + side, facts);
  return { ...Object.fromEntries(params.map((one) => [one.name, one.default])), ...state["ps" + side] };
}

// BCC's settings by the names of `Bcc`.
function bccOf(state, side, net, facts) {
  const given = switchParams(state, side, facts);
  return {
    rtt_s: (given.rtt_ns || Math.round(baseRttS(net, facts) * NS)) / NS,
    lambda_bdp: given.lambda_permille / 1000,
    spread_s: given.spread_ns / NS,
    max_prob_frac: given.max_prob_permille / 1000,
  };
}

// The thresholds of a pool that ports of these rates share (eq. 2 and 3 of Bai et al. 2020); `kmin` may be negative.
function bccThresholds(state, side, net, facts, rates) {
  const bcc = bccOf(state, side, net, facts),
    whole = (value) => BigInt(Math.round(value)),
    rate = whole(Math.max(...rates) / 8),
    ns = whole(NS);
  const bdp = (rate * whole(bcc.rtt_s * NS)) / ns,
    needed = bdp + (bdp * whole(bcc.lambda_bdp * 1000)) / 1000n - whole(bytes(state.buffer)),
    alpha = whole(state.alpha * 1024),
    kept = ((needed > 0n ? needed : 0n) * 1024n + alpha - 1n) / alpha;
  const high = Number(whole(bytes(state.shared)) - kept);
  return { low: high - Number((rate * whole(rates.length) * whole(bcc.spread_s * NS)) / ns), high };
}

// Rates of the ports of each pool.
function poolRates(net) {
  const rates = net.pools.map(() => []);
  net.links.forEach((link) => link.queue.forEach(({ pool }) => pool >= 0 && rates[pool].push(link.rate_bps)));
  return rates;
}

// Throws an error in words unless the switches of a side can be run.
function checkSwitch(state, side, facts) {
  const { name, orders, pauses, program } = chosen(state, "s" + side, facts),
    { marks } = chosen(state, side, facts);
  if (marks && bytes(state.mark) === 0 && name === "plain") {
    throw new Error(`${state[side]} needs marked packets: raise the marking threshold above 0.`);
  }
  if (name === "plain") {
    return;
  }
  const shared = bytes(state.shared),
    net = networkOf(state);
  if (!program && !shared) {
    throw new Error(`${name} marks packets by how full a shared buffer is: raise “Shared buffer” above 0.`);
  }
  if (!program) {
    for (const rates of poolRates(net)) {
      const { low, high } = bccThresholds(state, side, net, facts, rates);
      if (low < 0 || low === high) {
        throw new Error(`${name} leaves no room in the shared buffer: raise “Shared buffer”, or lower spread_ns.`);
      }
    }
  }
  if ((orders || pauses) && shared) {
    throw new Error(`${name} needs ports with buffers of their own: set “Shared buffer” to 0.`);
  }
  if (pauses) {
    const { xoff_bytes: xoff } = switchParams(state, side, facts),
      { mtu_bytes: mtu, frame_overhead_bytes: overhead } = facts.spec;
    const brings = (link) =>
      xoff + ((2 * link.delay_ns) / NS) * (link.rate_bps / 8) + 3 * mtu + 2 * (facts.pause_bytes + overhead);
    net.isHost.forEach((host, node) => {
      const all = net.links.filter(({ a, b }) => !host && (a === node || b === node)).map(brings),
        most = Math.ceil(sum(all) - Math.min(...all));
      if (!host && most > bytes(state.buffer)) {
        const kb = Math.ceil(most / KB);
        throw new Error(`${name} needs room for all that is on its way: raise “Buffer of a port” to ${kb} KB.`);
      }
    });
  }
}

// Gives the switches of a network what a side has chosen; returns the settings of the engine for it.
function equip(net, state, side, facts) {
  const { name, program, symmetric } = chosen(state, "s" + side, facts);
  if (!program) {
    poolRates(net).forEach((rates, i) => {
      if (name === "bcc") {
        const { low, high } = bccThresholds(state, side, net, facts, rates);
        const red_max_prob = bccOf(state, side, net, facts).max_prob_frac;
        Object.assign(net.pools[i], { red_min_bytes: low, red_max_bytes: high, red_max_prob });
      }
    });
    return { programs: [] };
  }
  net.links.forEach((link) => link.queue.forEach((queue) => own(queue, "buffer_bytes") && (queue.programs = 0)));
  return { programs: [{ name, params: Object.entries(state["ps" + side]) }], symmetric };
}

// The words of a command that give switches what a side has chosen.
function switchWords(state, side, facts) {
  const { name, program, symmetric } = chosen(state, "s" + side, facts);
  if (name === "plain") {
    return "";
  }
  if (!program) {
    const fields = Object.entries(bccOf(state, side, networkOf(state), facts));
    return ` "scenario.topology.bcc={${fields.map(([key, value]) => `${key}: ${value.toFixed(9)}`).join(", ")}}"`;
  }
  const params = Object.entries(state["ps" + side]).map(([key, value]) => `[${key}, ${value}]`);
  const given = params.length ? `, params: [${params.join(", ")}]` : "";
  return ` "scenario.topology.programs=[{name: ${name}${given}}]"${symmetric ? " scenario.routing=symmetric" : ""}`;
}
