// SPDX-License-Identifier: BSD-3-Clause
// Sliders, choices and parameters of the page, and what is copied.
"use strict";

async function copy(text, what) {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    document.execCommand("copy"); // of files that are opened from a disk, a browser may refuse the line above
  }
  area.remove();
  const toast = document.createElement("div");
  toast.className = "toast";
  toast.setAttribute("role", "status");
  toast.textContent = what;
  document.body.append(toast);
  setTimeout(() => toast.remove(), 2500);
}

function slider([name, least, most, step, unit, , title, help]) {
  const label = document.createElement("label"),
    value = document.createElement("span");
  label.title = help;
  label.append(title, value);
  value.className = "value";
  const [number, range] = ["number", "range"].map((type) => {
    const input = document.createElement("input");
    Object.assign(input, { type, min: least, max: most, step, value: state[name] });
    input.setAttribute("aria-label", `${title}${unit && ", " + unit}`);
    return input;
  });
  number.step = "any";
  const set = (from, to) => {
    if (from.value.trim() !== "") {
      state[name] = Number(from.value);
      to.value = from.value;
      changed();
    }
  };
  number.oninput = () => set(number, range);
  range.oninput = () => set(range, number);
  const of = document.createElement("span");
  of.className = "unit";
  of.textContent = unit;
  value.append(number, of);
  label.append(range);
  return label;
}

function option(select, value, text) {
  select.add(new Option(text, value));
}

function fill() {
  const form = $("form"),
    kind = document.createElement("select"),
    label = document.createElement("label");
  Object.entries(KINDS).forEach(([name, title]) => option(kind, name, title));
  kind.value = state.kind;
  kind.onchange = () => {
    state.kind = kind.value;
    fill();
    changed();
  };
  label.className = "pick";
  label.append("Network", kind);
  form.replaceChildren(label, ...settingsOf(state.kind).map(slider));
  for (const side of ["a", "b"]) {
    const panel = panels[side],
      select = panel.querySelector("select"),
      contender = FACTS.contenders.find((one) => one.name === state[side]);
    select.value = state[side];
    panel.querySelector(".summary").textContent = ABOUT[state[side]];
    const inputs = contender.params.map((param) => {
      const row = document.createElement("label"),
        input = document.createElement("input");
      Object.assign(input, { type: "number", min: param.min, max: param.max, step: 1, placeholder: param.default });
      input.value = own(state["p" + side], param.name) ? state["p" + side][param.name] : "";
      row.title = param.help;
      row.append(param.name.replaceAll("_", " "), input);
      input.onchange = () => {
        delete state["p" + side][param.name];
        if (input.value.trim() !== "") {
          state["p" + side][param.name] = Number(input.value);
        }
        changed();
      };
      return row;
    });
    panel.querySelector(".params").hidden = !inputs.length;
    panel.querySelector(".params div").replaceChildren(...inputs);
  }
}
