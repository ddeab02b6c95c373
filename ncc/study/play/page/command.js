// SPDX-License-Identifier: BSD-3-Clause
// The page's settings as a scenario in YAML and as a command.
"use strict";

const real = (value) => (Number.isInteger(value) ? `${value}.0` : String(value));

// The scenario as a YAML file.
function yamlOf(state, facts) {
  const net = networkOf(state),
    rate = real(rateOf(state.rate)),
    up = real(uplinkBps(state));
  const lines = ["defaults:", "  - /schema/scenario@_here_: base"];
  const kinds = {
    incast: ["many_to_one", `senders: ${state.n}`, `rate_bps: ${rate}`],
    rack: [
      "rack",
      `hosts: ${state.n}`,
      `host_rate_bps: ${rate}`,
      `uplink_rate_bps: ${up}`,
      "remotes: 4",
      `remote_rate_bps: ${up}`,
    ],
    dumbbell: ["dumbbell", `pairs: ${state.n}`, `host_rate_bps: ${rate}`, `bottleneck_rate_bps: ${up}`],
  };
  const [topology, ...fields] = kinds[state.kind];
  lines.push(`  - topology: ${topology}`, "  - _self_", "name: play", "topology:");
  fields.push(`delay_s: ${(delayNs(state) / NS).toFixed(9)}`, `buffer_bytes: ${bytes(state.buffer)}`);
  fields.push(`mark_threshold_bytes: ${bytes(state.mark)}`);
  if (bytes(state.shared)) {
    fields.push(`shared_buffer_bytes: ${bytes(state.shared)}`, `dt_alpha: ${real(state.alpha)}`);
  }
  lines.push(...fields.map((field) => `  ${field}`), "workload:", "  flows:");
  if (state.kind === "incast") {
    lines.push("    kind: queries", `    fan_in: ${state.n}`, `    response_bytes: ${state.n * bytes(state.size)}`);
    lines.push(`    interval_s: ${(gapNs(state) / NS).toFixed(9)}`, "    sources: senders", "    destinations: receiver");
  } else {
    lines.push("    kind: fixed", "    flows:");
    const row = ([start, src, dst, size]) =>
      `      - {start_s: ${(start / NS).toFixed(9)}, src: ${net.names[src]}, dst: ${net.names[dst]}, size_bytes: ${size}}`;
    lines.push(...flowsOf(state, net, facts).map(row));
  }
  lines.push(`duration_s: ${durationS(state).toFixed(9)}`, `period_s: ${periodS(state).toFixed(9)}`);
  return lines.join("\n");
}

// The command that gives the page's numbers: a file of the scenario, and `ncc evaluate` on it.
function commandOf(state, facts) {
  const params = ["a", "b"].flatMap((side) =>
    Object.entries(state["p" + side] || {}).map(([name, value]) => ` +params.${state[side]}.${name}=${value}`),
  );
  return (
    `cat > play.yaml <<'END'\n# SPDX-License-Identifier: BSD-3-Clause\n${yamlOf(state, facts)}\nEND\n` +
    `ncc evaluate scenario=play.yaml controller=${state.a},${state.b} datapath=packetsim seeds=1 first_seed=${state.seed}` +
    ` table=full consent=true${params.join("")}\n`
  );
}
