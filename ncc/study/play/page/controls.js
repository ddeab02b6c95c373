// SPDX-License-Identifier: BSD-3-Clause
// Sliders, choices, parameters and copy buttons of the page.
"use strict";

async function copy(text, what) {
  const area = document.createElement("textarea"),
    from = document.activeElement;
  let done = true;
  area.value = text;
  area.style.position = "fixed"; // the page must not move
  document.body.append(area);
  area.select();
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = document.execCommand("copy"); // browsers may refuse the line above in a file that is opened from a disk
  }
  area.remove();
  from.focus({ preventScroll: true });
  if (!done) {
    say(`The browser does not let the page copy. Take it from here:\n${text}`);
    return;
  }
  $("toast").textContent = what;
  clearTimeout(toasted);
  toasted = setTimeout(() => ($("toast").textContent = ""), 2500);
}
let toasted = 0;

// Copies the text that `make` returns, or says why the settings cannot be run.
function offer(make, what) {
  try {
    check(state, FACTS);
    copy(make(), what);
  } catch (error) {
    say(error.message);
  }
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
    input.title = help;
    return input;
  });
  number.step = "any";
  const set = (from, to, waitMs) => {
    if (from.value.trim() !== "") {
      state[name] = Number(from.value);
      to.value = from.value;
      changed(waitMs);
    }
  };
  number.oninput = () => set(number, range, 300); // until the last digit is typed
  number.onchange = () => (number.value = state[name]); // an empty field changes nothing
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
    form.querySelector("select").focus(); // the new one
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
      Object.assign(input, { type: "number", min: param.min, max: param.max, step: 1 });
      input.value = own(state["p" + side], param.name) ? state["p" + side][param.name] : param.default;
      row.title = param.help;
      row.append(param.name.replaceAll("_", " "), input);
      input.onchange = () => {
        delete state["p" + side][param.name];
        if (input.value.trim() === "") {
          input.value = param.default;
        }
        if (Number(input.value) !== param.default) {
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
