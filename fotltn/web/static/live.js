// A running watch: asks every second how it stands, and shows what is new.
"use strict";

const EVERY = 1000; // milliseconds

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function row(cells) {
  const made = element("tr");
  cells.forEach(([content, kind], place) => {
    const cell = element(place === 0 ? "th" : "td", undefined, kind);
    if (place === 0) cell.scope = "row";
    if (content instanceof Node) cell.append(content);
    else cell.textContent = content;
    made.append(cell);
  });
  return made;
}

const count = (number) => (number === null || number === undefined ? "–" : number.toLocaleString("en"));
const named = (binding) => Object.entries(binding).map(([variable, name]) => `${variable} = ${name}`).join(", ");

// Violations by stretch of steps, as bars; readers of the screen hear the highest.
function bars(counts, width) {
  const space = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(space, "svg");
  const most = Math.max(1, ...counts);
  drawing.setAttribute("viewBox", `0 0 ${Math.max(1, counts.length)} 10`);
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("role", "img");
  const per = width === 1 ? "a step" : `${count(width)} steps`;
  drawing.setAttribute("aria-label", `at most ${count(Math.max(0, ...counts))} violations in ${per}`);
  counts.forEach((number, place) => {
    if (!number) return;
    const bar = document.createElementNS(space, "rect");
    const height = Math.max(1, (10 * number) / most);
    const box = { x: place, y: 10 - height, width: 0.9, height };
    for (const [name, value] of Object.entries(box)) bar.setAttribute(name, value);
    drawing.append(bar);
  });
  return drawing;
}

let newest = null;

function alarms(events) {
  const list = document.getElementById("alarms");
  document.getElementById("no-alarms").hidden = events.length > 0;
  const known = newest;
  if (events.length) newest = events[0].number;
  if (known !== null && events.length && events[0].number < known) list.replaceChildren();
  const fresh = events.filter((event) => known === null || event.number > known || newest < known);
  for (const event of fresh.reverse()) {
    const item = element("li");
    const time = event.time === event.step ? "" : `time ${count(event.time)}`;
    const cell = [named(event.binding), time].filter(Boolean).join(", ");
    item.append(element("b", event.axiom), ` at step ${count(event.step)}${cell && `: ${cell}`}`);
    const because = event.because.map((one) => `${one.formula} at ${count(one.time)} ${one.truth}`).join(", ");
    item.append(element("span", because, "because soft"));
    list.prepend(item);
  }
  while (list.children.length > 100) list.lastChild.remove();
}

function show(now) {
  const quiet = now.quiet ? `nothing written for ${now.quiet}` : "running";
  const state = now.ended ? "has ended" : quiet;
  document.getElementById("state").textContent = `${count(now.steps)} step${now.steps === 1 ? "" : "s"}, ${state}`;
  if (now.window) document.getElementById("window").textContent = `In the last ${count(now.window)}`;
  document.querySelector("#axioms tbody").replaceChildren(...now.axioms.map((one) => row([
    [one.axiom], [count(one.violations), "number"], [count(one.recent), "number"],
    [count(one.open), "number"], [count(one.last), "number"],
    [bars(now.timeline[one.axiom] || [], now.width)],
  ])));
  alarms(now.alarms);
  const shown = now.open.length < now.open_in_all ? `, of which ${count(now.open.length)} are shown` : "";
  document.getElementById("open-count").textContent = `${count(now.open_in_all)} open${shown}.`;
  document.querySelector("#open tbody").replaceChildren(...now.open.map((cell) => row([
    [cell.axiom], [named(cell.binding)], [count(cell.time), "number"], [cell.needs],
    [count(cell.due), "number"],
  ])));
}

async function follow() {
  try {
    const response = await fetch("/?format=json", { headers: { Accept: "application/json" } });
    if (response.ok) show(await response.json());
    else document.getElementById("state").textContent = "the page cannot be read; is the token right?";
  } catch {
    document.getElementById("state").textContent = "the inspector was stopped";
  }
  setTimeout(follow, EVERY);
}

follow();
