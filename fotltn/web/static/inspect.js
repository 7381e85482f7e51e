// From page to page. Links work without scripts; with them, only what is on a page is replaced, which
// is faster.
"use strict";

// --- what is still being computed --------------------------------------------------------------

// Look again until everything is there; only what is new is replaced, so that nothing jumps.
function pending(root) {
  const waiting = root.querySelector("[data-pending]");
  if (!waiting) return;
  setTimeout(async () => {
    if (!waiting.isConnected) return;
    if (waiting.dataset.pending === "reload") {
      location.reload();
      return;
    }
    const old = waiting.closest("section[data-pending]") || waiting.closest("main");
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const made = old.id === "main" ? page.querySelector("main") : page.getElementById(old.id);
    if (!made || !old.isConnected) return; // somebody went on to another page
    if (made.innerHTML !== old.innerHTML) old.replaceWith(document.adoptNode(made));
    pending(document);
  }, 500);
}

// --- from page to page -------------------------------------------------------------------------

let going = null;

// Show another page in place of this one; where that fails, go there as browsers do.
async function visit(address, { back = false, top = 0 } = {}) {
  if (going) going.abort();
  going = new AbortController();
  const { signal } = going;
  const target = new URL(address, location.href);
  document.documentElement.classList.add("busy");
  try {
    const answer = await fetch(target, { signal, headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const made = page.querySelector(".page");
    if (!answer.ok || !made || !page.querySelector("nav.tabs")) throw new Error("no page");
    if (signal.aborted) return;
    if (!back) {
      history.replaceState({ top: scrollY }, "");
      history.pushState({ top: 0 }, "", target);
    }
    document.querySelector(".page").replaceWith(document.adoptNode(made));
    document.title = page.title;
    arrive(target.hash, top);
  } catch (error) {
    if (error.name !== "AbortError") location.assign(target);
  } finally {
    if (!signal.aborted) document.documentElement.classList.remove("busy");
  }
}

// Readers of the screen are told of the new page by its heading.
function arrive(hash, top) {
  const place = hash && document.getElementById(hash.slice(1));
  const heading = place || document.querySelector("h1");
  if (place || !focusBox()) {
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  }
  if (place) place.scrollIntoView({ behavior: "instant" });
  else scrollTo({ top, behavior: "instant" });
  begin();
}

// Whether the page has a box to type in, which then gets the focus.
function focusBox() {
  const box = document.querySelector("[autofocus]");
  box?.focus({ preventScroll: true });
  return Boolean(box);
}

function ours(address) {
  const url = new URL(address, location.href);
  const here = url.pathname === location.pathname && url.search === location.search;
  return url.origin === location.origin && !url.searchParams.has("format") && !(here && url.hash);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  const plain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.button);
  if (!link || !plain || event.defaultPrevented || !ours(link.href)) return;
  if (link.hasAttribute("download")) return;
  event.preventDefault();
  visit(link.href);
});

document.addEventListener("submit", (event) => {
  if (event.defaultPrevented) return;
  event.preventDefault();
  const asked = [...new FormData(event.target)].filter(([, value]) => value !== "");
  const { hash } = event.target.dataset;
  visit(`${event.target.getAttribute("action")}?${new URLSearchParams(asked)}${hash ? `#${hash}` : ""}`);
});

addEventListener("popstate", (event) => {
  visit(location.href, { back: true, top: event.state?.top ?? 0 });
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const frame of document.querySelectorAll(".heat")) frame.heat?.measure();
});

function begin() {
  heatMaps(document);
  scenes(document);
  for (const form of document.querySelectorAll("[data-formula]")) new FormulaBox(form);
  pending(document);
}

if (!location.hash) focusBox(); // a browser does so when it paints, and a key may come before
begin();
