// The console's own script. Pages work without it. It shows times relative to now, and updates a page
// when the server says that it has changed.
(() => {
  "use strict";
  const root = document.documentElement;
  root.classList.add("scripted");

  // Times.
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const span = seconds => {
    if (seconds < 1) return "now";
    for (let i = 0; i < units.length; i++) {
      const [size, name] = units[i];
      if (seconds < size) continue;
      let text = Math.floor(seconds / size) + " " + name;
      if (i + 1 < units.length && seconds < 10 * size) {
        const rest = Math.floor(seconds % size / units[i + 1][0]);
        if (rest > 0) text += " " + rest + " " + units[i + 1][1];
      }
      return text;
    }
  };
  const skew = Date.now() - Date.parse(root.dataset.now || new Date().toISOString());
  const times = () => {
    const now = Date.now() - skew;
    for (const e of document.querySelectorAll("time[data-relative]")) {
      const seconds = (now - Date.parse(e.dateTime)) / 1000;
      if (!e.title) e.title = e.textContent;
      const text = span(Math.abs(seconds));
      const words = text === "now" ? text : seconds > 0 ? text + " ago" : "in " + text;
      if (e.textContent !== words) e.textContent = words;
    }
  };
  times();
  setInterval(times, 1000);
  document.addEventListener("htmx:after:swap", times);

  // Updates.
  const button = document.getElementById("live");
  let source = null, wanted = true;
  const show = (state, text) => {
    root.classList.remove("live-on", "live-off", "live-lost");
    root.classList.add("live-" + state);
    if (button) button.querySelector("span.text").textContent = text;
  };
  const close = () => { if (source) source.close(); source = null; };
  const open = () => {
    const main = document.getElementById("main");
    if (source || !wanted || document.hidden || !main || !main.dataset.live) return;
    source = new EventSource(main.dataset.live);
    source.addEventListener("open", () => show("on", "Live"));
    source.addEventListener("changed", () => { if (window.htmx) htmx.trigger(document.body, "pawl:changed"); });
    source.addEventListener("gone", () => { close(); wanted = false; show("lost", "Updates ended"); });
    source.addEventListener("error", () => show("lost", "Connecting"));
  };
  if (button) {
    button.addEventListener("click", () => {
      wanted = !wanted;
      button.setAttribute("aria-pressed", String(wanted));
      if (wanted) open(); else { close(); show("off", "Paused"); }
    });
  }
  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else open(); });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);
  open();

  // A form is sent once.
  document.addEventListener("submit", event => {
    const form = event.target;
    if (form.method !== "post") return;
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = "1";
  });
  window.addEventListener("pageshow", () => document.querySelectorAll("form[data-sent]").forEach(f => delete f.dataset.sent));
})();
