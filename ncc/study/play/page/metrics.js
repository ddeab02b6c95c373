// SPDX-License-Identifier: BSD-3-Clause
// The metrics of a run, as ncc.metrics.summary, ncc.metrics.fairness and ncc.metrics.fluid define them.
"use strict";

function percentile(values, share) {
  const sorted = [...values].sort((x, y) => x - y),
    at = (sorted.length - 1) * share,
    low = Math.floor(at);
  const high = Math.min(low + 1, sorted.length - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - low);
}
const mean = (values) => sum(values) / values.length;

// Ideal completion times in seconds: alone in the empty network, without windows and queues (ncc.metrics.fct).
function idealS(plan, facts) {
  const { net, flows } = plan,
    mss = facts.spec.mtu_bytes - HEADER;
  return flows.map(([, src, dst, size]) => {
    const ports = net.path(src, dst),
      count = Math.ceil(size / mss);
    const each = (wire) => ports.map((p) => Math.floor((wire * 8e9) / net.rateOf(p)));
    const last = each(size - (count - 1) * mss + HEADER + facts.spec.frame_overhead_bytes),
      full = each(wireBytes(facts));
    let longest = sum(last);
    if (count > 1) {
      longest = Math.max(
        ...full.map(
          (_, k) => sum(full.slice(0, k + 1)) + (count - 2) * Math.max(...full.slice(0, k + 1)) + sum(last.slice(k)),
        ),
      );
    }
    const delays = sum(ports.map((p) => net.links[p >> 1].delay_ns));
    const handshake = oneWayNs(net, facts, src, dst, HEADER) + oneWayNs(net, facts, dst, src, HEADER);
    return (delays + longest + handshake) / NS;
  });
}

// Rates when the flow with the fewest bits left takes all that its path still has, then the next one.
function srptRates(paths, capacity, left) {
  const room = capacity.slice(),
    rates = Array(paths.length).fill(0);
  const turn = paths.map((_, i) => i).sort((x, y) => left[x] - left[y] || x - y);
  for (const i of turn) {
    const take = Math.min(...paths[i].map((p) => room[p]));
    if (take > 0) {
      rates[i] = take;
      paths[i].forEach((p) => (room[p] -= take));
    }
  }
  return rates;
}

// Mean completion time in seconds under the SRPT bound.
function srptMeanS(plan, facts, ideal) {
  const { net, flows } = plan,
    n = flows.length,
    mss = facts.spec.mtu_bytes - HEADER;
  const capacity = Array.from({ length: 2 * net.links.length }, (_, p) => net.rateOf(p));
  const paths = flows.map(([, src, dst]) => net.path(src, dst));
  const bits = flows.map(
    ([, , , size]) => (size + Math.ceil(size / mss) * (HEADER + facts.spec.frame_overhead_bytes)) * 8,
  );
  const left = bits.slice(),
    took = Array(n).fill(0),
    starts = flows.map(([start]) => start / NS);
  let active = [],
    arrived = 0,
    now = 0,
    idle = 0;
  while (arrived < n || active.length) {
    if (!active.length) {
      idle = starts[arrived];
      now = 0;
    }
    while (arrived < n && starts[arrived] - idle <= now) {
      active.push(arrived++);
    }
    const rates = srptRates(
      active.map((i) => paths[i]),
      capacity,
      active.map((i) => left[i]),
    );
    const lasts = active.map((i, k) => left[i] / rates[k]);
    let step = Math.min(...lasts),
      ends = lasts.map((one) => one <= step);
    if (arrived < n && starts[arrived] - idle - now < step) {
      step = starts[arrived] - idle - now;
      ends = ends.map(() => false);
      now = starts[arrived] - idle;
    } else {
      now += step;
    }
    active.forEach((i, k) => {
      left[i] -= rates[k] * step;
      if (ends[k] || left[i] <= 1e-3 + 1e-12 * bits[i]) {
        left[i] = 0;
        took[i] = now - (starts[i] - idle);
      }
    });
    active = active.filter((i) => left[i] > 0);
  }
  const alone = bits.map((of, i) => of / Math.min(...paths[i].map((p) => capacity[p])));
  return mean(took.map((of, i) => ideal[i] + Math.max(of - alone[i], 0)));
}

// Mean Jain index of goodput among hosts that are backlogged for a whole window of 20 ms; NaN if there is none.
function jainOf(plan, result, period) {
  const n = plan.net.senders.length,
    per = Math.max(1, Math.round(0.02 / period)),
    all = [];
  for (let first = 0; first + per <= result.epochs; first += per) {
    const shares = [];
    for (let host = 0; host < n; ++host) {
      let backlogged = true,
        goodput = 0;
      for (let t = first; t < first + per; ++t) {
        backlogged = backlogged && result.queued_bytes[t * n + host] > 0;
        goodput += result.goodput_bps[t * n + host];
      }
      if (backlogged) {
        shares.push(goodput / per);
      }
    }
    const total = sum(shares);
    if (shares.length >= 2 && total > 0) {
      all.push(total ** 2 / (shares.length * sum(shares.map((share) => share ** 2))));
    }
  }
  return all.length ? mean(all) : NaN;
}

// The metrics of a run by the names of ncc.metrics.catalogue, and `bound`, what `srptMeanS` returns.
function metricsOf(plan, result, facts, period, bound) {
  const end = (result.epochs * Math.round(period * NS)) / NS,
    ideal = idealS(plan, facts),
    { flows } = plan;
  const fct = flows.map(([start], i) => (result.finish_ns[i] < 0 ? end : result.finish_ns[i] / NS) - start / NS);
  const slowdown = fct.map((took, i) => (result.finish_ns[i] < 0 ? Math.max(took / ideal[i], 1) : took / ideal[i]));
  const sent = sum(result.sent);
  return {
    fct_mean_s: mean(fct),
    fct_p99_s: percentile(fct, 0.99),
    slowdown_all_mean: mean(slowdown),
    queue_delay_mean_s: result.queue_delay_ns / 1e9 / result.uplink_pkts,
    timeouts_per_flow: sum(result.timeouts) / flows.length,
    loss_frac: result.dropped / sent,
    retransmit_frac: sum(result.retransmitted) / sent,
    mark_frac: sum(result.marked) / sent,
    jain: jainOf(plan, result, period),
    unfinished: [...result.finish_ns].filter((ns) => ns < 0).length,
    bound_s: bound,
  };
}
