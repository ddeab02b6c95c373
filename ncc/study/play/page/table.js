// SPDX-License-Identifier: BSD-3-Clause
// The table of both sides' figures, and the sentence above it.
"use strict";

const textOf = (key, value) => {
  const { scale, digits } = FACTS.metrics[key];
  return Number.isNaN(value) ? "–" : (value * scale).toFixed(digits);
};
// The name of a side's controller and switches; if the other side has the same, with parameters.
function called(side) {
  const [name, other] = [side, side === "a" ? "b" : "a"].map(
    (one) => NAMES[shown[one]] + (shown["s" + one] === "plain" ? "" : ` + ${NAMES[shown["s" + one]]}`),
  );
  const params = Object.entries({ ...shown["p" + side], ...shown["ps" + side] });
  return name === other && params.length
    ? `${name} (${params.map(([key, value]) => `${key.replaceAll("_", " ")} ${value}`).join(", ")})`
    : name;
}
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
    names = ["a", "b"].map(called),
    head = document.createElement("thead"),
    body = document.createElement("tbody");
  const headRow = head.insertRow();
  ["", ...names, "Bound"].forEach((text) => cell(headRow, "th", text));
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
  const [winner, loser] = a < b ? names : [names[1], names[0]];
  const missing = names.filter((_, i) => of[i].metrics.unfinished > 0);
  $("verdict").textContent = less
    ? `${winner} finishes flows ${less} % sooner than ${loser}.`
    : "Both finish flows equally soon.";
  const [fair, other] = of.map(({ metrics }) => metrics.jain);
  if (Math.abs(fair - other) >= 0.05) {
    const first = fair > other ? 0 : 1;
    const words = [first, 1 - first].map((i) => textOf("jain", of[i].metrics.jain)).join(" against ");
    $("verdict").textContent += ` ${names[first]} shares more equally: Jain’s index ${words}.`;
  }
  if (missing.length) {
    $("verdict").textContent += ` Not all flows of ${missing.join(" and ")} ended in time.`;
  }
}
