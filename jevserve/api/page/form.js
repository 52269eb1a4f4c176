"use strict";

// The form: a draft as fields. Fields write into the draft and call `changed`; what is added or
// removed is drawn again where it stands.

const KINDS = { choice: "Choice", noul: "Yes or no", score: "Score" };

/** An element. Values are set as attributes, listeners by their event's name, text as text. */
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const button = (label, click, attributes = {}) =>
  element("button", { type: "button", click, ...attributes }, label);

/** Fields by the part of the draft that they show, for problems to be told beside them. */
const places = new Map();
let fieldCount = 0;

/** Makes `control` the place of `part`. Returns the line that tells what is wrong with it. */
function place(part, control) {
  const told = element("p", { class: "problem", id: `problem-${++fieldCount}`, hidden: true });
  control.setAttribute("aria-describedby", told.id);
  places.set(part, { control, told });
  return told;
}

function tellProblem(part, message) {
  const { control, told } = places.get(part);
  told.append(...(told.hidden ? [] : [element("br")]), message);
  told.hidden = false;
  control.setAttribute("aria-invalid", "true");
  return control;
}

function forgetProblem(part) {
  const { control, told } = places.get(part) ?? {};
  if (!told || told.hidden) return;
  told.hidden = true;
  told.replaceChildren();
  control.removeAttribute("aria-invalid");
}

/** Draws the draft's questions into `list`. */
function drawQuestions(list, draft, changed) {
  list.replaceChildren(...draft.questions.map((q) => questionCard(list, draft, q, changed)));
}

function questionCard(list, draft, question, changed) {
  const label = `Id of question ${draft.questions.indexOf(question) + 1}`;
  const id = nameField(question, "id", { label, class: "name", changed });
  const told = place(question, id);
  const remove = button(
    "×",
    () => {
      const i = draft.questions.indexOf(question);
      draft.questions.splice(i, 1);
      drawQuestions(list, draft, changed);
      changed();
      const near = list.children[Math.max(i - 1, 0)]?.querySelector("input");
      (near ?? document.querySelector("#add button")).focus();
    },
    { class: "icon", "aria-label": `Remove question ${question.id}` },
  );
  const kind = element("span", { class: "tag" }, KINDS[question.type]);
  const body = element("div", { class: "stack" });
  const draw = {
    choice: () => rowsOf(body, question.options, "option", newOption, optionRow, changed),
    score: () => rowsOf(body, question.levels, "level", text, levelRow, changed),
    noul: () =>
      body.append(
        textField(question.yes, { label: "What counts as yes", optional: true, changed }),
        textField(question.no, { label: "What counts as no", optional: true, changed }),
      ),
  };
  draw[question.type]();
  return element(
    "li",
    { class: "card question" },
    element("div", { class: "line" }, id, kind, remove),
    told,
    textField(question.instructions, { label: "Instructions", optional: true, changed }),
    body,
  );
}

/** Rows of candidates with a way to add and to remove one. */
function rowsOf(body, rows, what, make, rowOf, changed) {
  const list = element("ol", { class: "rows" });
  const draw = () => list.replaceChildren(...rows.map((row, i) => line(row, i)));
  const focus = (i) => list.children[i]?.querySelector("input, textarea").focus();
  const add = (i) => {
    rows.splice(i, 0, make());
    draw();
    changed();
    focus(i);
  };
  const line = (row, i) => {
    const remove = button(
      "×",
      () => {
        rows.splice(i, 1);
        draw();
        changed();
        rows.length ? focus(Math.min(i, rows.length - 1)) : more.focus();
      },
      { class: "icon", "aria-label": `Remove ${what} ${what === "level" ? i : i + 1}` },
    );
    const enter = (event) => {
      const { key, target, shiftKey, ctrlKey, metaKey, isComposing } = event;
      if (key !== "Enter" || shiftKey || ctrlKey || metaKey || isComposing) return;
      if (target.matches("button")) return;
      event.preventDefault();
      add(i + 1);
    };
    return element("li", { keydown: enter }, ...rowOf(row, i, changed), remove);
  };
  const more = button(`Add ${what}`, () => add(rows.length), { class: "plain" });
  draw();
  body.append(
    element("p", { class: "label" }, what === "level" ? "Levels, lowest first" : "Options"),
    list,
    more,
  );
}

function optionRow(option, i, changed) {
  const label = `Name of option ${i + 1}`;
  const name = nameField(option, "name", { label, placeholder: "name", changed });
  const about = `Description of option ${i + 1}`;
  const placeholder = "description, if any";
  return [
    element("div", { class: "option-name" }, name, place(option, name)),
    textField(option.description, { label: about, hidden: true, placeholder, changed }),
  ];
}

function levelRow(level, i, changed) {
  return [
    element("span", { class: "number", "aria-hidden": "true" }, String(i)),
    textField(level, { label: `Level ${i}`, hidden: true, placeholder: "description", changed }),
  ];
}

/** A line of text, which is `part[key]`. */
function nameField(part, key, { label, changed, ...attributes }) {
  const input = element("input", {
    value: part[key],
    "aria-label": label,
    autocomplete: "off",
    spellcheck: "false",
    input: () => {
      part[key] = input.value;
      forgetProblem(part);
      changed();
    },
    ...attributes,
  });
  return input;
}

/**
 * A field of text that grows with it. `toggle` lets a person choose to have it read as JSON; where
 * it holds JSON already, everybody may.
 */
function textField(part, { label, hidden, optional, placeholder, toggle, rows = 1, changed }) {
  const area = element("textarea", {
    rows,
    placeholder,
    "aria-label": hidden ? label : undefined,
    input: () => {
      part.text = area.value;
      forgetProblem(part);
      changed();
    },
  });
  area.value = part.text;
  const told = place(part, area);
  const box = element("div", { class: "field" });
  const head = element("div", { class: "line" });
  if (!hidden) {
    area.id = `field-${fieldCount}`;
    const name = element("label", { for: area.id, class: "label" }, label);
    if (optional) name.append(element("span", { class: "quiet" }, " optional"));
    head.append(name);
  }
  const mark = () => area.classList.toggle("code", part.json);
  if (toggle || part.json) {
    const check = element("input", {
      type: "checkbox",
      change: () => {
        part.json = check.checked;
        mark();
        forgetProblem(part);
        changed();
      },
    });
    check.checked = part.json;
    head.append(element("label", { class: "check" }, check, " is JSON"));
  }
  mark();
  box.append(...(head.children.length ? [head] : []), area, told);
  return box;
}
