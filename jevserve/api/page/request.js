"use strict";

// The request that a person edits (a draft of plain objects), and its JSON.
//
// A text is {text, json}: what stands in a field, and whether it is read as JSON.

const MOST_QUESTIONS = 50;
const MOST_CANDIDATES = 255;

const text = (text = "", json = false) => ({ text, json });

function newQuestion(type, id) {
  const rows = (kind, make) => (type === kind ? [make(), make()] : []);
  return {
    id,
    type,
    instructions: text(),
    options: rows("choice", newOption),
    levels: rows("score", text),
    yes: text(),
    no: text(),
    more: [],
  };
}

const newOption = (name = "", description = text()) => ({ name, description });

/** The draft that a JSON request means. Throws an Error in words where a form cannot hold it. */
function draftOf(source) {
  const request = readJson(source);
  const fields = entriesOf(request, "The request");
  const draft = { model: "", state: text(), questions: [], more: [] };
  for (const [name, value] of fields) {
    if (name === "model") draft.model = isNull(value) ? "" : textOf(value).text;
    else if (name === "state") draft.state = textOf(value, false);
    else if (name === "questions") draft.questions = entriesOf(value, "questions").map(questionOf);
    else draft.more.push([name, value]);
  }
  if (draft.questions.length > MOST_QUESTIONS) {
    throw new Error(`This page shows at most ${MOST_QUESTIONS} questions. The API takes more.`);
  }
  return draft;
}

function questionOf([id, value]) {
  const where = `questions.${id}`;
  const fields = new Map(entriesOf(value, where));
  const type = fields.get("type")?.text;
  if (!["choice", "noul", "score"].includes(type)) {
    throw new Error(`${where}.type must be "choice", "noul" or "score".`);
  }
  const question = newQuestion(type, id);
  const criteria = fields.get("criteria");
  question.instructions = textOf(fields.get("instructions"));
  if (type === "choice") {
    const options = isNull(criteria) ? [] : entriesOf(criteria, `${where}.criteria`);
    question.options = options.map(([name, description]) => newOption(name, textOf(description)));
  } else if (type === "score") {
    if (!isNull(criteria) && criteria.kind !== "array") {
      throw new Error(`${where}.criteria must be an array of levels, lowest first.`);
    }
    question.levels = isNull(criteria) ? [] : criteria.items.map((level) => textOf(level, false));
  } else if (!isNull(criteria)) {
    const outcomes = new Map(entriesOf(criteria, `${where}.criteria`));
    question.yes = textOf(outcomes.get("true"));
    question.no = textOf(outcomes.get("false"));
  }
  if (Math.max(question.options.length, question.levels.length) > MOST_CANDIDATES) {
    throw new Error(`${where}.criteria has more than ${MOST_CANDIDATES} entries.`);
  }
  const known = ["type", "instructions", "criteria"];
  question.more = [...fields].filter(([name]) => !known.includes(name));
  return question;
}

function entriesOf(value, where) {
  if (value.kind !== "object") throw new Error(`${where} must be an object.`);
  return value.entries;
}

/** A field's text. An optional one that is empty means null, so that "" itself is shown as JSON. */
function textOf(value, optional = true) {
  if (optional && isNull(value)) return text();
  if (value.kind === "string" && (value.text || !optional)) return text(value.text);
  return text(written(value), true);
}

/**
 * The draft's request, and what is wrong with it that JSON could not even tell: problems are
 * {loc, msg} as the service's own are, with a position where a name would not be unique. The
 * request is null where a field that is read as JSON is none.
 */
function requestOf(draft) {
  const problems = [];
  const valueOf = ({ text, json }, loc, optional = true) => {
    if (!json) return optional && !text ? NULL : string(text);
    try {
      return readJson(text);
    } catch (error) {
      problems.push({ loc, msg: `Not JSON: ${error.message}`, unreadable: true });
      return NULL;
    }
  };
  const given = ([, value]) => !isNull(value);
  const repeated = (names, i) => names.indexOf(names[i]) < i;

  const criteriaOf = (question, loc) => {
    if (question.type === "score") {
      const items = question.levels.map((level, i) => {
        if (!level.text) problems.push({ loc: [...loc, i], msg: "Describe this level or remove it." });
        return valueOf(level, [...loc, i], false);
      });
      return { kind: "array", items };
    }
    if (question.type === "noul") {
      const outcomes = [
        ["true", valueOf(question.yes, [...loc, "true"])],
        ["false", valueOf(question.no, [...loc, "false"])],
      ].filter(given);
      return outcomes.length ? { kind: "object", entries: outcomes } : NULL;
    }
    const names = question.options.map((option) => option.name);
    const entries = question.options.map(({ name, description }, i) => {
      if (!name) problems.push({ loc: [...loc, i], msg: "Name this option or remove it." });
      else if (repeated(names, i)) {
        problems.push({ loc: [...loc, i], msg: "Another option has this name already." });
      }
      return [name, valueOf(description, [...loc, i, "description"])];
    });
    return { kind: "object", entries };
  };

  const state = valueOf(draft.state, ["body", "state"], false);
  const ids = draft.questions.map((question) => question.id);
  const questions = draft.questions.map((question, i) => {
    const loc = ["body", "questions", i];
    if (repeated(ids, i)) problems.push({ loc, msg: "Another question has this id already." });
    const fields = [
      ["instructions", valueOf(question.instructions, [...loc, question.type, "instructions"])],
      ["criteria", criteriaOf(question, [...loc, question.type, "criteria"])],
    ].filter(given);
    return [question.id, object([["type", string(question.type)], ...fields, ...question.more])];
  });
  const request = object([
    ...(draft.model ? [["model", string(draft.model)]] : []),
    ["state", state],
    ["questions", object(questions)],
    ...draft.more,
  ]);
  return { request: problems.some((problem) => problem.unreadable) ? null : request, problems };
}

const object = (entries) => ({ kind: "object", entries });

/** The part of the draft that a problem's location means, null for none that a form shows. */
function placeOf(draft, [where, field, id, kind, part, key, inner]) {
  if (where !== "body") return null;
  if (field === "state") return draft.state;
  if (field === "model") return draft;
  if (field !== "questions") return null;
  const named = (list, name, of) =>
    typeof name === "number" ? list[name] : list.find((item) => sameName(of(item), name));
  const question = id === undefined ? null : named(draft.questions, id, (q) => q.id);
  if (!question) return draft.questions;
  if (part === "instructions") return question.instructions;
  if (part !== "criteria" || key === undefined) return question;
  if (kind === "score") return question.levels[key] ?? question;
  if (kind === "noul") return key === "true" ? question.yes : question.no;
  const option = named(question.options, key, (o) => o.name);
  if (!option) return question;
  return typeof key === "string" || inner ? option.description : option;
}

/** Long names are cut in an error. */
function sameName(whole, told) {
  return whole === told || (told.endsWith("…") && whole.startsWith(told.slice(0, -1)));
}
