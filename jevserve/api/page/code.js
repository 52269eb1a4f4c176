"use strict";

// The same request for a terminal and for Python. Keys are never written out.

const KEY_VARIABLE = "JEVSERVE_API_KEY";

/**
 * A here-document needs no quoting: no line of indented JSON is its last word, and a shell expands
 * nothing in it.
 */
function curlOf(request, address, keyed) {
  const key = keyed ? ` \\\n  -H "authorization: Bearer $${KEY_VARIABLE}"` : "";
  return (
    `curl -s ${shellWord(address + "/v1/systemone")} \\\n` +
    `  -H 'content-type: application/json'${key} \\\n` +
    `  --data-binary @- <<'JSON'\n${written(request)}\nJSON\n`
  );
}

function shellWord(word) {
  return /^[\w.:/[\]-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function pythonOf(request, address, keyed) {
  const { state, questions, model, more } = partsOf(request);
  const key = keyed ? `, api_key=os.environ["${KEY_VARIABLE}"]` : "";
  const fields = more.length ? `, **${written(object(more), PYTHON_WORDS)}` : "";
  return (
    (keyed ? "import os\n\n" : "") +
    `import jevserve\n\n` +
    `state = ${state}\nquestions = ${questions}\n\n` +
    `with jevserve.Client(${quoted(address)}${key}) as client:\n` +
    `    decision = client.decide(state, questions${model}${fields})\n` +
    `for id, answer in decision.answers.items():\n    print(id, answer)\n`
  );
}

function sdkOf(request, address, keyed) {
  const { state, questions, model, more } = partsOf(request);
  const key = keyed ? `os.environ["${KEY_VARIABLE}"]` : '"none"';
  const fields = more.length ? `, extra_body=${written(object(more), PYTHON_WORDS)}` : "";
  return (
    (keyed ? "import os\n\n" : "") +
    `from typesafe_sdk import TypeSafeClient\n\n` +
    `state = ${state}\nquestions = ${questions}\n\n` +
    `with TypeSafeClient(base_url=${quoted(address)}, api_key=${key}) as client:\n` +
    `    print(client.system_one(state, questions${model}${fields}))\n`
  );
}

function partsOf(request) {
  const fields = new Map(request.entries);
  const python = (name) => written(fields.get(name), PYTHON_WORDS);
  const known = ["model", "state", "questions"];
  return {
    state: python("state"),
    questions: python("questions"),
    model: fields.has("model") ? `, model=${python("model")}` : "",
    more: [...fields].filter(([name]) => !known.includes(name)),
  };
}
