// The box for formulas: what is typed is checked at once, and wrong places are underlined.
"use strict";

const PAUSE = 30; // milliseconds without a key before what is typed is sent
const LONG = 600; // milliseconds after which one can stop what is being computed

class FormulaBox {
  constructor(form) {
    this.form = form;
    this.text = form.querySelector("textarea");
    this.behind = form.querySelector(".formula-behind");
    this.stop = form.querySelector("[data-stop]");
    this.waiting = null;
    this.running = null;
    this.stop.addEventListener("click", () => {
      if (this.running) this.running.abort(); // the server gives up what nobody waits for
      this.say("Stopped.");
    });
    this.text.addEventListener("input", () => {
      this.underline([]);
      this.suggest();
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.ask(), PAUSE);
    });
    this.text.addEventListener("scroll", () => {
      this.behind.scrollTop = this.text.scrollTop;
    });
    this.text.addEventListener("keydown", (event) => {
      const first = this.fitting?.querySelector("button");
      if (event.key === "Escape") this.fitting?.replaceChildren();
      if (event.key === "Tab" && !event.shiftKey && first) {
        event.preventDefault();
        first.click();
      }
      if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        clearTimeout(this.waiting);
        this.ask();
      }
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask();
    });
    this.fitting = form.querySelector("[data-words]");
    this.words = this.fitting ? JSON.parse(this.fitting.dataset.words) : [];
    for (const button of form.querySelectorAll("[data-insert]")) {
      button.addEventListener("click", () => this.insert(button.dataset.insert, 0));
    }
    for (const example of document.querySelectorAll("[data-example]")) {
      example.addEventListener("click", () => {
        this.text.value = example.dataset.example;
        this.text.focus();
        this.ask();
      });
    }
    this.showMessages();
    if (this.text.value !== this.text.defaultValue) this.ask(); // typed before the script was there
  }

  // Put a text where the cursor is, in place of some letters before it.
  insert(text, instead) {
    const end = this.text.selectionEnd;
    this.text.setRangeText(text, this.text.selectionStart - instead, end, "end");
    this.text.focus();
    this.text.dispatchEvent(new InputEvent("input", { bubbles: true }));
  }

  // The words of the theory that begin as the word before the cursor does.
  suggest() {
    const before = this.text.value.slice(0, this.text.selectionStart);
    const begun = /[\p{L}_][\p{L}\p{N}_]*$/u.exec(before)?.[0] ?? "";
    const same = (word) => word.toLowerCase().startsWith(begun.toLowerCase());
    const fits = begun ? this.words.filter((word) => same(word) && word.trim() !== begun) : [];
    this.fitting.replaceChildren(...fits.slice(0, 8).map((word) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "plain";
      button.textContent = word;
      button.addEventListener("click", () => this.insert(word, begun.length));
      return button;
    }));
  }

  // The page for what is typed, of which only messages and result are taken: first with the value
  // alone, then, if nobody has typed on, with the heat map.
  async ask(part = "value") {
    if (this.running) this.running.abort();
    const running = new AbortController();
    this.running = running;
    const asked = new URLSearchParams(new FormData(this.form));
    const address = `${this.form.getAttribute("action")}?${asked}`;
    const long = setTimeout(() => { this.stop.hidden = false; }, LONG);
    try {
      const answer = await fetch(`${address}&part=${part}`, { signal: running.signal, headers: { Accept: "text/html" } });
      if (answer.status === 429) {
        this.waiting = setTimeout(() => this.ask(part), 500);
        return;
      }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (running.signal.aborted) return;
      const made = page.getElementById("result");
      if (!made) {
        location.assign(address);
        return;
      }
      document.getElementById("result").replaceWith(document.adoptNode(made));
      history.replaceState(null, "", address);
      this.showMessages();
      heatMaps(made);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.say("There was no answer. Is the inspector still running?");
      throw error;
    } finally {
      clearTimeout(long);
      if (this.running === running) this.stop.hidden = true;
    }
  }

  say(message) {
    document.getElementById("messages").textContent = message;
  }

  // Underline what is wrong, and ask for what is still missing.
  showMessages() {
    const messages = document.getElementById("messages");
    const wrong = messages ? JSON.parse(messages.dataset.spans) : [];
    this.text.setAttribute("aria-invalid", String(Boolean(messages && messages.dataset.wrong)));
    this.underline(wrong);
    if (document.querySelector("#result[data-again]")) {
      this.ask("all");
    }
  }

  // The same text behind the box, of which only the underlines are seen.
  underline(spans) {
    const letters = Array.from(this.text.value);
    this.behind.replaceChildren();
    let at = 0;
    for (const [start, end] of spans) {
      if (start < at) continue;
      this.behind.append(letters.slice(at, start).join(""));
      const mark = document.createElement("mark");
      mark.textContent = letters.slice(start, end).join("") || " ";
      this.behind.append(mark);
      at = Math.max(end, start);
    }
    this.behind.append(`${letters.slice(at).join("")}\n`);
    this.behind.scrollTop = this.text.scrollTop;
  }
}
