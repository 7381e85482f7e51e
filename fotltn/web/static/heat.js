// Heat maps of any size: only the rows that are seen are drawn, and fetched when they come into view.
"use strict";

const PART = 64; // rows that are fetched at once
const STORED = 400; // such parts that are stored
const TALLEST = 8e6; // pixels that every browser can scroll over
const NONE = 255; // the byte of a cell that does not count

class HeatMap {
  constructor(frame) {
    this.frame = frame;
    this.rows = Number(frame.dataset.rows);
    this.times = Number(frame.dataset.times);
    this.tall = Number(frame.dataset.tall || 12);
    this.panels = JSON.parse(frame.dataset.panels).map((p) => ({ ...p, parts: new Map() }));
    this.scroller = frame.querySelector(".heat-scroll");
    this.canvas = frame.querySelector("canvas");
    this.status = frame.querySelector("[role=status]");
    this.small = document.createElement("canvas");
    for (const panel of this.panels) {
      if (panel.first) panel.parts.set(0, unpacked(bytes(panel.first)));
    }
    this.cursor = null;
    this.drawing = false;
    this.spacer = document.createElement("div");
    this.spacer.className = "heat-spacer";
    this.scroller.append(this.spacer);
    this.listen();
    this.measure();
  }

  listen() {
    this.scroller.addEventListener("scroll", () => this.soon(), { passive: true });
    this.scroller.addEventListener("pointermove", (e) => this.point(this.under(e)));
    this.scroller.addEventListener("pointerleave", () => this.point(null));
    this.scroller.addEventListener("click", (e) => this.open(this.under(e)));
    this.scroller.addEventListener("keydown", (e) => this.key(e));
    this.scroller.addEventListener("focus", () => {
      if (!this.cursor) this.point({ row: 0, time: 0, panel: 0 });
    });
    new ResizeObserver(() => this.measure()).observe(this.frame);
  }

  // Sizes and colours, which change with the window and the scheme.
  measure() {
    const style = getComputedStyle(this.frame);
    this.ink = style.getPropertyValue("--ink").trim();
    this.soft = style.getPropertyValue("--soft").trim();
    this.bad = style.getPropertyValue("--bad").trim();
    this.ground = style.getPropertyValue("--raised").trim();
    this.font = `11px ${style.getPropertyValue("--mono")}`;
    for (const panel of this.panels) panel.shades = shades(style, panel.hue, panel.reversed);
    const room = this.scroller.clientWidth;
    if (!room) return;
    this.gutter = Math.min(this.labelled(), Math.floor(room * 0.4));
    this.head = this.panels.some((p) => p.title) ? 34 : 18;
    this.gap = 18;
    const inside = room - this.gutter - this.gap * (this.panels.length - 1) - 6;
    const fitting = Math.floor(inside / this.panels.length / this.times);
    this.wide = Math.max(3, Math.min(32, fitting));
    this.span = this.times * this.wide;
    const width = this.gutter + (this.span + this.gap) * this.panels.length - this.gap + 6;
    this.height = this.rows * this.tall;
    const most = Math.min(this.height + this.head + 4, Math.max(220, innerHeight * 0.62));
    this.scroller.style.height = `${most + (width > room ? 14 : 0)}px`;
    this.view = { width: room, height: this.scroller.clientHeight };
    this.spacer.style.width = `${width}px`;
    this.spacer.style.height = `${Math.min(TALLEST, this.height + this.head)}px`;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(this.view.width * ratio);
    this.canvas.height = Math.round(this.view.height * ratio);
    this.canvas.style.width = `${this.view.width}px`;
    this.canvas.style.height = `${this.view.height}px`;
    this.spacer.style.marginTop = `${-this.view.height}px`;
    this.soon();
  }

  labelled() {
    const letters = Number(this.frame.dataset.letters || 12);
    return Math.max(40, Math.ceil(letters * 6.8) + 14);
  }

  // The first row that is seen, as a fraction; beyond the tallest page, scrolling is compressed.
  get top() {
    const room = this.spacer.offsetHeight - this.view.height;
    const real = this.height + this.head - this.view.height;
    const ratio = room > 0 && real > room ? real / room : 1;
    return (this.scroller.scrollTop * ratio) / this.tall;
  }

  set top(row) {
    const room = this.spacer.offsetHeight - this.view.height;
    const real = this.height + this.head - this.view.height;
    const ratio = room > 0 && real > room ? real / room : 1;
    this.scroller.scrollTop = (row * this.tall) / ratio;
  }

  soon() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.draw();
    });
  }

  part(panel, number) {
    const known = panel.parts.get(number);
    if (known) {
      panel.parts.delete(number);
      panel.parts.set(number, known); // the last used is the last to go
      return known;
    }
    const made = { labels: null, cells: null };
    panel.parts.set(number, made);
    if (panel.parts.size > STORED) panel.parts.delete(panel.parts.keys().next().value);
    const address = `${panel.url}&from=${number * PART}&count=${PART}`;
    fetch(address)
      .then((answer) => (answer.ok ? answer.arrayBuffer() : Promise.reject(answer.status)))
      .then((buffer) => {
        Object.assign(made, unpacked(buffer));
        this.soon();
      })
      .catch(() => panel.parts.delete(number));
    return made;
  }

  // The byte and the label of a cell, or nothing where they are not there yet.
  cell(panel, row, time) {
    const part = this.part(this.panels[panel], Math.floor(row / PART));
    if (!part.cells) return null;
    const label = part.labels[row % PART];
    return label && { ...label, byte: part.cells[(row % PART) * this.times + time] };
  }

  draw() {
    if (!this.view) return;
    const context = this.canvas.getContext("2d");
    const ratio = devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.view.width, this.view.height);
    const top = this.top;
    const first = Math.floor(top);
    const last = Math.min(this.rows, Math.ceil(top + (this.view.height - this.head) / this.tall));
    const left = this.scroller.scrollLeft;
    this.panels.forEach((panel, place) => {
      const x = this.gutter + place * (this.span + this.gap) - left;
      const y = this.head + (first - top) * this.tall;
      this.image(panel, first, last);
      context.imageSmoothingEnabled = false;
      context.fillStyle = this.ground;
      context.fillRect(x, y, this.span, (last - first) * this.tall);
      if (last > first) {
        context.drawImage(
          this.small, 0, 0, this.times, last - first, x, y, this.span, (last - first) * this.tall,
        );
      }
      context.clearRect(x - 1, 0, this.span + 2, this.head - 2);
      this.ticks(context, panel, x);
    });
    this.labels(context, first, last, top);
    if (this.cursor) this.mark(context, top, left);
    const ready = this.panels.every((panel) => this.there(panel, first, last));
    this.frame.dataset.ready = String(ready);
    if (ready) performance.mark("heat map");
  }

  // Whether all rows that are seen have come.
  there(panel, first, last) {
    for (let row = first; row < last; row += PART) {
      if (!this.part(panel, Math.floor(row / PART)).cells) return false;
    }
    return last === first || Boolean(this.part(panel, Math.floor((last - 1) / PART)).cells);
  }

  image(panel, first, last) {
    const height = Math.max(1, last - first);
    this.small.width = this.times;
    this.small.height = height;
    const context = this.small.getContext("2d");
    const image = context.createImageData(this.times, height);
    const pixels = new Uint32Array(image.data.buffer);
    for (let row = first; row < last; row += 1) {
      const { cells } = this.part(panel, Math.floor(row / PART));
      if (!cells) continue;
      const from = (row % PART) * this.times;
      const to = (row - first) * this.times;
      for (let time = 0; time < this.times; time += 1) {
        pixels[to + time] = panel.shades[cells[from + time]];
      }
    }
    context.putImageData(image, 0, 0);
  }

  ticks(context, panel, x) {
    context.font = this.font;
    context.fillStyle = this.soft;
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    if (panel.title) {
      context.fillStyle = this.ink;
      context.fillText(fitted(context, panel.title, this.span), x, 11);
      context.fillStyle = this.soft;
    }
    const every = nice(46 / this.wide);
    for (let time = 0; time < this.times; time += every) {
      context.fillText(String(time), x + time * this.wide, this.head - 6);
    }
  }

  labels(context, first, last, top) {
    context.font = this.font;
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.clearRect(0, 0, this.gutter - 4, this.view.height);
    context.fillStyle = this.soft;
    for (let row = first; row < last; row += 1) {
      const { labels } = this.part(this.panels[0], Math.floor(row / PART));
      const y = this.head + (row - top + 0.5) * this.tall;
      if (y < this.head) continue;
      const label = labels && labels[row % PART];
      if (!label) continue;
      context.fillStyle = label.wrong ? this.bad : this.soft;
      const marked = label.wrong ? `✗ ${label.text}` : label.text;
      context.fillText(fitted(context, marked, this.gutter - 12), 2, y);
    }
  }

  mark(context, top, left) {
    const { row, time, panel } = this.cursor;
    const y = this.head + (row - top) * this.tall;
    if (y < this.head - this.tall || y > this.view.height) return;
    const x = this.gutter + panel * (this.span + this.gap) + time * this.wide - left;
    context.strokeStyle = this.ink;
    context.lineWidth = 1.5;
    context.strokeRect(x - 0.75, y - 0.75, this.wide + 1.5, this.tall + 1.5);
  }

  under(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left + this.scroller.scrollLeft - this.gutter;
    const y = event.clientY - box.top - this.head;
    const row = Math.floor(this.top + y / this.tall);
    const panel = Math.floor(x / (this.span + this.gap));
    const time = Math.floor((x - panel * (this.span + this.gap)) / this.wide);
    const inside = x >= 0 && y >= 0 && row < this.rows && panel < this.panels.length;
    return inside && time < this.times ? { row, time, panel } : null;
  }

  // Say what is under the pointer, or at the cursor of the keyboard.
  point(where) {
    this.cursor = where;
    this.soon();
    const cell = where && this.cell(where.panel, where.row, where.time);
    this.scroller.classList.toggle("over", Boolean(cell) && cell.byte !== NONE);
    if (!where) return;
    if (!cell) {
      this.status.textContent = "…";
      return;
    }
    const name = this.panels[where.panel].title;
    const value = cell.byte === NONE ? "not counted" : degree(cell.byte / 254, 2); // a byte has no more
    const place = this.times > 1 ? `, time ${where.time}` : "";
    this.status.textContent = `${name ? `${name}: ` : ""}${cell.text || "all"}${place}: ${value}`;
  }

  open(where) {
    const panel = where && this.panels[where.panel];
    const cell = where && this.cell(where.panel, where.row, where.time);
    if (!panel || !panel.open || !cell || cell.byte === NONE) return;
    const time = this.times > 1 ? `&t=${where.time}` : "";
    visit(`${panel.open}${panel.open.includes("?") ? "&" : "?"}${cell.at}${time}`);
  }

  key(event) {
    const page = Math.max(1, Math.floor((this.view.height - this.head) / this.tall) - 1);
    const moves = {
      ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1],
      PageDown: [page, 0], PageUp: [-page, 0], Home: [-this.rows, -this.times],
      End: [this.rows, 0],
    };
    const at = this.cursor || { row: 0, time: 0, panel: 0 };
    if (event.key === "Enter") {
      this.open(at);
      return;
    }
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    let { panel } = at;
    let time = at.time + move[1];
    if (time >= this.times && panel + 1 < this.panels.length) [panel, time] = [panel + 1, 0];
    else if (time < 0 && panel > 0 && move[0] === 0) [panel, time] = [panel - 1, this.times - 1];
    const row = Math.max(0, Math.min(this.rows - 1, at.row + move[0]));
    time = Math.max(0, Math.min(this.times - 1, time));
    this.reveal(row, time, panel);
    this.point({ row, time, panel });
  }

  reveal(row, time, panel) {
    const seen = Math.floor((this.view.height - this.head) / this.tall);
    if (row < Math.ceil(this.top)) this.top = row;
    else if (row >= Math.floor(this.top) + seen) this.top = row - seen + 1;
    const x = panel * (this.span + this.gap) + time * this.wide;
    const room = this.view.width - this.gutter;
    if (x < this.scroller.scrollLeft) this.scroller.scrollLeft = x;
    else if (x + this.wide > this.scroller.scrollLeft + room) {
      this.scroller.scrollLeft = x + this.wide - room + 4;
    }
  }
}

// Rows as they travel: the length of a head, the head with labels, a byte for each cell.
function unpacked(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  return { labels: head.labels, cells: new Uint8Array(buffer, 4 + length) };
}

function bytes(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)).buffer;
}

// For each byte a colour, more opaque the further a degree is from what one hopes for. The root lets
// cells stand out that are half true; the scale of parts.html has the same.
function shades(style, hue, reversed) {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  probe.fillStyle = style.getPropertyValue(hue).trim();
  probe.fillRect(0, 0, 1, 1);
  const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
  const colours = new Uint32Array(256);
  for (let byte = 0; byte < NONE; byte += 1) {
    const far = reversed ? byte / 254 : 1 - byte / 254;
    const alpha = far === 0 ? 0 : Math.round(20 + 235 * far ** 0.6);
    colours[byte] = ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  }
  probe.fillStyle = style.getPropertyValue("--paper").trim();
  probe.fillRect(0, 0, 1, 1);
  const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
  colours[NONE] = ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  return colours;
}

// A degree as text, as fotltn/format.py writes it: only 0 reads 0, and only 1 reads 1.
function degree(value, digits = 3) {
  const text = value.toFixed(digits);
  if (value <= 0 || value >= 1 || (Number(text) > 0 && Number(text) < 1)) return text;
  const step = 10 ** -digits;
  return value < 0.5 ? `<${step.toFixed(digits)}` : `>${(1 - step).toFixed(digits)}`;
}

function nice(least) {
  for (let ten = 1; ; ten *= 10) {
    for (const step of [1, 2, 5]) if (step * ten >= least) return step * ten;
  }
}

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const letters = Array.from(text);
  const each = context.measureText("n").width;
  return `${letters.slice(0, Math.max(1, Math.floor(width / each) - 1)).join("")}…`;
}

function heatMaps(root) {
  for (const frame of root.querySelectorAll("[data-panels]")) {
    if (Number(frame.dataset.rows)) frame.heat = new HeatMap(frame);
  }
}
