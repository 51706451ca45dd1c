"use strict";
const { run, sources, rows } = JSON.parse(document.getElementById("data").textContent);
const byId = new Map(rows.map((row) => [row.id, row]));
const [list, pane, shown, told, place, previous, next] =
  ["list", "pane", "row", "told", "place", "previous", "next"].map((id) => document.getElementById(id));
const controls = ["strategy", "family", "depth", "text"].map((name) => document.getElementById("by-" + name));
const searched = new Map(rows.map((row) => [row.id, [row.id, row.step, program(row, 0), program(row, 1), ...row.reasoning].join("\n").toLowerCase()]));
let asked = null; // the id that the address names
let found = rows; // the rows that match
let open = null; // the row that is shown

function program(row, side) {
  return row.pairs.map((pair) => (pair[side] || []).map(([text]) => text).join("").trim()).join("");
}

function make(tag, options, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") element.className = value; else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function choices(control, values) {
  for (const value of values) control.append(make("option", { value }, String(value)));
}
choices(controls[0], [...new Set(rows.map((row) => row.strategy))].sort());
choices(controls[1], [...new Set(rows.map((row) => row.family))].sort());
choices(controls[2], [...new Set(rows.map((row) => row.depth))].sort((a, b) => a - b));

function matches(row) {
  const [strategy, family, depth, text] = controls.map((control) => control.value);
  const wanted = text.trim().toLowerCase();
  return (!strategy || row.strategy === strategy) && (!family || row.family === family)
    && (!depth || String(row.depth) === depth) && (!wanted || searched.get(row.id).includes(wanted));
}

function fill() {
  found = rows.filter(matches);
  told.textContent = found.length === rows.length ? "" : found.length + " of these match.";
  list.replaceChildren(...found.map((row) => {
    const button = make("button", { type: "button", class: row.level, "data-id": row.id },
      make("b", {}, ...broken(row.strategy)), make("span", {}, row.family + ", depth " + row.depth + ", " + row.id.slice(0, 8)));
    button.addEventListener("click", () => go(row));
    return make("li", {}, button);
  }));
}

/* The row that the address asks for where it matches, else the first that does. */
function draw() {
  open = found.find((row) => row.id === asked) || found[0] || null;
  if (open !== null) show(open); else shown.replaceChildren(make("p", {}, "No row matches."));
  mark();
}

function mark() {
  const at = found.indexOf(open);
  place.textContent = found.length === 0 ? "" : (at < 0 ? "–" : at + 1) + " of " + found.length;
  previous.disabled = at <= 0;
  next.disabled = at + 1 >= found.length;
  for (const button of list.querySelectorAll("button")) {
    button.setAttribute("aria-current", String(open !== null && button.dataset.id === open.id));
  }
}

function turn(by) {
  const row = found[found.indexOf(open) + by];
  if (row) go(row);
}

/* Names the row in the address, and shows it at once: the event of the address comes later. */
function go(row) {
  location.hash = "row=" + row.id;
  followAddress();
}

function followAddress() {
  const named = /^#row=(.+)$/.exec(location.hash);
  if (named === null || (open !== null && open.id === named[1])) return;
  asked = named[1];
  if (!byId.has(asked)) {
    open = null;
    // Only what may be an id becomes part of a command: whoever wrote the address may want another one to be run.
    const command = /^[0-9a-f]+$/.test(asked) ? [" This prints it: ", make("code", {}, "steptp show '" + run + "#" + asked + "'")] : [];
    shown.replaceChildren(make("p", {}, "Row " + asked + " is not on this page.", ...command));
    mark();
  } else {
    if (!found.includes(byId.get(asked))) {
      for (const control of controls) control.value = "";
      fill();
    }
    draw();
  }
  reveal();
}

function reveal() {
  const top = pane.getBoundingClientRect().top;
  if (top < 0 || top > innerHeight / 2) pane.scrollIntoView();
  const button = list.querySelector('[aria-current="true"]');
  if (button && (button.offsetTop < list.scrollTop || button.offsetTop + button.offsetHeight > list.scrollTop + list.clientHeight)) {
    list.scrollTop = button.offsetTop - list.clientHeight / 3;
  }
}

function cell(segments, kind) {
  if (segments === null) return make("td", { class: "absent" });
  const whole = segments.every(([, isChanged]) => isChanged);
  return make("td", { class: kind },
    ...segments.map(([text, isChanged]) => isChanged && !whole && text.trim() ? make("mark", {}, text) : text));
}

function line([before, after]) {
  const changed = [before, after].some((side) => side === null || side.some(([, isChanged]) => isChanged));
  return make("tr", {}, cell(before, changed ? "old" : "same"), cell(after, changed ? "new" : "same"));
}

function quoted(text) {
  return text.split("`").map((part, at) => at % 2 ? make("code", {}, part) : part);
}

/* A name that may be broken after its underscores. */
function broken(name) {
  return name.split(/(?<=_)/).flatMap((part) => [part, make("wbr", {})]);
}

function table(head, body, kind = "list") {
  return make("div", { class: "scroll" }, make("table", { class: kind },
    make("thead", {}, make("tr", {}, ...head.map((name) => make("th", {}, name)))),
    make("tbody", {}, ...body.map((cells) => make("tr", {}, ...cells.map((value) => make("td", {}, value)))))));
}

function folded(title, text) {
  return make("details", {}, make("summary", {}, title), make("pre", {}, text));
}

function show(row) {
  const facts = row.facts.map(([name, holds, evidence]) =>
    [make("code", { class: holds ? "yes" : "no" }, (holds ? "✓ " : "✗ ") + name), evidence]);
  const parts = [
    make("h3", {}, "Row " + row.id),
    make("div", {}, make("span", { class: "chip level " + row.level }, row.level),
      ...row.chips.map((text) => make("span", { class: "chip" }, text))),
    make("h3", {}, "Step"), make("div", { class: "step mono" }, row.step),
    make("h3", {}, "Before and after"),
    make("table", { class: "diff" },
      make("thead", {}, make("tr", {}, make("th", {}, "before " + row.before), make("th", {}, "after " + row.after))),
      make("tbody", {}, ...row.pairs.map(line))),
    make("h3", {}, "Reasoning"),
    make("div", { class: "reasoning" }, ...row.reasoning.map((text) => make("p", {}, ...quoted(text)))),
    make("h3", {}, "Facts"), table(["fact", "evidence"], facts),
    make("h3", {}, "Verification"),
    table(["target", "largest error", "its bound", "bound used", "ULP", "bits as before", "inputs"], row.verification, "list figures"),
  ];
  if (row.latency.length) {
    parts.push(make("h3", {}, "Latency"), table(["where", "median", "against the program before"], row.latency, "list figures"));
  }
  parts.push(folded("PyTorch source", sources[row.source]));
  if (row.path.length) {
    parts.push(folded(row.path.length === 1 ? "The step before it" : "The " + row.path.length + " steps before it", row.path.join("\n")));
  }
  shown.replaceChildren(...parts);
}

for (const control of controls) control.addEventListener("input", () => { fill(); draw(); });
previous.addEventListener("click", () => turn(-1));
next.addEventListener("click", () => turn(1));
window.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey;
  if (!typing && (event.key === "j" || event.key === "k")) turn(event.key === "j" ? 1 : -1);
});
window.addEventListener("hashchange", followAddress);
fill();
draw();
followAddress();
