// SPDX-License-Identifier: BSD-3-Clause
// The user's own controller: functions of JavaScript in place of those of a header (baselines/cc.h); mine.h calls them.
"use strict";

const HOOKS = ["init", "on_ack", "on_loss", "on_timeout", "on_restart"];
const EVENT =
  "now_ns rtt_ns min_rtt_ns srtt_ns delivered_bytes acked_bytes inflight_bytes una_bytes nxt_bytes flags idle_rtos" +
  " lost_bytes mss_bytes init_cwnd_bytes line_bytes_per_s knob";
const OUT = ["cwnd_bytes", "ssthresh_bytes", "pacing_bytes_per_s"];
const STATE = 13; // numbers

function messageOf(code) {
  try {
    new Function(code);
    return "";
  } catch (error) {
    return error.message;
  }
}

// Returns the functions by their places in HOOKS; throws an error in words if the code is not JavaScript or lacks one.
function handlersOf(code) {
  const wrong = messageOf(code),
    lines = code.split("\n");
  if (wrong) {
    const found = lines.findIndex((_, i) => messageOf(lines.slice(0, i + 1).join("\n")) === wrong);
    const words = wrong === messageOf("{") ? "a bracket may be missing" : wrong;
    throw new Error(`Line ${(wrong === messageOf("{") ? lines.length - 1 : found) + 1} of your controller: ${words}.`);
  }
  const listed = HOOKS.map((hook) => `typeof ${hook} === "function" && ${hook}`);
  const handlers = inYours(() => new Function(`"use strict"; ${code}\nreturn [${listed}]`)());
  handlers.forEach((handler, i) => {
    if (!handler) {
      throw new Error(`Your controller lacks the function ${HOOKS[i]}.`);
    }
  });
  return handlers;
}

// Runs a function of the user's; an error gets the number of its line.
function inYours(act) {
  try {
    return act();
  } catch (error) {
    const at = /(?:<anonymous>|Function):(\d+)/.exec((error && error.stack) || "");
    throw new Error(`${at ? `Line ${at[1] - 2} of y` : "Y"}our controller: ${(error && error.message) || error}.`);
  }
}

// Returns what mine.h calls. `s` is 13 numbers of the connection, 0 at first; `o` keeps what it was.
function mineOf(code, loaded) {
  const handlers = handlersOf(code),
    names = EVENT.split(" ");
  return (hook, state, event, out) => {
    const heap = loaded.HEAPF64,
      e = Object.fromEntries(names.map((name, i) => [name, heap[event + i]])),
      o = { cwnd_bytes: e.init_cwnd_bytes, ssthresh_bytes: 0, pacing_bytes_per_s: 0 };
    e.ece = (e.flags & 1) > 0;
    e.in_recovery = (e.flags & 2) > 0;
    inYours(() => handlers[hook](heap.subarray(state, state + STATE), e, o));
    OUT.forEach((name, i) => {
      if (!(o[name] >= 0 && o[name] < 1e15)) {
        throw new Error(`Your controller: ${HOOKS[hook]} must set ${name} to a number from 0 to 1e15, and sets ${o[name]}.`);
      }
      heap[out + i] = o[name];
    });
  };
}
