"use strict";
// Everything works without this file: it spares people from loading a page again, and from pressing a button twice.

(function followJob() {
  const live = document.querySelector("[data-fragment]");
  if (!live) return;
  const LEAST_MS = 700;
  const status = document.getElementById("live-status");
  let isAsking = false, isWanted = false;

  async function refresh() {
    if (isAsking) { isWanted = true; return; }
    isAsking = true;
    isWanted = false;
    try {
      const answer = await fetch(live.dataset.fragment, { credentials: "same-origin" });
      if (!answer.ok) throw new Error(answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const part = page.getElementById("progress");
      if (part) {
        live.replaceChildren(...document.importNode(part, true).childNodes);
        // A screen reader hears of a new stage or state, not of every example.
        if (status.textContent !== part.dataset.said) status.textContent = part.dataset.said;
        // A list is settled when nothing in it changes by itself; the page may hold a form that somebody fills in.
        if (part.dataset.over === "settled") { clearInterval(timer); return; }
        if (part.dataset.over === "yes") { if (stream) stream.close(); location.reload(); return; }
      }
    } catch {
      // The next event tries again.
    }
    setTimeout(() => { isAsking = false; if (isWanted) refresh(); }, LEAST_MS);
  }

  // A plan has no events of its own: it is looked at every few seconds.
  const stream = live.dataset.events && window.EventSource ? new EventSource(live.dataset.events) : null;
  if (stream) {
    for (const kind of ["audit", "check", "hardening", "progress", "verdict"]) stream.addEventListener(kind, refresh);
    // The stream ends when the audit has: look once more, and a lost connection is tried again by the browser itself.
    stream.addEventListener("error", refresh);
  }
  // Time left shrinks between events too.
  const timer = setInterval(() => { if (!document.hidden) refresh(); }, 5000);
})();

(function submitOnce() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.sent) { event.preventDefault(); return; }
    // Not form.method: a field of that name would stand in its place.
    if (form.getAttribute("method") !== "post") return;
    form.dataset.sent = "yes";
    const button = event.submitter;
    if (button && button.dataset.busy) button.textContent = button.dataset.busy;
  });
  // Back from the next page, the form may be sent again.
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  });
})();

(function tellAboutChecks() {
  // What a check asks follows its parameters.
  for (const told of document.querySelectorAll("[data-about]")) {
    const check = told.closest(".check"), form = told.closest("form");
    check.addEventListener("change", async () => {
      const body = new URLSearchParams(new FormData(form));
      body.set("kind", told.dataset.about);
      try {
        const answer = await fetch("/submit/about", { method: "POST", body, credentials: "same-origin" });
        if (answer.ok) told.textContent = await answer.text();
      } catch {
        // It keeps saying what it said.
      }
    });
  }
})();

function showWhatFits(root) {
  // Fields that only some choices need: `data-for` lists the values of the select named by `data-of`.
  for (const select of root.querySelectorAll("select[data-chooses]")) {
    const parts = root.querySelectorAll(`[data-of="${select.dataset.chooses}"]`);
    const show = () => {
      for (const part of parts) part.hidden = !part.dataset.for.split(" ").includes(select.value);
    };
    select.addEventListener("change", show);
    show();
  }
}

function showWhatIsWrong() {
  const summary = document.getElementById("wrong");
  if (summary) summary.focus();
}

showWhatFits(document);
showWhatIsWrong();

(function keepChosenFiles() {
  // A page cannot fill a file field again. So the form is sent from here, and when it is refused the page that says why
  // takes the place of this one around the field, which keeps its file.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || !form.matches("[data-keeps-file]")) return;
    event.preventDefault();
    const button = event.submitter, words = button.dataset.busy, sending = new XMLHttpRequest();
    sending.upload.onprogress = ({ loaded, total }) => {
      button.textContent = loaded < total ? `${words} ${Math.floor(100 * loaded / total)}%` : "Checking…";
    };
    sending.onload = () => {
      const said = new DOMParser().parseFromString(sending.responseText, "text/html");
      const target = new URL(sending.responseURL);
      if (sending.status < 400) location.assign(target.pathname + target.search);
      else if (said.querySelector("[data-keeps-file]")) take(said);
      else refuse(form, button, said.querySelector("main")?.textContent || `The service answered ${sending.status}.`);
    };
    sending.onerror = () => refuse(form, button, "The connection ended before there was an answer: the service is " +
      "away, or accepts no file of this size. Nothing is stored.");
    sending.open("POST", form.getAttribute("action"));
    sending.send(new FormData(form));
  });

  function take(said) {
    const main = document.getElementById("main"), field = main.querySelector("[data-keeps-file] input[type=file]");
    main.replaceChildren(...document.importNode(said.getElementById("main"), true).childNodes);
    const empty = main.querySelector("[data-keeps-file] input[type=file]");
    for (const name of ["aria-invalid", "aria-describedby"]) {
      if (empty.hasAttribute(name)) field.setAttribute(name, empty.getAttribute(name));
      else field.removeAttribute(name);
    }
    empty.replaceWith(field);
    showWhatFits(main);
    field.dispatchEvent(new Event("change", { bubbles: true }));
    showWhatIsWrong();
  }

  function refuse(form, button, why) {
    delete form.dataset.sent;
    button.textContent = "Upload";
    document.getElementById("wrong")?.remove();
    const note = Object.assign(document.createElement("div"), { id: "wrong", className: "note bad", tabIndex: -1 });
    note.setAttribute("role", "alert");
    note.textContent = why;
    form.before(note);
    note.focus();
  }
})();

(function previewTables() {
  // The first rows of the chosen table with the columns that will be read, before any of it is uploaded.
  const HEAD_BYTES = 2 ** 18, WHOLE_BYTES = 2 ** 25;
  let latest = 0;
  document.addEventListener("change", async ({ target }) => {
    const form = target.closest("form"), place = form?.querySelector("[data-preview]");
    if (!place || !["file", "task", "columns", "features"].includes(target.name)) return;
    const turn = ++latest;
    const file = form.elements.file.files[0];
    // The rows of a Parquet file are found from its end.
    const isWhole = file && (await file.slice(0, 4).text()) === "PAR1";
    if (!file || (isWhole && file.size > WHOLE_BYTES)) { place.replaceChildren(); return; }
    const body = new FormData(form);
    if (!isWhole) body.set("file", file.slice(0, HEAD_BYTES), file.name);
    try {
      const answer = await fetch(place.dataset.preview, { method: "POST", body, credentials: "same-origin" });
      if (!answer.ok || turn !== latest) return;
      const said = new DOMParser().parseFromString(await answer.text(), "text/html");
      place.replaceChildren(...document.importNode(said.body, true).childNodes);
    } catch {
      // The upload says what is wrong.
    }
  });
})();
