"use strict";
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const COLOURS = 4;
  const MOST_SEEN = 200;

  // ---- language and theme: the reader's choice, else the browser's ----
  const stored = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
  const store = (name, value) => { try { localStorage.setItem(name, value); } catch { /* a page from a file may not */ } };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  root.lang = stored("language") || (navigator.language.startsWith("zh") ? "zh-CN" : "en");
  if (stored("theme")) root.dataset.theme = stored("theme");
  document.getElementById("language").addEventListener("click", () => {
    root.lang = root.lang === "en" ? "zh-CN" : "en";
    store("language", root.lang);
  });
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    store("theme", root.dataset.theme);
  });

  // ---- elements: texts only ever become text nodes ----
  function make(tag, className, ...children) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...children);
    return element;
  }
  function drawn(tag, attributes) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }
  const count = (value) => value.toLocaleString("en-US");
  function say(key, values = {}) {
    const both = document.createDocumentFragment();
    data.words[key].forEach((words, place) => {
      const span = make("span", "");
      span.lang = place ? "zh-CN" : "en";
      words.split(/(\{\w+\})/).forEach((piece) => {
        const name = piece.startsWith("{") ? piece.slice(1, -1) : null;
        const value = name === null ? piece : values[name];
        if (value instanceof Node) span.append(value.cloneNode(true));
        else span.append(typeof value === "number" ? count(value) : String(value));
      });
      both.append(span);
    });
    return both;
  }

  // ---- a list of which only what is in sight exists ----
  function virtualList(box, height, draw, choose) {
    const space = make("div", "space");
    const rows = new Map();
    let items = [], chosen = null, waiting = false;
    box.replaceChildren(space);
    function update() {
      waiting = false;
      const first = Math.max(0, Math.floor(box.scrollTop / height) - 6);
      const last = Math.min(items.length, Math.ceil((box.scrollTop + box.clientHeight) / height) + 6);
      for (const [place, row] of rows) if (place < first || place >= last) { row.remove(); rows.delete(place); }
      for (let place = first; place < last; place++) {
        let row = rows.get(place);
        if (!row) {
          row = draw(items[place]);
          row.type = "button";
          row.tabIndex = -1;
          row.style.height = `${height}px`;
          row.style.transform = `translateY(${place * height}px)`;
          row.addEventListener("click", () => pick(place));
          rows.set(place, row);
          space.append(row);
        }
        row.setAttribute("aria-pressed", String(items[place] === chosen));
      }
    }
    function soon() { if (!waiting) { waiting = true; requestAnimationFrame(update); } }
    function pick(place) {
      if (place < 0 || place >= items.length) return;
      chosen = items[place];
      if (place * height < box.scrollTop) box.scrollTop = place * height;
      else if ((place + 1) * height > box.scrollTop + box.clientHeight) box.scrollTop = (place + 1) * height - box.clientHeight;
      update();
      choose(chosen);
    }
    box.addEventListener("scroll", soon, { passive: true });
    box.addEventListener("keydown", (event) => {
      const page = Math.floor(box.clientHeight / height);
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page }[event.key];
      if (!step) return;
      event.preventDefault();
      pick(Math.min(items.length - 1, Math.max(0, items.indexOf(chosen) + step)));
    });
    new ResizeObserver(soon).observe(box);
    return {
      pick,
      drop() { chosen = null; update(); },
      show(next) {
        items = next;
        rows.forEach((row) => row.remove());
        rows.clear();
        space.style.height = `${items.length * height}px`;
        box.scrollTop = 0;
        update();
      },
    };
  }
  function filtered(input, counter, all, text, list) {
    let texts = null, waiting = 0;
    function apply() {
      const wanted = input.value.trim().toLowerCase();
      texts = texts || all.map((item) => text(item).toLowerCase());
      const found = wanted ? all.filter((_, place) => texts[place].includes(wanted)) : all;
      counter.replaceChildren(say("shown", { shown: found.length, all: all.length }));
      list.show(found);
    }
    input.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(apply, 80); });
    apply();
  }

  // ---- where a document is from ----
  function origin(document_, corpus) {
    if (!document_.file) return make("span", "");
    const name = `${document_.file}:${document_.line}`;
    const line = make("p", "origin", make("bdi", "", document_.id === null ? "" : `${document_.id} · `));
    // A page from a web server may not lead to a file; what is served shows the source itself.
    if (!data.live && document_.address && document_.address.startsWith("file:///")) {
      const link = make("a", "", make("bdi", "", name));
      link.href = document_.address;
      line.append(link);
    } else {
      line.append(make("bdi", "", name));
    }
    if (!data.live || !document_.address) return line;
    const button = make("button", "", say("source"));
    button.type = "button";
    button.addEventListener("click", async () => {
      const found = await ask("source", { corpus, document: document_.number });
      const text = make("pre", "", found.error === undefined ? found.text : "");
      text.dir = "auto";
      button.replaceWith(found.error === undefined ? text : make("p", "warn", say("failed", { reason: found.error })));
    });
    return make("div", "", line, button);
  }

  // ---- a sample ----
  const sampleBox = document.getElementById("sample-shown");
  function partOf(sample, column) {
    let place = sample.documents.length - 1;
    while (place > 0 && sample.documents[place].column > column) place--;
    return place;
  }
  function strip(sample) {
    const inputs = sample.loss.length;
    const picture = drawn("svg", { class: "strip", viewBox: `0 0 ${inputs} 46`, preserveAspectRatio: "none", "aria-hidden": "true" });
    sample.documents.forEach((part, place) => {
      picture.append(drawn("rect", { class: `d${place % COLOURS}`, x: part.column, y: 0, width: part.length, height: 12 }));
    });
    for (let start = 0; start < inputs;) {
      let end = start;
      while (end < inputs && sample.loss[end] === sample.loss[start]) end++;
      picture.append(drawn("rect", { class: sample.loss[start] ? "counts" : "masked", x: start, y: 15, width: end - start, height: 7 }));
      start = end;
    }
    const top = Math.max(1, ...sample.positions);
    const points = sample.positions.map((position, column) => `${column},${(45 - 20 * position / top).toFixed(1)}`);
    picture.append(drawn("polyline", { class: "climb", points: points.join(" ") }));
    return picture;
  }
  function tokens(sample, readout) {
    const text = make("pre", "tokens");
    text.tabIndex = 0;
    const starts = new Set(sample.documents.map((part) => part.column));
    sample.ids.forEach((id, column) => {
      const shown = sample.texts === null ? String(id) : sample.texts[column];
      const label = column >= sample.loss.length;
      const place = partOf(sample, column);
      const part = sample.documents[place];
      // What no document covers is padding.
      const colour = part && column < part.column + part.length ? ` d${place % COLOURS}` : "";
      const token = make("span", `t${colour}`, shown);
      if (sample.texts === null) token.classList.add("ids");
      if (!label && !sample.loss[column]) token.classList.add("off");
      if (starts.has(column) && column) token.classList.add("start");
      if (column && sample.positions[column] === 0) token.classList.add("reset");
      token.dataset.column = column;
      text.append(token);
    });
    text.addEventListener("pointerover", (event) => {
      const column = Number(event.target.dataset.column);
      if (Number.isNaN(column)) return;
      const label = column >= sample.loss.length;
      readout.replaceChildren(say("token", {
        column, id: sample.ids[column], position: label ? "–" : sample.positions[column],
        loss: say(label ? "label" : sample.loss[column] ? "counts" : "masked"),
      }));
    });
    return text;
  }
  // What was looked up and what is in the list are chosen from in turn.
  let listed = null, pressed = null;
  function showLookedUp(sample, button) {
    if (listed) listed.drop();
    if (pressed) pressed.setAttribute("aria-pressed", "false");
    pressed = button;
    if (pressed) pressed.setAttribute("aria-pressed", "true");
    showSample(sample);
  }
  function showListed(sample) {
    if (pressed) pressed.setAttribute("aria-pressed", "false");
    pressed = null;
    showSample(sample);
  }
  function showSample(sample) {
    const counted = sample.loss.reduce((sum, one) => sum + one, 0);
    const resets = sample.positions.filter((position, column) => column && position === 0).length;
    const top = sample.positions.reduce((most, one) => Math.max(most, one), 0);
    const readout = make("p", "readout", say("hover"));
    const parts = make("ul", "parts");
    sample.documents.forEach((part, place) => {
      const whole = part.skipped === 0 && part.length === part.total;
      const said = say(whole ? "whole" : "part", {
        number: part.number, length: part.length, first: part.skipped, last: part.skipped + part.length - 1, total: part.total,
      });
      const about = make("p", "", said, " ", make("span", "quiet", say("column", { column: part.column })));
      parts.append(make("li", "", make("span", `swatch d${place % COLOURS}`), make("div", "", about, origin(part, sample.corpus))));
    });
    sampleBox.replaceChildren(
      make("h3", "", say("place", sample)),
      make("p", "quiet", say("sample", sample), " · ", make("bdi", "", sample.corpus), " · ", say("epoch", sample)),
      make("p", "", say("loss", { counted, all: sample.loss.length, top, resets })),
      make("p", "readout", say("strip")), strip(sample), tokens(sample, readout), readout, parts,
    );
  }
  if (sampleBox && data.samples.length) {
    const list = listed = virtualList(document.getElementById("sample-list"), 50, (sample) => {
      const documents = sample.documents.length;
      return make("button", "row",
        make("span", "", say("place", sample)),
        make("span", "quiet", make("bdi", "", sample.corpus), " · ", say(documents === 1 ? "document" : "documents", { count: documents })));
    }, showListed);
    filtered(document.getElementById("sample-filter"), document.getElementById("sample-count"), data.samples,
      (sample) => [sample.corpus, `step ${sample.step}`, `rank ${sample.rank}`, `sample ${sample.sample}`,
        ...sample.documents.map((part) => `${part.id || ""} ${part.file || ""}`), (sample.texts || []).join("")].join("\n"), list);
    // One with a boundary shows more than one without.
    list.pick(Math.max(0, data.samples.findIndex((sample) => sample.documents.length > 1)));
  }

  // ---- documents ----
  const documentBox = document.getElementById("document-list");
  if (documentBox) {
    const shown = document.getElementById("document-shown");
    const list = virtualList(documentBox, 50, (one) => {
      const place = one.file ? `${one.file}:${one.line}` : "";
      const name = one.id ? `${one.corpus} · ${one.id}` : `${one.corpus}:${one.number}`;
      return make("button", "row",
        make("span", "top", make("bdi", "", name), make("span", "quiet", say("tokens", { count: one.tokens }))),
        make("span", "quiet excerpt", place ? make("bdi", "", `${place}  `) : "", one.text.replace(/\s+/g, " ")));
    }, (one) => {
      const text = make("pre", "", one.text);
      text.dir = "auto";
      shown.replaceChildren(
        make("h3", "", make("bdi", "", `${one.corpus}:${one.number}`), " · ", say("tokens", { count: one.tokens })),
        origin(one, one.corpus), text);
    });
    filtered(document.getElementById("document-filter"), document.getElementById("document-count"), data.documents,
      (one) => `${one.corpus}:${one.number}\n${one.id || ""}\n${one.file || ""}:${one.line || ""}\n${one.text}`, list);
  }

  // ---- look-ups, where the page is served ----
  async function ask(what, values) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(values)) if (value !== "") query.set(name, value);
    try {
      return await (await fetch(`/api/${what}?${query}`)).json();
    } catch (error) {
      return { error: String(error.message || error) };
    }
  }
  const form = document.getElementById("look-up");
  if (form) {
    const status = document.getElementById("look-up-status");
    const look = async (values) => {
      pressed = null;
      status.replaceChildren(say("busy"));
      const found = await ask("trace", values);
      if (found.error !== undefined) {
        status.replaceChildren(say("failed", { reason: found.error }));
        return;
      }
      status.replaceChildren();
      if (found.samples) {
        const places = make("div", "seen");
        const buttons = found.samples.map((sample) => {
          const button = make("button", "", say("place", sample));
          button.type = "button";
          button.addEventListener("click", () => showLookedUp(sample, button));
          places.append(button);
          return button;
        });
        if (found.count > found.samples.length) places.append(say("more", { count: found.count - found.samples.length }));
        status.append(places);
        if (found.samples.length) showLookedUp(found.samples[0], buttons[0]);
      }
      (found.documents || []).forEach((one) => {
        const places = make("div", "seen", make("bdi", "", `${one.corpus}:${one.document}`), say("seen", { count: one.count, until: found.until }));
        one.seen.slice(0, MOST_SEEN).forEach((place) => {
          const button = make("button", "", say("place", place));
          button.type = "button";
          button.addEventListener("click", async () => {
            const answer = await ask("trace", { sample: place.sample });
            if (answer.error === undefined) showLookedUp(answer.samples[0], button);
            else status.append(say("failed", { reason: answer.error }));
          });
          places.append(button);
        });
        const more = one.count - Math.min(one.seen.length, MOST_SEEN);
        if (more > 0) places.append(say("more", { count: more }));
        status.append(places);
      });
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      look(Object.fromEntries(new FormData(form)));
    });
  }
})();
