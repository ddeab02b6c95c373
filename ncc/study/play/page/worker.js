// SPDX-License-Identifier: BSD-3-Clause
// The engine's side of the page: runs what the page asks for, and gives up when it asks for something else.
"use strict";

let engine = null,
  newest = 0;

// Waits for messages that have come meanwhile.
const breathe = () => new Promise((go) => setTimeout(go, 0));

// About how long a run takes, in seconds: packets at each hop, and the decisions about all pairs of hosts.
function estimateS(plan, state) {
  const total = sum(plan.flows.map((flow) => flow[3])),
    packets = total / 1460;
  const lasts = durationS(state) + (total * 8 * 1.2) / uplinkBps(state);
  const decides = plan.contender.limit.kind === "none" ? 0.2e-6 * state.n : 0.1e-6 * state.n * state.n + 3e-6 * state.n;
  return 9e-6 * packets + (lasts / periodS(state)) * (decides + 4e-6);
}

async function runSide(state, side, id, facts, tell) {
  const plan = planOf(state, facts, side),
    play = new engine.Play(),
    { flows } = plan;
  const total = sum(flows.map((flow) => flow[3]));
  const lastsNs = durationS(state) * NS + (total * 8 * NS) / uplinkBps(state);
  const weights = Uint8Array.from(atob(facts.policy.weights), (letter) => letter.charCodeAt(0));
  const settings = { ...plan.settings, picture_ns: Math.max(Math.round(lastsNs / 1200), 1000), most_pictures: 2000 };
  if (settings.limiter.weights) {
    settings.limiter.weights = Array.from(new Float32Array(weights.buffer));
  }
  try {
    let wrong = play.start(settings),
      told = performance.now();
    while (!wrong && !play.over) {
      wrong = play.advance(20);
      if (performance.now() - told > 40) {
        tell({ kind: "progress", share: play.finished / flows.length, timeS: play.now_ns / NS });
        await breathe();
        told = performance.now();
      }
      if (id !== newest) {
        return null;
      }
    }
    if (wrong) {
      throw new Error(`The simulation stopped: ${wrong}.`);
    }
    const result = play.result();
    const { net, doubts, contender } = plan;
    const shown = {
      links: net.links.map((link) => [link.a, link.b, link.rate_bps]),
      isHost: net.isHost,
      names: net.names,
    };
    Object.assign(shown, { senders: net.senders, receivers: net.receivers, uplink: net.uplink });
    return {
      flows,
      doubts,
      net: shown,
      name: contender.name,
      result,
      metrics: metricsOf(plan, result, facts, periodS(state)),
    };
  } finally {
    play.delete();
  }
}

async function run({ id, state, sure }, facts, tell) {
  newest = id;
  try {
    check(state, facts);
    engine = engine || (await packetsim());
    const seconds = sum(["a", "b"].map((side) => estimateS(planOf(state, facts, side), state)));
    if (seconds > 10 && !sure) {
      tell({ kind: "ask", id, seconds });
      return;
    }
    const sides = {};
    for (const side of ["a", "b"]) {
      sides[side] = await runSide(state, side, id, facts, (message) => tell({ ...message, id, side }));
      if (!sides[side]) {
        return;
      }
    }
    const buffers = Object.values(sides).flatMap(({ result }) =>
      Object.values(result)
        .filter(ArrayBuffer.isView)
        .map((view) => view.buffer),
    );
    tell({ kind: "done", id, sides }, buffers);
  } catch (error) {
    tell({ kind: "error", id, words: error instanceof Error ? error.message : "The simulation failed." });
  }
}

if (typeof WorkerGlobalScope !== "undefined") {
  let facts = null; // the first message
  self.onmessage = ({ data }) => {
    if (facts) {
      run(data, facts, (message, buffers) => self.postMessage(message, buffers || []));
    } else {
      facts = data;
    }
  };
}
