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
  setInterval(() => { if (!document.hidden) refresh(); }, 5000);
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

(function showWhatFits() {
  // Fields that only some choices need: `data-for` lists the values of the select named by `data-of`.
  for (const select of document.querySelectorAll("select[data-chooses]")) {
    const parts = document.querySelectorAll(`[data-of="${select.dataset.chooses}"]`);
    const show = () => {
      for (const part of parts) part.hidden = !part.dataset.for.split(" ").includes(select.value);
    };
    select.addEventListener("change", show);
    show();
  }
})();

(function showWhatIsWrong() {
  const summary = document.getElementById("wrong");
  if (summary) summary.focus();
})();
