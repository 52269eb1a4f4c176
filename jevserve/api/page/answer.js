"use strict";

// What came back: bars, times, and what to do about a refusal.

const FEW_BARS = 12;

const number = (value, digits) =>
  value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

function percent(p) {
  if (p > 0 && p < 0.001) return "< 0.1 %";
  if (p < 1 && p > 0.999) return "> 99.9 %";
  return `${number(100 * p, 1)} %`;
}

/** Cards with an answer each, in the order of the request. */
function answerCards(request, answers) {
  const questions = new Map(request.entries).get("questions").entries;
  return questions
    .filter(([id]) => Object.hasOwn(answers, id))
    .map(([id, question]) => answerCard(id, new Map(question.entries), answers[id]));
}

function answerCard(id, question, answer) {
  const head = element("div", { class: "line" }, element("h3", { dir: "auto" }, id));
  const card = element("section", { class: "card answer", "aria-label": `Answer to ${id}` }, head);
  if (answer.confidence !== undefined) {
    head.append(element("span", { class: "grow" }));
    head.append(element("span", { class: "quiet" }, `confidence ${percent(answer.confidence)}`));
  }
  if (answer.type === "noul") {
    const yes = answer.noul >= 0.5;
    card.append(bars([["Yes", answer.noul, yes], ["No", 1 - answer.noul, !yes]]));
  } else if (answer.type === "choice") {
    const options = question.get("criteria").entries.map(([name]) => name);
    card.append(bars(options.map((o) => [o, answer.probabilities[o], o === answer.choice])));
  } else {
    const levels = question.get("criteria").items;
    const each = levels.map((_, i) => answer.probabilities[i]);
    const top = each.indexOf(Math.max(...each));
    const words = (level) => (level.kind === "string" ? level.text : written(level));
    card.append(bars(levels.map((level, i) => [words(level), each[i], i === top, i])));
    card.append(scale(answer.score, levels.length - 1));
  }
  return card;
}

/** Bars of [name, probability, chosen, number]. Of many, only the most probable are shown first. */
function bars(rows) {
  const list = element("ul", { class: "bars" });
  const bar = ([name, p, chosen, index]) => {
    const fill = element("span", { class: "fill" });
    fill.style.width = `${100 * p}%`;
    const label = element("span", { class: "bar-name", dir: "auto" }, name);
    if (index !== undefined) label.prepend(element("span", { class: "quiet" }, `${index} `));
    if (chosen) {
      const unseen = element("span", { class: "unseen" }, "chosen");
      label.append(element("span", { class: "chosen" }, " ✓ ", unseen));
    }
    return element(
      "li",
      { class: chosen ? "is-chosen" : undefined, title: `${name}: ${p}`, "data-p": p },
      label,
      element("span", { class: "track", "aria-hidden": "true" }, fill),
      element("span", { class: "percent" }, percent(p)),
    );
  };
  if (rows.length <= FEW_BARS) {
    list.append(...rows.map(bar));
    return list;
  }
  const sorted = [...rows].sort((a, b) => b[1] - a[1]);
  list.append(...sorted.slice(0, FEW_BARS).map(bar));
  const showRest = () => {
    list.append(...sorted.slice(FEW_BARS).map(bar));
    rest.remove();
  };
  const rest = button(`Show all ${rows.length}`, showRest, { class: "plain" });
  return element("div", {}, list, rest);
}

/** The score on its scale from 0 to the highest level. */
function scale(score, highest) {
  const mark = element("span", { class: "mark" });
  mark.style.left = `${highest ? (100 * score) / highest : 0}%`;
  return element(
    "div",
    { class: "scale" },
    element("span", { class: "quiet" }, "score"),
    element("b", { "data-score": score }, number(score, 2)),
    element("span", { class: "quiet" }, "0"),
    element("span", { class: "track", "aria-hidden": "true" }, mark),
    element("span", { class: "quiet" }, String(highest)),
  );
}

/** Where the time went: the network, the router, the engine. */
function timings(body, roundTrip, requestId) {
  const account = body.x_jevserve ?? {};
  const { plan_ms: plan = 0, engine_ms: engine = 0, total_ms: total = 0 } = account;
  const parts = [
    ["network and browser", Math.max(roundTrip - total, 0)],
    ["plan", plan],
    ["other work in the router", Math.max(total - plan - engine, 0)],
    ["engine", engine],
  ];
  const strip = element("div", { class: "strip", "aria-hidden": "true" });
  const list = element("ul", { class: "legend" });
  for (const [name, ms] of parts) {
    const piece = element("span");
    piece.style.flexGrow = ms;
    strip.append(piece);
    list.append(element("li", {}, name, element("b", {}, `${number(ms, 1)} ms`)));
  }
  const facts = {
    "Round trip": `${number(roundTrip, 1)} ms`,
    "In the service": `${number(total, 1)} ms`,
    Tokens: `${account.computed_tokens} computed, ${account.cached_tokens} cached`,
    "Input tokens": body.usage?.input_tokens,
    Rows: account.rows,
    Model: body.model,
    Replica: account.replica || "none was needed",
    Request: requestId,
  };
  const rows = Object.entries(facts).flatMap(([name, value]) => [
    element("dt", {}, name),
    element("dd", {}, String(value)),
  ]);
  const head = element("h3", {}, "Time");
  const table = element("dl", {}, ...rows);
  return element("section", { class: "card", "aria-label": "Time" }, head, strip, list, table);
}

/** The problems of a request, each a way to its field. */
function problemList(problems, draft) {
  const items = problems.map(({ loc = [], msg }) => {
    const part = placeOf(draft, loc);
    const [, field, id, ...inner] = loc;
    const where = [field, draft.questions[id]?.id ?? id, ...inner].filter((s) => s !== undefined);
    const path = where.join(" › ");
    if (!places.has(part)) return element("li", {}, element("b", {}, path), ` ${msg}`);
    const control = tellProblem(part, msg);
    return element("li", {}, button(path, () => control.focus(), { class: "link" }), ` ${msg}`);
  });
  return element("ul", { class: "problems" }, ...items);
}
