"use strict";
const root = document.documentElement;
const store = {  // what a refresh must not forget; a browser may refuse it to a local file
  get(key) { try { return sessionStorage.getItem(location.pathname + key); } catch { return null; } },
  set(key, value) { try { sessionStorage.setItem(location.pathname + key, value); } catch { /* then it forgets */ } },
};

const theme = document.getElementById("theme");
function showTheme(dark) {
  root.dataset.theme = dark ? "dark" : "light";
  theme.setAttribute("aria-pressed", String(dark));
}
const chosen = store.get("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
if (chosen) showTheme(chosen === "dark");
else theme.setAttribute("aria-pressed", String(system.matches));
theme.hidden = false;
theme.addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme !== "dark" : !system.matches;
  showTheme(dark);
  store.set("theme", dark ? "dark" : "light");
});

const slider = document.getElementById("round");
if (slider) {
  const frames = [...document.querySelectorAll(".frame")];
  const show = () => {
    const shown = frames[slider.value];
    for (const frame of frames) frame.hidden = frame !== shown;
    document.getElementById("round-name").textContent = shown.dataset.name;
    slider.setAttribute("aria-valuetext", shown.dataset.name);
  };
  slider.addEventListener("input", () => { show(); store.set("round", slider.value === slider.max ? "" : slider.value); });
  const before = store.get("round");
  slider.value = before && Number(before) < frames.length ? before : frames.length - 1;
  show();
}

for (const details of document.querySelectorAll("details[id]")) {
  if (store.get(details.id)) details.open = true;
  details.addEventListener("toggle", () => store.set(details.id, details.open ? "open" : ""));
}

for (const button of document.querySelectorAll(".usage button")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.nextElementSibling.textContent);
    button.textContent = "Copied";
  });
}

const stop = document.getElementById("stop");
if (stop) {
  stop.hidden = false;
  stop.addEventListener("click", () => { window.stop(); stop.disabled = true; stop.textContent = "Stands still"; });
}

if (store.get("scroll")) scrollTo({ top: Number(store.get("scroll")), behavior: "instant" });
store.set("scroll", "");
if (stop) addEventListener("pagehide", () => store.set("scroll", scrollY));
