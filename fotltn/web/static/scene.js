// A scene that moves: the facts of a time in place, a slider, and a button that plays.
"use strict";

const EACH = 250; // milliseconds for a time
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
    this.rows = [...frame.querySelectorAll("tbody tr")];
    this.timer = null;
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

  // Entities as dots on a plane that holds all their places.
  draw(time) {
    const svg = this.frame.querySelector(".plane");
    const every = this.plane.flat();
    const lows = [0, 1].map((i) => Math.min(...every.map((p) => p[i])));
    const highs = [0, 1].map((i) => Math.max(...every.map((p) => p[i])));
    const scale = [0, 1].map((i) => (highs[i] > lows[i] ? highs[i] - lows[i] : 1));
    svg.replaceChildren(...this.plane[time].flatMap(([x, y], place) => {
      const at = [20 + (560 * (x - lows[0])) / scale[0], 280 - (260 * (y - lows[1])) / scale[1]];
      const dot = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      const label = document.createElementNS("http://www.w3.org/2000/svg", "text");
      dot.setAttribute("cx", at[0]);
      dot.setAttribute("cy", at[1]);
      dot.setAttribute("r", 5);
      dot.setAttribute("class", this.violations[place * this.times + time] ? "wrong" : "right");
      label.setAttribute("x", at[0] + 8);
      label.setAttribute("y", at[1] + 4);
      label.textContent = this.rows[place].cells[0].textContent;
      return [dot, label];
    }));
  }
}

function scenes(root) {
  for (const frame of root.querySelectorAll("[data-scene]")) frame.scene = new Scene(frame);
}
