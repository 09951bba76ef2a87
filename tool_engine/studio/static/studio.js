// What moves: ages that grow, times as the reader's clock has them, keys, and copies.
"use strict";

(() => {
  const grown = new WeakMap();
  const SILENCE = 12_000; // milliseconds: what moves by itself asks or hears three times as often
  const heard = new WeakMap();
  const lost = new Map();

  function show(seconds) {
    if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
    if (seconds < 60) return `${seconds.toFixed(1)} s`;
    const whole = Math.round(seconds);
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
    return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  }

  // An age of the server's grows here until the server says another one.
  function grow() {
    if (lost.size) return; // nothing is known of the time since
    const now = performance.now() / 1000;
    for (const each of document.querySelectorAll("[data-age]")) {
      let known = grown.get(each);
      if (!known || known.said !== each.dataset.age) {
        known = { said: each.dataset.age, since: now - Number(each.dataset.age) };
        grown.set(each, known);
      }
      each.textContent = show(now - known.since);
    }
    for (const each of document.querySelectorAll("[data-until]")) {
      const left = Number(each.dataset.until) - Date.now() / 1000;
      each.textContent = show(Math.max(0, left));
    }
  }

  function showTimes() {
    for (const each of document.querySelectorAll(":not([data-until]) > time[datetime]:not([title])")) {
      each.title = each.textContent;
      each.textContent = new Date(each.dateTime).toLocaleString(document.documentElement.lang);
    }
  }

  function say(text) {
    const place = document.getElementById("said");
    if (place) place.textContent = text;
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    await navigator.clipboard.writeText(source.value ?? source.textContent);
    say(button.dataset.said ?? "");
  });

  // One form is sent once, however often its button is pressed before the answer is there. It is
  // heard before htmx hears of it.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    if (form.dataset.sent) {
      event.preventDefault();
      event.stopImmediatePropagation();
      return;
    }
    form.dataset.sent = "yes";
    setTimeout(() => delete form.dataset.sent, 5000);
  }, true);

  document.addEventListener("htmx:finally:request", ({ detail }) => {
    delete detail.ctx.sourceElement?.dataset.sent; // which may have left the page
  });

  // The second half of a double click is no press of its own, however soon the answer came.
  document.addEventListener("click", (event) => {
    const button = event.target.closest('form[method="post"] button:not([formaction])');
    if (!button || event.detail < 2) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  // What is not filled in is left out of the address.
  document.addEventListener("formdata", ({ target, formData }) => {
    if (target.method !== "get") return;
    for (const [name, value] of [...formData]) if (value === "") formData.delete(name);
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const wanted = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!wanted) return;
    event.preventDefault();
    if (wanted.matches("input, textarea, select")) wanted.focus();
    else wanted.click();
  });

  // How many requests wait stands in the title, for those who look at another tab.
  const title = document.title;
  function countInTitle() {
    const count = document.querySelector("[data-count]")?.dataset.count;
    document.title = count ? `(${count}) ${title}` : title;
  }

  // What moves must not be taken for what is so now, once nothing comes any more.
  function hear(each) {
    heard.set(each, Date.now());
    if (lost.delete(each)) showLost();
  }

  function lose(each) {
    if (lost.has(each)) return;
    lost.set(each, heard.get(each) ?? Date.now());
    showLost();
  }

  // A stream that broke off comes back by itself, but not one that never began.
  function connectAgain(each) {
    const address = each.getAttribute?.("hx-sse:connect");
    if (!address) return;
    setTimeout(() => {
      if (each.isConnected && !each._htmx?.sse) htmx.ajax("GET", address, { source: each });
    }, 2000);
  }

  function showLost() {
    for (const each of lost.keys()) if (!each.isConnected) lost.delete(each);
    const note = document.getElementById("lost");
    if (!note) return;
    note.hidden = lost.size === 0;
    if (note.hidden) return;
    const since = new Date(Math.min(...lost.values()));
    note.querySelector("time").textContent = since.toLocaleString(document.documentElement.lang);
  }

  function watch() {
    if (lost.size) showLost();
    if (document.hidden) return;
    for (const each of document.querySelectorAll("[hx-trigger*='every '], [data-moves]")) {
      if (!heard.has(each)) heard.set(each, Date.now());
      else if (Date.now() - heard.get(each) > SILENCE) lose(each);
    }
  }

  // A browser lets pages rest that are not seen.
  document.addEventListener("visibilitychange", () => {
    for (const each of document.querySelectorAll("[hx-trigger*='every '], [data-moves]")) {
      heard.set(each, Date.now());
    }
  });
  document.addEventListener("htmx:after:request", ({ target, detail }) => {
    if (detail.ctx.response.status < 500) return hear(target);
    lose(target);
    connectAgain(target);
  });
  document.addEventListener("htmx:error", ({ target, detail }) => {
    if (!detail.ctx || detail.ctx.response) return;
    lose(target);
    connectAgain(target);
  });
  for (const name of ["after:connection", "after:message"]) {
    document.addEventListener(`htmx:sse:${name}`, ({ target }) => hear(target));
  }
  document.addEventListener("htmx:sse:error", ({ target }) => lose(target));

  setInterval(watch, 1000);
  setInterval(grow, 500);
  document.addEventListener("DOMContentLoaded", grow);
  document.addEventListener("htmx:after:swap", grow);
  document.addEventListener("htmx:after:swap", countInTitle);
  document.addEventListener("DOMContentLoaded", showTimes);
  document.addEventListener("htmx:after:swap", showTimes);
  if (document.readyState !== "loading") showTimes();
})();
