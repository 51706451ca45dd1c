"use strict";
const rows = JSON.parse(document.getElementById("data").textContent);
const byId = new Map(rows.map((row) => [row.id, row]));
const list = document.getElementById("list"), shown = document.getElementById("row"), told = document.getElementById("told");
const controls = ["strategy", "family", "depth", "text"].map((name) => document.getElementById("by-" + name));

function make(tag, options, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options || {})) {
    if (name === "class") element.className = value; else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function choices(control, values) {
  for (const value of values) control.append(make("option", { value }, String(value)));
}
choices(controls[0], [...new Set(rows.map((row) => row.strategy))].sort());
choices(controls[1], [...new Set(rows.map((row) => row.family))].sort());
choices(controls[2], [...new Set(rows.map((row) => row.depth))].sort((a, b) => a - b));

function matching() {
  const [strategy, family, depth, text] = controls.map((control) => control.value);
  const wanted = text.trim().toLowerCase();
  return rows.filter((row) => (!strategy || row.strategy === strategy) && (!family || row.family === family)
    && (!depth || String(row.depth) === depth) && (!wanted || row.search.includes(wanted)));
}

function fill() {
  const found = matching();
  told.textContent = found.length + " of " + rows.length + " rows";
  list.replaceChildren(...found.map((row) => {
    const button = make("button", { type: "button", class: row.level, "data-id": row.id },
      make("b", {}, row.strategy), make("span", {}, row.family + ", depth " + row.depth + ", " + row.id.slice(0, 8)));
    button.addEventListener("click", () => { location.hash = "row=" + row.id; });
    return make("li", {}, button);
  }));
  mark();
}

function cell(segments, kind) {
  if (segments === null) return make("td", { class: "absent" });
  const changed = segments.some(([, isChanged]) => isChanged), whole = segments.every(([, isChanged]) => isChanged);
  return make("td", { class: changed ? kind : "" },
    ...segments.map(([text, isChanged]) => isChanged && !whole && text.trim() ? make("mark", {}, text) : document.createTextNode(text)));
}

function quoted(text) {
  return text.split("`").map((part, place) => place % 2 ? make("code", {}, part) : document.createTextNode(part));
}

function table(head, body) {
  return make("table", { class: "list" }, make("thead", {}, make("tr", {}, ...head.map((h) => make("th", {}, h)))),
    make("tbody", {}, ...body.map((line) => make("tr", {}, ...line.map((value) => make("td", {}, value))))));
}

function show(row) {
  const pairs = row.pairs.map(([before, after]) => make("tr", {}, cell(before, "old"), cell(after, "new")));
  const facts = row.facts.map(([name, holds, evidence]) =>
    [make("code", { class: holds ? "yes" : "no" }, (holds ? "✓ " : "✗ ") + name), evidence]);
  shown.replaceChildren(
    make("h3", {}, "Row " + row.id),
    make("div", {}, make("span", { class: "chip level " + row.level }, row.level),
      ...row.chips.map((text) => make("span", { class: "chip" }, text))),
    make("h3", {}, "Step"), make("div", { class: "step mono" }, row.step),
    make("h3", {}, "Before and after"),
    make("table", { class: "diff" }, make("thead", {}, make("tr", {}, make("th", {}, "before " + row.before), make("th", {}, "after " + row.after))),
      make("tbody", {}, ...pairs)),
    make("h3", {}, "Reasoning"), make("div", { class: "reasoning" }, ...row.reasoning.map((text) => make("p", {}, ...quoted(text)))),
    make("h3", {}, "Facts"), table(["fact", "evidence"], facts),
    make("h3", {}, "Verification"),
    table(["target", "largest error", "its bound", "bound used", "ULP", "bits as before", "inputs"], row.verification),
    row.latency.length ? make("h3", {}, "Latency") : null,
    row.latency.length ? table(["where", "median", "against the program before"], row.latency) : null,
    make("details", {}, make("summary", {}, "PyTorch source"), make("pre", {}, row.torch)),
    row.path.length ? make("details", {}, make("summary", {}, "The " + row.path.length + " steps before it"),
      make("pre", {}, row.path.join("\n"))) : null);
}

function mark() {
  const id = current();
  for (const button of list.querySelectorAll("button")) button.setAttribute("aria-current", String(button.dataset.id === id));
}

function current() {
  const found = /^#row=(.+)$/.exec(location.hash);
  return found && byId.has(found[1]) ? found[1] : rows.length ? rows[0].id : null;
}

function openCurrent() {
  const id = current();
  if (id !== null) show(byId.get(id));
  mark();
  if (location.hash.startsWith("#row=")) document.getElementById("browse").scrollIntoView();
}

for (const control of controls) control.addEventListener("input", fill);
window.addEventListener("hashchange", openCurrent);
fill();
openCurrent();
