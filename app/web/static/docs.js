"use strict";

// Swagger UI has a dark sheet and leaves it to the page when it is worn.
const dark = matchMedia("(prefers-color-scheme: dark)");
const dress = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", dress);
dress();

// The ids that stand in the document's examples, until there are real ones.
const EXAMPLES = {
  model: "mdl_0199f0c4e0c27b6c8a3e5d1f9b7a2c11",
  dataset: "dat_0199f0c4e0c27b6c8a3e5d1f9b7a2c12",
  audit: "aud_0199f0c4e0c27b6c8a3e5d1f9b7a2c11",
};
const known = {};
let original = "";

function tell(step, text, link) {
  const item = document.querySelector(`[data-step="${step}"]`), output = item.querySelector("output");
  output.textContent = link ? `${text}; ` : text;
  if (link) output.append(Object.assign(document.createElement("a"), link));
  item.classList.add("done");
}

// An operation takes its examples from the document when it is first opened. They change on the way to the next step, not
// before: a change takes the answer off an operation whose example it is in.
let isStale = false;
function fillIn() {
  if (!isStale) return;
  isStale = false;
  let text = original;
  for (const [name, value] of Object.entries(known)) text = text.replaceAll(EXAMPLES[name], value);
  ui.specActions.updateJsonSpec(JSON.parse(text));
}

function know(step, kind, id) {
  isStale ||= known[kind] !== id;
  known[kind] = id;
  tell(step, id);
}

// And one that was opened before has the example's id filled out on its way.
function fillOut(request) {
  for (const [name, value] of Object.entries(known)) {
    request.url = request.url.replaceAll(EXAMPLES[name], value);
    if (typeof request.body === "string") request.body = request.body.replaceAll(EXAMPLES[name], value);
  }
  return request;
}

function remember(response) {
  const path = new URL(response.url, location.href).pathname, told = response.body ?? response.obj ?? {};
  if (path === "/openapi.json") original = response.text;
  else if (response.status === 201 && path === "/v1/models") know("model", "model", told.id);
  else if (response.status === 201 && path === "/v1/datasets") know("dataset", "dataset", told.id);
  else if (response.status === 202 && path === "/v1/audits") know("submit", "audit", told.id);
  else if (response.ok && path === `/v1/audits/${known.audit}`) {
    const share = Math.floor(100 * (told.progress?.share ?? 0));
    tell("wait", told.state === "running" ? `running, ${share} %` : told.state,
      told.state === "succeeded" && { href: `${path}/report`, textContent: "its report" });
  } else if (response.ok && path === `/v1/audits/${known.audit}/judge`) tell("judge", told.headline);
  return response;
}

// The path in a heading is a link inside of a button, which no keyboard reaches: as words it is what it was.
const Plain = ({ React }) => ({
  wrapComponents: { DeepLink: () => ({ text, isShown }) => React.createElement("span", { className: "nostyle" }, text) },
});

const ui = SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  tryItOutEnabled: true,
  persistAuthorization: false,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [Plain],
  requestInterceptor: fillOut,
  responseInterceptor: remember,
});

for (const link of document.querySelectorAll(".walk a[data-tag]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    fillIn();
    const [, tag, operation] = link.hash.split("/");
    ui.layoutActions.show(["operations-tag", tag], true);
    ui.layoutActions.show(["operations", tag, operation], true);
    const find = () => document.getElementById(`operations-${tag}-${operation}`)?.scrollIntoView();
    setTimeout(find, 100);
  });
}

// Swagger UI leaves some of what can be used without a name, and some boxes that scroll out of the keyboard's reach.
function name() {
  const all = (selector) => document.querySelectorAll(`#swagger-ui ${selector}`);
  const label = (one, text) => { if (!one.getAttribute("aria-label")) one.setAttribute("aria-label", text); };
  for (const one of all("input, textarea, select")) {
    const row = one.closest("[data-property-name], [data-param-name], tr.parameters");
    const said = row?.dataset.propertyName ?? row?.dataset.paramName ??
      row?.querySelector(".parameter__name")?.firstChild?.textContent;
    label(one, said ?? (one.matches(".examples-select-element") ? "Example" : one.title || one.placeholder || "Request body"));
  }
  for (const one of all("button")) if (!one.textContent.trim() && !one.title) label(one, "Copy");
  for (const one of all("pre")) if (one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight) one.tabIndex = 0;
  // No heading of the second level stands above them.
  for (const level of [3, 4, 5]) for (const one of all(`h${level}`)) one.setAttribute("aria-level", level - 1);
  for (const one of all("label[id$=_select]")) one.removeAttribute("id");
  for (const one of all("table[role=region]")) label(one, one.id.replaceAll("_", " "));
}

let isNaming = false;
new MutationObserver(() => {
  if (isNaming) return;
  isNaming = true;
  setTimeout(() => { isNaming = false; name(); }, 200);
}).observe(document.getElementById("swagger-ui"), { childList: true, subtree: true });
