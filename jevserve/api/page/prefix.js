"use strict";

// What stands before the page's own path is the prefix of the service, with or without a slash
// behind it. Only the browser knows it: an ingress may take it away before the service is reached.

const OWN_PATH = document.body.dataset.path;
const BASE = location.pathname.replace(/\/+$/, "").slice(0, -OWN_PATH.length || undefined) + "/";

for (const link of document.querySelectorAll("a[data-path]")) {
  link.setAttribute("href", BASE + link.dataset.path);
}
