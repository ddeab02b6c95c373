// SPDX-License-Identifier: BSD-3-Clause
// The page: settings and link, runs in a worker, player, table and buttons.
"use strict";

const $ = (id) => document.getElementById(id);
const panels = {},
  fresh = () => JSON.parse(JSON.stringify(BASE));
let state = fresh(),
  worker = null,
  asked = 0,
  askedMs = 0,
  sides = null,
  shown = null, // the settings of `sides`
  lastMs = 1,
  nowMs = 0,
  playing = false,
  before = 0,
  ticket = 0,
  due = 0;

// The text after # of a link with these settings.
function linkOf(of) {
  const parts = ["kind", ...settingsOf(of.kind).map((setting) => setting[0]), "a", "b"].map(
    (name) => `${name}=${of[name]}`,
  );
  ["a", "b"].forEach((side) =>
    Object.entries(of["p" + side]).forEach(([name, value]) => parts.push(`p${side}.${name}=${value}`)),
  );
  return parts.join("&");
}

// The settings of a link; throws an error in words.
function stateOf(text) {
  if (own(PRESETS, text)) {
    return { ...fresh(), ...PRESETS[text][1] };
  }
  const of = fresh();
  for (const part of text ? text.split("&") : []) {
    const [name, value, more] = part.split("="),
      [side, param] = name.split(".");
    if (value === undefined || more !== undefined) {
      const presets = Object.keys(PRESETS).join(", ");
      throw new Error(`The link has “${part.slice(0, 40)}”, and must be name=value&name=value, or one of ${presets}.`);
    }
    if (/^p[ab]\.\w+$/.test(name) && value.trim() !== "") {
      Object.defineProperty(of[side], param, {
        value: Number(value),
        enumerable: true,
        writable: true,
        configurable: true,
      });
    } else if (["kind", "a", "b"].includes(name)) {
      of[name] = value;
    } else if (SETTINGS.some((setting) => setting[0] === name) && value.trim() !== "") {
      of[name] = Number(value);
    } else {
      throw new Error(`The link has a setting “${name.slice(0, 40)}” that this page does not know.`);
    }
  }
  check(of, FACTS);
  return of;
}

function say(words, buttons) {
  const box = $("message");
  box.hidden = !words;
  box.textContent = words || "";
  Object.entries(buttons || {}).forEach(([title, act]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = title;
    button.onclick = () => say("") || act();
    box.append(button);
  });
}

function newWorker() {
  if (worker) {
    worker.terminate();
  }
  const address = URL.createObjectURL(new Blob([ENGINE], { type: "text/javascript" }));
  worker = new Worker(address);
  worker.postMessage(FACTS);
  URL.revokeObjectURL(address);
  worker.onmessage = ({ data }) => data.id === asked && heard(data);
  worker.onerror = () => {
    newWorker();
    refuse("The simulator failed: choose fewer or smaller flows.", "No result for these settings.");
  };
}

// Notes the number of the newest run with an answer; `refused`: the run has no result.
function answered(refused) {
  document.body.dataset.answered = String(asked);
  document.body.dataset.refused = refused ? "yes" : "";
}

// Says that there is no result; pictures and table are of earlier settings, if any.
function none(verdict) {
  $("progress").hidden = true;
  $("verdict").textContent = verdict + (sides ? " Below is the result before." : "");
  $("results").classList.add("old");
  answered(true);
}

// Says why there is no result, and gives up the run on its way.
function refuse(words, verdict, buttons) {
  worker.postMessage({ id: ++asked });
  say(words, buttons);
  none(verdict);
}

function run(sure) {
  clearTimeout(due);
  const link = linkOf(state);
  const preset = Object.keys(PRESETS).find((name) => linkOf({ ...fresh(), ...PRESETS[name][1] }) === link);
  $("preset").value = preset || "";
  try {
    check(state, FACTS);
  } catch (error) {
    refuse(error.message, "No result for these settings.");
    return;
  }
  say("");
  try {
    history.replaceState(null, "", `#${link}`);
  } catch {
    // Safari allows it 100 times in 30 s; the button makes its own link.
  }
  askedMs = performance.now();
  worker.postMessage({ id: ++asked, state, sure });
}

// Runs soon: once for all changes of one moment, and after a short run on its way, so that results follow a moved slider.
function changed(waitMs) {
  const next = () => {
    const short = document.body.dataset.answered !== String(asked) && performance.now() - askedMs < 250;
    if (short) {
      due = setTimeout(next, 15);
    } else {
      run(false);
    }
  };
  clearTimeout(due);
  due = setTimeout(next, waitMs || 15);
}

function stop() {
  newWorker();
  refuse("The run was stopped. ", "No result for these settings.", { "Run it": () => run(true) });
  $("message").querySelector("button").focus();
}

function heard(data) {
  const { kind } = data;
  if (kind === "progress") {
    const long = performance.now() - askedMs > 400; // before, the bar would only flicker
    $("progress").hidden = !long;
    $("results").classList.toggle("old", long);
    const part = (data.side === "b" ? 0.5 : 0) + data.share / 2;
    $("progress").querySelector("progress").value = part;
    $("progress").querySelector("span").textContent =
      `${NAMES[data.name]}: ${(data.timeS * 1e3).toFixed(1)} ms simulated`;
  } else if (kind === "ask") {
    say(`This run takes about ${Math.round(data.seconds)} seconds. `, { "Run it": () => run(true) });
    none("Not run yet.");
  } else if (kind === "error") {
    say(data.words);
    none("No result for these settings.");
  } else {
    $("progress").hidden = true;
    $("results").classList.remove("old");
    show(data.sides, data.state);
  }
}

function show(given, settings) {
  sides = given;
  shown = settings;
  const all = Object.values(sides);
  all.forEach((side) => {
    side.queues = Array.from({ length: picturesOf(side.result) }, (_, i) => side.result.pictures[3 * i + 2]);
    side.placeOf = side.net.isHost.map((_, node) => side.net.senders.indexOf(node));
  });
  lastMs = Math.max(...all.map(({ result }) => (result.epochs * shown.period) / 1e3));
  nowMs = Math.min(nowMs, lastMs);
  table();
  drawAll();
  answered(false);
}

const textOf = (key, value) => {
  const { scale, digits } = FACTS.metrics[key];
  return Number.isNaN(value) ? "–" : (value * scale).toFixed(digits);
};
const titleOf = (key, title) => {
  const unit = FACTS.metrics[key].unit.replace("us", "µs");
  return unit ? `${title} (${unit})` : title;
};

function cell(row, tag, text, best) {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = best ? "best" : "";
  made.scope = tag === "th" ? (row.parentNode.tagName === "THEAD" ? "col" : "row") : "";
  row.append(made);
}

function table() {
  const of = [sides.a, sides.b],
    head = document.createElement("thead"),
    body = document.createElement("tbody");
  const headRow = head.insertRow();
  ["", ...of.map(({ name }) => NAMES[name]), "Bound"].forEach((text) => cell(headRow, "th", text));
  for (const [key, title, better] of ROWS) {
    const values = of.map(({ metrics }) => metrics[key]),
      texts = values.map((value) => textOf(key, value));
    const best =
      texts[0] === texts[1] || values.some(Number.isNaN) ? NaN : better * values[0] > better * values[1] ? 0 : 1;
    const row = body.insertRow();
    cell(row, "th", titleOf(key, title));
    texts.forEach((text, i) => cell(row, "td", text, better !== 0 && best === i));
    cell(row, "td", key === "fct_mean_s" ? textOf(key, of[0].metrics.bound_s) : "");
  }
  $("table").replaceChildren(head, body);
  for (const side of ["a", "b"]) {
    const { metrics } = sides[side];
    const [took, lost] = [textOf("fct_mean_s", metrics.fct_mean_s), textOf("loss_frac", metrics.loss_frac)];
    panels[side].querySelector(".figures").textContent = `mean ${took} ms, lost ${lost} %`;
  }
  const [a, b] = of.map(({ metrics }) => metrics.fct_mean_s),
    less = Math.round(100 * (1 - Math.min(a, b) / Math.max(a, b)));
  const [winner, loser] = (a < b ? of : [of[1], of[0]]).map(({ name }) => NAMES[name]);
  const missing = of.filter(({ metrics }) => metrics.unfinished > 0).map(({ name }) => NAMES[name]);
  $("verdict").textContent = less
    ? `${winner} finishes flows ${less} % sooner than ${loser}.`
    : "Both finish flows equally soon.";
  const [fair, other] = of.map(({ metrics }) => metrics.jain);
  if (Math.abs(fair - other) >= 0.05) {
    const first = fair > other ? 0 : 1;
    const words = [first, 1 - first].map((i) => textOf("jain", of[i].metrics.jain)).join(" against ");
    $("verdict").textContent += ` ${NAMES[of[first].name]} shares more equally: Jain’s index ${words}.`;
  }
  if (missing.length) {
    $("verdict").textContent += ` Not all flows of ${missing.join(" and ")} ended in time.`;
  }
}

function drawAll() {
  light = colour("--light");
  const most = (pick) => Math.max(...["a", "b"].map((key) => pick(sides[key])));
  const queue = most((side) => side.queues.reduce((one, other) => Math.max(one, other), 0));
  const windows = most((side) => side.result.windows.reduce((one, other) => Math.max(one, other), 0));
  for (const key of ["a", "b"]) {
    const panel = panels[key],
      side = sides[key],
      find = (name) => panel.querySelector(`canvas.${name}`);
    drawQueue(find("queue"), side, lastMs, shown, queue);
    drawWindows(find("windows"), side, lastMs, Math.min(windows, 1e7));
    drawLimits(find("limits"), side, lastMs, shown);
    drawFlows(find("gantt"), side, lastMs);
    const doubts = panel.querySelector(".doubts");
    doubts.hidden = !side.doubts.length;
    doubts.textContent = side.doubts.length
      ? `The policy is not trusted here: ${side.doubts.join("; ")}. A formula and the receivers decide.`
      : "";
  }
  drawMoment();
}

function drawMoment() {
  if (!sides) {
    return;
  }
  for (const key of ["a", "b"]) {
    const side = sides[key],
      picture = pictureAt(side.result, nowMs),
      canvas = panels[key].querySelector("canvas.net");
    drawNetwork(canvas, side, picture);
    if (!playing) {
      const done = [...side.result.finish_ns].filter((ns) => ns >= 0 && ns <= nowMs * 1e6).length;
      canvas.setAttribute(
        "aria-label",
        `Network at ${nowMs.toFixed(2)} ms: ${done} of ${side.flows.length} flows are done.`,
      );
    }
  }
  $("time").value = String((1000 * nowMs) / lastMs);
  $("clock").textContent = `${nowMs.toFixed(3)} ms`;
  $("time").setAttribute("aria-valuetext", $("clock").textContent);
}

function frame(time) {
  if (!playing) {
    return;
  }
  nowMs += Math.min(Math.max(time - before, 0), 100) * Number($("speed").value);
  before = time;
  if (nowMs >= lastMs) {
    nowMs = lastMs;
    setPlaying(false);
  }
  drawMoment();
  ticket = requestAnimationFrame(frame);
}

function setPlaying(wanted) {
  const on = wanted && sides !== null;
  cancelAnimationFrame(ticket);
  if (on && nowMs >= lastMs) {
    nowMs = 0;
  }
  playing = on;
  $("play").textContent = on ? "❚❚ Pause" : "▶ Play";
  if (on) {
    before = performance.now();
    ticket = requestAnimationFrame(frame);
  }
}

// Goes to the next picture of either side, or to the one before.
function stepBy(direction) {
  setPlaying(false);
  if (sides) {
    const now = Math.round(nowMs * 1e6),
      times = [sides.a, sides.b].flatMap(({ result }) => [...result.pictures.filter((_, k) => k % 3 === 0)]);
    const ahead = times.filter((ns) => (ns - now) * direction > 0);
    nowMs = ahead.length ? nearest(ahead, direction) / 1e6 : direction > 0 ? lastMs : 0;
    drawMoment();
  }
}

function openLink() {
  nowMs = 0;
  try {
    state = stateOf(decodeURIComponent(location.hash.slice(1)));
  } catch (error) {
    state = fresh();
    fill();
    const words = error instanceof URIError ? "The link is damaged. " : `${error.message} `;
    refuse(words, "No result for this link.", { "Take the first preset": changed });
    return;
  }
  fill();
  run(false);
}

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "Light theme" : "Dark theme";
  if (sides) {
    drawAll();
  }
}

function begin() {
  for (const side of ["a", "b"]) {
    const panel = $("side").content.cloneNode(true).firstElementChild,
      select = panel.querySelector("select");
    panels[side] = panel;
    select.setAttribute("aria-label", `Controller on the ${side === "a" ? "left" : "right"}`);
    FACTS.contenders.forEach(({ name }) => option(select, name, NAMES[name]));
    select.onchange = () => {
      state[side] = select.value;
      state["p" + side] = {};
      fill();
      changed();
    };
    $("sides").append(panel);
  }
  option($("preset"), "", "own settings");
  Object.entries(PRESETS).forEach(([name, [title]]) => option($("preset"), name, title));
  $("preset").onchange = () => {
    if ($("preset").value) {
      state = stateOf($("preset").value);
      nowMs = 0;
      fill();
      changed();
    }
  };
  SPEEDS.forEach((speed) => option($("speed"), String(speed), `1 / ${Math.round(1 / speed).toLocaleString("en")}`));
  $("speed").value = "0.001";
  $("play").onclick = () => setPlaying(!playing);
  $("back").onclick = () => stepBy(-1);
  $("step").onclick = () => stepBy(1);
  $("stop").onclick = stop;
  $("time").oninput = () => {
    setPlaying(false);
    nowMs = (Number($("time").value) / 1000) * lastMs;
    drawMoment();
  };
  const link = () => `${location.href.split("#")[0]}#${linkOf(state)}`;
  $("link").onclick = () => offer(link, "The link is copied: it holds all settings.");
  $("command").onclick = () =>
    offer(() => commandOf(state, FACTS), "The command is copied: it prints the same numbers.");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  $("theme").onclick = () => setTheme(document.documentElement.dataset.theme !== "dark");
  dark.onchange = () => setTheme(dark.matches);
  document.addEventListener("keydown", (event) => {
    const elsewhere = event.altKey || event.ctrlKey || event.metaKey;
    if (elsewhere || event.target.closest("input, select, button, summary, textarea")) {
      return;
    }
    const acts = { " ": () => setPlaying(!playing), ArrowLeft: () => stepBy(-1), ArrowRight: () => stepBy(1) };
    if (own(acts, event.key)) {
      event.preventDefault();
      acts[event.key]();
    }
  });
  $("settings").open = innerWidth > 900;
  window.addEventListener("resize", () => sides && drawAll());
  window.addEventListener("hashchange", openLink);
  setTheme(dark.matches);
  newWorker();
  openLink();
}
begin();
