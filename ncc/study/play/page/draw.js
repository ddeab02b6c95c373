// SPDX-License-Identifier: BSD-3-Clause
// Pictures of a run on canvases: packets on their way, queue, windows, limits and flows over time.
"use strict";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let light = "45%";
const hue = (i, n, alpha) => `hsl(${Math.round((360 * i) / Math.max(n, 1))} 70% ${light} / ${alpha || 1})`;

// Clears a canvas and returns what draws on it, in CSS pixels.
function brush(canvas) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2),
    { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  return { pen, width, height };
}

// Round numbers from 0 to about `most`.
function ticks(most, count) {
  const raw = most / count,
    power = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= raw) || 1;
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => i * step);
}
const short = (value) => String(Number(value.toPrecision(6)));

const LEFT = 44,
  RIGHT = 8,
  TOP = 6,
  BOTTOM = 20;

// Draws axes; returns the brush and the places of a time in ms and of a value.
function axes(canvas, lastMs, most) {
  const { pen, width, height } = brush(canvas);
  const x = (ms) => LEFT + (ms / lastMs) * (width - LEFT - RIGHT);
  const y = (value) => height - BOTTOM - (value / most) * (height - TOP - BOTTOM);
  pen.strokeStyle = colour("--line");
  pen.fillStyle = colour("--soft");
  pen.lineWidth = 1;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (const value of ticks(most, 3)) {
    pen.beginPath();
    pen.moveTo(LEFT, y(value));
    pen.lineTo(width - RIGHT, y(value));
    pen.stroke();
    pen.fillText(short(value), LEFT - 5, y(value));
  }
  pen.textBaseline = "top";
  const marks = ticks(lastMs, width < 300 ? 3 : 6);
  marks.forEach((ms, i) => {
    pen.textAlign = i === 0 ? "left" : x(ms) > width - 30 ? "right" : "center";
    pen.fillText(i === marks.length - 1 ? `${short(ms)} ms` : short(ms), x(ms), height - BOTTOM + 4);
  });
  return { pen, width, height, x, y };
}

function line(pen, points, style, width) {
  pen.strokeStyle = style;
  pen.lineWidth = width;
  pen.beginPath();
  points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}

function ruled(pen, value, words, { x, y, lastMs, style }) {
  pen.save();
  pen.setLineDash([5, 4]);
  line(
    pen,
    [
      [x(0), y(value)],
      [x(lastMs), y(value)],
    ],
    style,
    1,
  );
  pen.restore();
  pen.fillStyle = style;
  pen.textAlign = "right";
  pen.textBaseline = "bottom";
  pen.fillText(words, x(lastMs), y(value) - 1);
}

const picturesOf = (result) => result.pictures.length / 3;

function drawQueue(canvas, side, lastMs, state, mostBytes) {
  const { result } = side,
    most = Math.max(mostBytes / KB, bytes(state.mark) / KB, 1) * 1.12;
  const plot = axes(canvas, lastMs, most),
    { pen, x, y } = plot,
    points = [];
  for (let i = 0; i < picturesOf(result); ++i) {
    points.push([x(result.pictures[3 * i] / 1e6), y(result.pictures[3 * i + 2] / KB)]);
  }
  line(pen, points, colour("--accent"), 1.5);
  if (state.mark > 0) {
    ruled(pen, bytes(state.mark) / KB, "marks above", { ...plot, lastMs, style: colour("--soft") });
  }
  const reach = reachBytes(state) / KB;
  if (reach <= most) {
    ruled(pen, reach, "full", { ...plot, lastMs, style: colour("--warn") });
  }
  pen.fillStyle = colour("--warn");
  result.uplink.forEach((value, i) => {
    if (i % 5 === 4 && value > 0) {
      pen.fillRect(x(((Math.floor(i / 5) + 1) * state.period) / 1e3) - 1, plot.height - BOTTOM, 2, 4);
    }
  });
  canvas.setAttribute(
    "aria-label",
    `Queue over time; largest ${short(Math.round(Math.max(0, ...side.queues) / KB))} KB.`,
  );
}

function drawWindows(canvas, side, lastMs, mostBytes) {
  const { result, flows } = side,
    shown = Math.min(64, flows.length),
    n = picturesOf(result);
  const { pen, x, y } = axes(canvas, lastMs, (mostBytes / KB) * 1.05 || 1),
    stride = Math.max(1, Math.floor(n / 500));
  for (let flow = 0; flow < shown; ++flow) {
    const points = [];
    for (let i = 0; i < n; i += stride) {
      const value = result.windows[i * shown + flow];
      if (value > 0) {
        points.push([x(result.pictures[3 * i] / 1e6), y(value / KB)]);
      }
    }
    line(pen, points, hue(flow, shown, 0.75), 1);
  }
  canvas.setAttribute("aria-label", `Congestion windows of ${shown} flows over time, in kilobytes.`);
}

function drawLimits(canvas, side, lastMs, state) {
  const { result, net } = side,
    n = net.senders.length,
    top = rateOf(state.rate) / 1e9;
  const finite = result.limit_bps.some((limit) => limit !== Infinity);
  const { pen, x, y, width, height } = axes(canvas, lastMs, top * 1.05);
  if (!finite) {
    pen.fillStyle = colour("--soft");
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText("no limits", (LEFT + width) / 2, (height - BOTTOM) / 2);
  }
  const stride = Math.max(1, Math.floor(result.epochs / 400));
  for (let host = 0; host < n && finite; ++host) {
    const points = [];
    for (let t = 0; t < result.epochs; t += stride) {
      points.push([x((t * state.period) / 1e3), y(Math.min(result.limit_bps[t * n + host] / 1e9, top))]);
    }
    line(pen, points, hue(host, n, 0.7), 1);
  }
  canvas.setAttribute("aria-label", finite ? `Rate limits of ${n} hosts over time.` : "No rate limits.");
}

function drawFlows(canvas, side, lastMs) {
  const { flows, result } = side,
    { pen, x, height } = axes(canvas, lastMs, Math.max(flows.length, 1));
  const each = (height - TOP - BOTTOM) / flows.length;
  flows.forEach(([start, src], i) => {
    const done = result.finish_ns[i] >= 0,
      end = done ? result.finish_ns[i] / 1e6 : lastMs;
    pen.fillStyle = done ? hue(side.net.senders.indexOf(src), side.net.senders.length, 0.85) : colour("--warn");
    pen.fillRect(
      x(start / 1e6),
      height - BOTTOM - (i + 1) * each,
      Math.max(x(end) - x(start / 1e6), 1),
      Math.max(each - (each > 3 ? 1 : 0), 0.6),
    );
  });
  const missing = side.metrics.unfinished;
  canvas.setAttribute(
    "aria-label",
    `${flows.length} flows from start to end${missing ? `; ${missing} did not end` : ""}.`,
  );
}

// Returns the place of each node: senders on the left, receivers on the right, switches between them.
function places(net, width, height) {
  const at = {},
    column = (nodes, x) =>
      nodes.forEach((node, i) => {
        at[node] = [x, 14 + ((i + 0.5) * (height - 28)) / nodes.length];
      });
  const switches = net.isHost.map((host, node) => (host ? -1 : node)).filter((node) => node >= 0);
  column(net.senders, 22);
  column(net.receivers, width - 22);
  switches.forEach((node, i) => (at[node] = [width * (switches.length === 1 ? 0.55 : 0.4 + 0.3 * i), height / 2]));
  return at;
}

function drawNetwork(canvas, side, picture) {
  const { pen, width, height } = brush(canvas),
    { net, result, flows } = side,
    at = places(net, width, height);
  const n = net.senders.length,
    placeOf = side.placeOf;
  pen.lineWidth = 1;
  pen.strokeStyle = colour("--line");
  pen.beginPath();
  net.links.forEach(([a, b]) => {
    pen.moveTo(...at[a]);
    pen.lineTo(...at[b]);
  });
  pen.stroke();
  net.isHost.forEach((host, node) => {
    const [x, y] = at[node],
      size = host ? Math.max(3, Math.min(9, 150 / n)) : 13;
    pen.fillStyle = host && placeOf[node] >= 0 ? hue(placeOf[node], n) : colour("--soft");
    pen.fillRect(x - size / 2, y - size / 2, size, size);
  });
  const first = picture > 0 ? result.pictures[3 * picture - 2] : 0,
    end = result.pictures[3 * picture + 1] || 0;
  const waiting = {},
    dot = Math.max(2, Math.min(4, width / 110)),
    ring = colour("--ink");
  for (let k = first; k < end; k += 4) {
    const port = result.packets[k],
      flow = result.packets[k + 1],
      where = result.packets[k + 2],
      kind = result.packets[k + 3];
    const [a, b] = port % 2 ? [net.links[port >> 1][1], net.links[port >> 1][0]] : net.links[port >> 1];
    pen.fillStyle = hue(placeOf[flows[flow][1]], n, kind & 1 ? 0.35 : 1);
    if (where === 255) {
      // Beside a host in a row, above a switch in columns, on the side to which they go.
      const slot = (waiting[port] = (waiting[port] || 0) + 1) - 1,
        rows = net.isHost[a] ? 1 : Math.max(4, Math.floor((height / 2 - 30) / (dot + 1))),
        toward = at[b][0] > at[a][0] ? 1 : -1;
      pen.fillRect(
        at[a][0] + toward * (12 + Math.floor(slot / rows) * (dot + 1)),
        at[a][1] - (net.isHost[a] ? dot / 2 : 12 + (slot % rows) * (dot + 1)),
        dot,
        dot,
      );
    } else {
      const share = where / 250,
        [x0, y0] = at[a],
        [x1, y1] = at[b];
      pen.beginPath();
      pen.arc(x0 + (x1 - x0) * share, y0 + (y1 - y0) * share, kind & 1 ? dot / 2.2 : dot / 1.4, 0, 7);
      pen.fill();
      if (kind & 2) {
        pen.strokeStyle = ring;
        pen.stroke();
      }
    }
  }
  pen.fillStyle = colour("--ink");
  pen.textAlign = "center";
  pen.textBaseline = "top";
  const queue = (result.pictures[3 * picture + 2] || 0) / KB;
  pen.fillText(`waiting: ${queue.toFixed(1)} KB`, at[net.links[net.uplink >> 1][net.uplink % 2]][0], height / 2 + 12);
}

// The time next to now among those ahead of it (direction 1) or behind it (-1).
const nearest = (times, direction) => times.reduce((one, other) => ((other - one) * direction < 0 ? other : one));

// The last picture up to a time in ms.
function pictureAt(result, ms) {
  const now = Math.round(ms * 1e6);
  let low = 0,
    high = picturesOf(result) - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (result.pictures[3 * middle] <= now) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return Math.max(low, 0);
}
