// A scene that moves: the facts of a time point, a slider, a button that plays, a timeline, a plane.
"use strict";

const EACH = 250; // milliseconds for a time
const SVG = "http://www.w3.org/2000/svg";
const FINE = 65534; // a degree of 1; the number above it stands for none

class Scene {
  constructor(frame) {
    const data = JSON.parse(frame.dataset.scene);
    this.frame = frame;
    this.times = Number(frame.dataset.times);
    this.predicates = data.predicates.map((text) => new Uint16Array(bytes(text)));
    this.violations = new Uint8Array(bytes(data.violations));
    this.violated = data.violated;
    this.plane = data.plane;
    this.clock = frame.querySelector("input[type=range]");
    this.button = frame.querySelector("[data-play]");
    this.output = frame.querySelector("output");
    this.rows = [...frame.querySelectorAll("[data-facts] tbody tr")];
    this.marks = [...frame.querySelectorAll(".timeline .now")];
    this.width = Number(frame.dataset.width); // time points in a column of the timeline
    this.sent = frame.querySelector("input[name=t]"); // with the choice of a predicate
    this.timer = null;
    for (const line of frame.querySelectorAll(".timeline tbody svg")) {
      line.addEventListener("click", (event) => this.jump(line, event));
    }
    if (this.plane) this.axes();
    this.clock.addEventListener("input", () => this.show(Number(this.clock.value)));
    this.button.addEventListener("click", () => (this.timer ? this.pause() : this.play()));
    this.show(Number(frame.dataset.time));
  }

  play() {
    if (Number(this.clock.value) >= this.times - 1) this.show(0);
    this.button.textContent = "Pause";
    this.timer = setInterval(() => {
      if (!this.frame.isConnected) clearInterval(this.timer);
      else if (Number(this.clock.value) >= this.times - 1) this.pause();
      else this.show(Number(this.clock.value) + 1);
    }, EACH);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = "Play";
    this.keep();
  }

  // To the time point that was clicked.
  jump(line, event) {
    const box = line.getBoundingClientRect();
    const columns = Math.ceil(this.times / this.width);
    const column = Math.floor((columns * (event.clientX - box.left)) / box.width);
    this.show(Math.max(0, Math.min(this.times - 1, column * this.width)));
    this.keep();
  }

  // The address leads to the time point that is shown.
  keep() {
    const address = new URL(location.href);
    address.searchParams.set("t", this.clock.value);
    history.replaceState(history.state, "", address);
  }

  show(time) {
    this.clock.value = String(time);
    this.output.textContent = `time ${time}`;
    this.rows.forEach((row, place) => {
      const at = place * this.times + time;
      this.predicates.forEach((values, number) => {
        const cell = row.cells[1 + number];
        const value = values[at] > FINE ? null : values[at] / FINE;
        cell.textContent = value === null ? "–" : degree(value);
        cell.className = `n shade s${Math.round(10 * value)}`;
      });
      const wrong = this.violations[at];
      const last = row.cells[row.cells.length - 1];
      last.textContent = wrong ? String(wrong) : "";
      last.className = wrong ? "n wrong" : "n";
    });
    for (const mark of this.marks) mark.setAttribute("x", Math.floor(time / this.width));
    if (this.sent) this.sent.value = String(time);
    this.now(time);
    if (this.plane) this.draw(time);
  }

  now(time) {
    const list = this.frame.querySelector("[data-now]");
    const items = this.violated[time].map((one) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = one.address;
      link.textContent = one.axiom;
      const name = document.createElement("span");
      name.className = "mono";
      name.textContent = one.binding;
      item.append(link, " ", name);
      return item;
    });
    if (!items.length) {
      const none = document.createElement("li");
      none.className = "soft";
      none.textContent = "nothing";
      items.push(none);
    }
    list.replaceChildren(...items);
  }

  // A number of an axis of the plane as a length in its drawing: 0 is x, 1 is y.
  place(axis, value) {
    const { low, high } = this.range[axis];
    const far = high > low ? (value - low) / (high - low) : 0.5;
    return axis ? 262 - 246 * far : 58 + 502 * far;
  }

  // Lines at round numbers, with the numbers and the names of the axes.
  axes() {
    const svg = this.frame.querySelector(".plane");
    if (!svg) return;
    this.range = JSON.parse(svg.dataset.axes);
    const [x, y] = this.range;
    const across = x.ticks.flatMap((tick) => {
      const at = this.place(0, tick);
      return [drawn("path", { d: `M${at} 10V268` }), drawn("text", { x: at, y: 280, "text-anchor": "middle" }, minus(tick))];
    });
    const up = y.ticks.flatMap((tick) => {
      const at = this.place(1, tick);
      return [drawn("path", { d: `M52 ${at}H580` }), drawn("text", { x: 48, y: at + 3, "text-anchor": "end" }, minus(tick))];
    });
    svg.querySelector(".axes").replaceChildren(
      ...across, ...up,
      drawn("text", { x: 310, y: 295, "text-anchor": "middle" }, x.name),
      drawn("text", { transform: "translate(12 140) rotate(-90)", "text-anchor": "middle" }, y.name),
    );
  }

  // Entities as dots on a plane that holds all their places.
  draw(time) {
    const dots = this.frame.querySelector(".plane .dots");
    if (!dots) return;
    dots.replaceChildren(...this.plane[time].flatMap(([x, y], place) => {
      if (x === null || y === null) return []; // nobody knows where
      const [cx, cy] = [this.place(0, x), this.place(1, y)];
      const wrong = this.violations[place * this.times + time] > 0;
      return [
        drawn("circle", { cx, cy, r: wrong ? 6 : 5, class: wrong ? "wrong" : "right" }),
        drawn("text", { x: cx + 9, y: cy + 4 }, this.rows[place].cells[0].textContent),
      ];
    }));
  }
}

// A number as pages write it.
const minus = (number) => String(number).replace("-", "−");

// A part of a drawing.
function drawn(kind, attributes, text) {
  const part = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, value);
  if (text !== undefined) part.textContent = String(text);
  return part;
}

function scenes(root) {
  for (const frame of root.querySelectorAll("[data-scene]")) frame.scene = new Scene(frame);
}
