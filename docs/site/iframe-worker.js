// Browsers start no worker from a file that was opened without a server. There, the search runs in
// an empty frame of the page instead: what is posted to the one is told to the other.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const start = () => {
        const frame = document.createElement("iframe");
        frame.hidden = true;
        document.body.appendChild(frame);
        this.inside = frame.contentWindow;
        this.inside.postMessage = (data) => this.tell(this, data);
        const script = this.inside.document.createElement("script");
        script.src = new URL(url, location.href);
        script.onload = () => {
          this.ready = true;
          this.waiting.splice(0).forEach((data) => this.postMessage(data));
        };
        this.inside.document.body.appendChild(script);
      };
      document.body ? start() : addEventListener("DOMContentLoaded", start);
    }

    postMessage(data) {
      if (this.ready) this.tell(this.inside, data);
      else this.waiting.push(data);
    }

    tell(target, data) {
      const event = new MessageEvent("message", { data });
      setTimeout(() => {
        target.dispatchEvent(event);
        if (target === this && this.onmessage) this.onmessage(event);
      });
    }

    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}

// To the search, operators in ASCII are punctuation, or the beginnings of words. Asked for one of
// them, it looks for the sign that means the same.
const SIGNS = new Map(Object.entries({
  "!": "¬", "&": "∧", "|": "∨", "->": "→", "<->": "↔", forall: "∀", exists: "∃",
  X: "○", WX: "●", F: "◇", G: "□", U: "𝒰", R: "ℛ", W: "𝒲", M: "ℳ",
  Y: "⊖", WY: "⊛", O: "⟐", H: "⊟", S: "𝒮", T: "𝒯",
}));
window.Worker = class extends window.Worker {
  postMessage(message, ...others) {
    const sign = typeof message?.data === "string" && SIGNS.get(message.data.trim());
    super.postMessage(sign ? { ...message, data: sign } : message, ...others);
  }
};
