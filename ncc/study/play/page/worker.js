// SPDX-License-Identifier: BSD-3-Clause
// The worker of the page: runs given settings, and gives up a run when newer settings come.
"use strict";

let engine = null, // a promise of it
  weights = null,
  newest = 0;
const MOST_BYTES = 256e6; // an engine with more memory is dropped after its run: WebAssembly gives none back

// Lets the worker receive messages.
const breathe = () => new Promise((go) => setTimeout(go, 0));

// Estimates the seconds of a run: packets at each hop, and the decisions about all pairs of hosts.
function estimateS(plan, state) {
  const total = sum(plan.flows.map((flow) => flow[3])),
    packets = total / 1460;
  const lasts = durationS(state) + (total * 8 * 1.2) / uplinkBps(state);
  const decides = plan.contender.limit.kind === "none" ? 0.2e-6 * state.n : 0.1e-6 * state.n * state.n + 3e-6 * state.n;
  return 9e-6 * packets + (lasts / periodS(state)) * (decides + 4e-6);
}

const decoded = (text) => new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

async function runSide(loaded, state, plan, bound, id, facts, tell) {
  const play = new loaded.Play(),
    { flows } = plan;
  const total = sum(flows.map((flow) => flow[3]));
  const lastsNs = flows[flows.length - 1][0] + (total * 8 * NS) / uplinkBps(state);
  const settings = { ...plan.settings, picture_ns: Math.max(Math.round(lastsNs / 600), 1000), most_pictures: 2000 };
  if (settings.limiter.weights) {
    weights = weights || decoded(settings.limiter.weights);
    settings.limiter.weights = weights;
  }
  try {
    let wrong = play.start(settings),
      told = performance.now();
    while (!wrong && !play.over) {
      wrong = play.advance(20);
      if (performance.now() - told > 40) {
        const share = play.finished / flows.length;
        tell({ kind: "progress", name: plan.contender.name, share, timeS: play.now_ns / NS });
        await breathe();
        told = performance.now();
      }
      if (id !== newest) {
        return null;
      }
    }
    if (wrong) {
      const why = wrong === "std::bad_alloc" ? "it needs too much memory; choose fewer or smaller flows" : wrong;
      throw new Error(`The simulation stopped: ${why}.`);
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
      metrics: metricsOf(plan, result, facts, periodS(state), bound),
    };
  } finally {
    play.delete();
  }
}

async function run({ id, state, sure }, facts, tell) {
  newest = id;
  if (!state) {
    return; // only gives up what runs
  }
  let loaded = null;
  try {
    check(state, facts);
    const plans = ["a", "b"].map((side) => planOf(state, facts, side));
    const seconds = sum(plans.map((plan) => estimateS(plan, state)));
    if (seconds > 10 && !sure) {
      tell({ kind: "ask", id, seconds });
      return;
    }
    engine = engine || packetsim();
    loaded = await engine;
    const bound = srptMeanS(plans[0], facts, idealS(plans[0], facts)),
      sides = {};
    for (const [k, side] of ["a", "b"].entries()) {
      const told = (message) => tell({ ...message, id, side });
      sides[side] = id === newest && (await runSide(loaded, state, plans[k], bound, id, facts, told));
      if (!sides[side]) {
        return;
      }
    }
    const buffers = Object.values(sides).flatMap(({ result }) =>
      Object.values(result)
        .filter(ArrayBuffer.isView)
        .map((view) => view.buffer),
    );
    tell({ kind: "done", id, state, sides }, buffers);
  } catch (error) {
    const plain = error instanceof Error && !(error instanceof WebAssembly.RuntimeError);
    if (!plain) {
      engine = null; // an engine is not used again after a failure
    }
    tell({ kind: "error", id, words: plain ? error.message : "The simulator failed: choose fewer or smaller flows." });
  } finally {
    if (loaded && loaded.HEAPU8.length > MOST_BYTES) {
      engine = null;
    }
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
