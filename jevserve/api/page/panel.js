"use strict";

// The panel of code: its tabs, and copying from it.

/** Resolves to whether it was copied. Plain HTTP has no clipboard but for the old command. */
async function copy(content) {
  try {
    await navigator.clipboard.writeText(content);
    return true;
  } catch {
    const area = element("textarea", { "aria-hidden": "true", class: "unseen" });
    area.value = content;
    const focused = document.activeElement;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    focused?.focus();
    return done;
  }
}

const copied = (done, message) => tell(done ? message : "The browser did not allow copying.");

function selectTab(tab, focus) {
  for (const other of $("tabs").children) {
    const on = other === tab;
    other.setAttribute("aria-selected", on);
    other.tabIndex = on ? 0 : -1;
    $(other.getAttribute("aria-controls")).hidden = !on;
  }
  if (focus) tab.focus();
}

function tabKeys(event) {
  const tabs = [...$("tabs").children];
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  selectTab(tabs.at((tabs.indexOf(event.target) + step) % tabs.length), true);
}

async function copyCode() {
  const [panel] = document.querySelectorAll("[role=tabpanel]:not([hidden]) [data-code]");
  copied(await copy(panel.value ?? panel.textContent), "Copied.");
}
