"use strict";

// The page at `/`: puts draft, form, code and answers together and talks to the service.

const DEFAULT_MODEL = "jev-latest";
const MOST_LINK = 12_000;
const MEND = "Mend the JSON in the form first.";

const $ = (id) => document.getElementById(id);

const ADDRESS = (location.origin + BASE).replace(/\/$/, "");
const STORE = `jevserve:${BASE}`;

let draft;
let models = [];
let asking = null;
let countdown;
let drawing = false;

// The request: form, JSON and code

/** Shows a JSON request, in the form and as code. Throws an Error in words where it cannot. */
function show(source) {
  draft = draftOf(source);
  places.clear();
  places.set(draft, { control: $("model"), told: $("model-problem") });
  places.set(draft.questions, { control: $("add").firstElementChild, told: $("questions-problem") });
  const options = { label: "State", toggle: true, rows: 4, changed };
  $("state").replaceChildren(textField(draft.state, options));
  drawQuestions($("questions"), draft, changed);
  drawModels();
  const more = draft.more.map(([name]) => name).join(", ");
  $("more").textContent = more && `Also sent, see the JSON: ${more}`;
  drawCode(requestOf(draft).request);
}

/** What else shows the request follows the form, at most once a frame. */
function changed() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    const { request } = requestOf(draft);
    drawCode(request);
    if (request) keep(written(request));
    $("stale").hidden = !$("answers").childElementCount;
  });
}

/** Shows the request as JSON and as code; null where the form holds none. */
function drawCode(request) {
  const keyed = Boolean($("key").value);
  for (const [id, codeOf] of [["curl", curlOf], ["python", pythonOf], ["sdk", sdkOf]]) {
    $(id).textContent = request ? codeOf(request, ADDRESS, keyed) : MEND;
  }
  // Whoever edits the JSON keeps it as typed.
  if (request && document.activeElement !== $("json")) $("json").value = written(request);
  $("json-problem").hidden = Boolean(request);
  if (!request) $("json-problem").textContent = MEND;
}

function jsonEdited() {
  try {
    show($("json").value);
    changed();
  } catch (error) {
    $("json-problem").textContent = `Not applied: ${error.message}`;
    $("json-problem").hidden = false;
  }
}

function keep(source) {
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  try {
    localStorage.setItem(STORE, source);
    $("kept").textContent = "";
  } catch {
    $("kept").textContent = "This browser will not keep the request for a reload.";
  }
}

function start() {
  for (const way of [linked, () => localStorage.getItem(STORE)]) {
    try {
      const source = way();
      if (source) return show(source);
    } catch (error) {
      tell(`What was kept or linked is not a request: ${error.message}`);
    }
  }
  return show(EXAMPLES["Support ticket"]);
}

/** The request in the address, null for none. */
function linked() {
  if (!location.hash.startsWith("#r=")) return null;
  if (location.hash.length > MOST_LINK) throw new Error("the link is too long");
  return decodeURIComponent(location.hash.slice(3));
}

async function copyLink() {
  const { request } = requestOf(draft);
  if (!request) return tell(MEND);
  const hash = `#r=${encodeURIComponent(written(request))}`;
  if (hash.length > MOST_LINK) return tell("This request is too long for a link. Copy its JSON.");
  return copied(await copy(ADDRESS + "/" + hash), "Link copied. It holds the whole request.");
}

function clearAll() {
  asking?.abort();
  busy(false);
  clearTimeout(countdown);
  history.replaceState(null, "", location.pathname + location.search);
  show(EXAMPLES.Blank);
  clearAnswer();
  $("key").value = "";
  try {
    localStorage.removeItem(STORE);
    sessionStorage.removeItem(STORE);
  } catch {}
  tell("Cleared, here and in this browser's memory.");
}

// Models and keys

const keyHeader = () => ($("key").value ? { authorization: `Bearer ${$("key").value}` } : {});

async function loadModels() {
  try {
    const response = await fetch(`${BASE}v1/models`, { headers: keyHeader() });
    if (response.status === 401) askForKey(`This ${$("key").value ? "key is not known here" : "service asks for a key"}.`);
    else {
      models = (await response.json()).models ?? [];
      $("key-problem").hidden = true;
    }
  } catch {
    tell("The list of models could not be read. Is the service running?");
  }
  drawModels();
}

function drawModels() {
  const known = [["", "the default model"]];
  for (const { name, x_model, x_ready } of models) {
    const target = x_model === name ? "" : ` (${x_model})`;
    known.push([name, name + target + (x_ready ? "" : ", not ready")]);
  }
  if (!known.some(([name]) => name === draft.model)) {
    known.push([draft.model, draft.model + (models.length ? ", not served here" : "")]);
  }
  $("model").replaceChildren(...known.map(([value, label]) => element("option", { value }, label)));
  $("model").value = draft.model;
  const name = draft.model || DEFAULT_MODEL;
  const { x_model, description = "", x_limits: limits = {} } = models.find((m) => m.name === name) ?? {};
  const told = [draft.model ? "" : x_model, description];
  if (limits.row_tokens) told.push(`${number(limits.row_tokens, 0)} tokens in a row`);
  if (limits.options) told.push(`${limits.options} options`);
  if (limits.media === false) told.push("text only");
  $("about-model").textContent = told.filter(Boolean).join(" · ");
}

function askForKey(problem) {
  $("key-box").hidden = false;
  $("key-problem").textContent = problem;
  $("key-problem").hidden = false;
}

function keyChanged() {
  try {
    if ($("key-keep").checked) sessionStorage.setItem(STORE, $("key").value);
    else sessionStorage.removeItem(STORE);
  } catch {}
  changed();
  loadModels();
}

// Asking

async function ask() {
  asking?.abort();
  clearTimeout(countdown);
  [...places.keys()].forEach(forgetProblem);
  const { request, problems } = requestOf(draft);
  if (problems.length) return refused("Not sent. Mend this first:", problems);
  // The JSON was edited into something that the form, which is what is sent, does not hold.
  if (!$("json-problem").hidden) return refused(`Not sent. ${$("json-problem").textContent}`);
  const mine = (asking = new AbortController());
  busy(true);
  tell("Asking …");
  const began = performance.now();
  try {
    const response = await fetch(`${BASE}v1/systemone`, {
      method: "POST",
      headers: { "content-type": "application/json", ...keyHeader() },
      body: written(request),
      signal: mine.signal,
    });
    const received = await response.text();
    answered(request, response, received, performance.now() - began);
  } catch (error) {
    if (asking !== mine) return;
    if (mine.signal.aborted) tell("Stopped.");
    else refused(`No answer came: ${error.message}`);
  } finally {
    if (asking === mine) busy(false);
  }
}

function busy(on) {
  if (!on) asking = null;
  $("stop").hidden = !on;
  $("result").setAttribute("aria-busy", on);
}

function answered(request, response, received, roundTrip) {
  const id = response.headers.get("x-typesafe-request-id") ?? "";
  let body;
  try {
    body = JSON.parse(received);
  } catch {
    return refused(`Status ${response.status}, and no JSON: ${received.slice(0, 300)}`);
  }
  if (response.ok && body?.answers) {
    clearAnswer();
    $("answers").append(...answerCards(request, body.answers), timings(body, roundTrip, id));
    $("raw").textContent = written(readJson(received));
    $("raw-box").hidden = false;
    tell(`Answered in ${number(roundTrip, 0)} ms.`);
    return reveal();
  }
  loadModels();
  const detail = body?.detail;
  if (Array.isArray(detail)) {
    return refused("The service refused the request. Mend this:", detail);
  }
  const message = detail?.message ?? written(readJson(received));
  if (response.status === 401) {
    askForKey(message);
    $("key").focus();
  }
  refused(`${response.status} ${detail?.error_type ?? ""}: ${message} (${id})`);
  const wait = response.headers.get("retry-after-ms");
  if (wait) countDown(Number(wait));
}

function clearAnswer() {
  $("answers").replaceChildren();
  $("refusal").hidden = true;
  $("refusal").replaceChildren();
  $("raw-box").hidden = true;
  $("stale").hidden = true;
}

function refused(message, problems = []) {
  clearAnswer();
  tell("");
  $("refusal").append(element("p", {}, message));
  if (problems.length) $("refusal").append(problemList(problems, draft));
  $("refusal").hidden = false;
  const first = document.querySelector("#form [aria-invalid]");
  first ? first.focus() : reveal();
}

/** Advises to wait, and offers to ask again when it is over. */
function countDown(milliseconds) {
  const again = button("", ask, { class: "plain" });
  $("refusal").append(again);
  const until = performance.now() + milliseconds;
  const tick = () => {
    const left = Math.ceil((until - performance.now()) / 1000);
    again.disabled = left > 0;
    again.textContent = left > 0 ? `Ask again in ${left} s` : "Ask again";
    if (left > 0) countdown = setTimeout(tick, 250);
  };
  tick();
}

/** Brings what came back into view, which on a small screen is below the form. */
function reveal() {
  const { top, bottom } = $("status").getBoundingClientRect();
  if (top < 0 || bottom > innerHeight) $("result").scrollIntoView();
}

const tell = (message) => ($("status").textContent = message);

// Wiring

function addQuestion(type) {
  const stem = { choice: "choice", noul: "yes_no", score: "score" }[type];
  const taken = new Set(draft.questions.map((question) => question.id));
  let n = 1;
  while (taken.has(`${stem}_${n}`)) n++;
  draft.questions.push(newQuestion(type, `${stem}_${n}`));
  drawQuestions($("questions"), draft, changed);
  changed();
  $("questions").lastElementChild.querySelector("input").select();
}

for (const [type, label] of Object.entries(KINDS)) {
  $("add").append(button(`Add ${label.toLowerCase()}`, () => addQuestion(type), { class: "plain" }));
}
for (const [name, source] of Object.entries(EXAMPLES)) {
  const load = () => {
    show(source);
    changed();
  };
  $("examples").append(button(name, load, { class: "chip" }));
}
for (const tab of $("tabs").children) {
  tab.addEventListener("click", () => selectTab(tab));
  tab.addEventListener("keydown", tabKeys);
}
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
$("stop").addEventListener("click", () => asking?.abort());
$("model").addEventListener("change", () => {
  draft.model = $("model").value;
  forgetProblem(draft);
  drawModels();
  changed();
});
$("key").addEventListener("change", keyChanged);
$("key-keep").addEventListener("change", keyChanged);
$("json").addEventListener("input", jsonEdited);
$("copy").addEventListener("click", copyCode);
$("link").addEventListener("click", copyLink);
$("clear").addEventListener("click", clearAll);
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    ask();
  }
});
document.addEventListener("visibilitychange", () => document.hidden || loadModels());
window.addEventListener("hashchange", start);

try {
  $("key").value = sessionStorage.getItem(STORE) ?? "";
  $("key-keep").checked = Boolean($("key").value);
} catch {}
start();
loadModels();
