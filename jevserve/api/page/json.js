"use strict";

// JSON with the order of names and the digits of numbers as they were written. JSON.parse keeps
// neither, and both are part of a request: an option named "2" may stand before one named "1".

/**
 * A value as one of {kind: "object", entries: [[name, value]]}, {kind: "array", items},
 * {kind: "string", text} and {kind: "literal", source}. Throws a SyntaxError that says where.
 */
function readJson(source) {
  JSON.parse(source);
  const tokens = source.match(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]]|[^\s{}[\],:"]+/g);
  let next = 0;
  const value = () => {
    const token = tokens[next++];
    if (token === "{") {
      const entries = [];
      while (tokens[next] !== "}") entries.push([JSON.parse(tokens[next++]), value()]);
      next++;
      return { kind: "object", entries };
    }
    if (token === "[") {
      const items = [];
      while (tokens[next] !== "]") items.push(value());
      next++;
      return { kind: "array", items };
    }
    if (token[0] === '"') return { kind: "string", text: JSON.parse(token) };
    return { kind: "literal", source: token };
  };
  try {
    return value();
  } catch (error) {
    throw error instanceof RangeError ? new SyntaxError("nested too deeply to be shown") : error;
  }
}

const string = (text) => ({ kind: "string", text });
const NULL = { kind: "literal", source: "null" };
const isNull = (value) => value === undefined || value.source === "null";

const JSON_WORDS = {};
const PYTHON_WORDS = { true: "True", false: "False", null: "None" };

/** The value as indented JSON, or with PYTHON_WORDS as a Python expression. */
function written(value, words = JSON_WORDS, gap = "\n") {
  const deeper = gap + "  ";
  switch (value.kind) {
    case "object":
      if (!value.entries.length) return "{}";
      return `{${value.entries
        .map(([name, inner]) => `${deeper}${quoted(name)}: ${written(inner, words, deeper)}`)
        .join(",")}${gap}}`;
    case "array":
      if (!value.items.length) return "[]";
      return `[${value.items.map((item) => deeper + written(item, words, deeper)).join(",")}${gap}]`;
    case "string":
      return quoted(value.text);
    default:
      return words[value.source] ?? value.source;
  }
}

/**
 * A string literal of JSON and of Python. Controls that reorder or hide what stands around them are
 * escaped, so that code reads as it runs.
 */
function quoted(text) {
  return JSON.stringify(text).replace(
    /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (control) => "\\u" + control.charCodeAt(0).toString(16).padStart(4, "0"),
  );
}
