"use strict";

// The filter of the reference.

const filter = document.getElementById("filter");
const entries = [...document.querySelectorAll(".entry")];
const links = new Map(
  [...document.querySelectorAll(".contents li")].map((item) => [
    item.firstElementChild.hash.slice(1),
    item,
  ]),
);

filter.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/);
  let found = 0;
  for (const entry of entries) {
    const text = entry.textContent.toLowerCase();
    const hit = words.every((word) => text.includes(word));
    entry.hidden = !hit;
    links.get(entry.id).hidden = !hit;
    found += hit;
  }
  document.getElementById("found").textContent = filter.value && `${found} of ${entries.length}`;
});
