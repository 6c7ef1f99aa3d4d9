const $ = (id) => document.getElementById(id);

// ---- requests ----

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// A name for one request, whatever becomes of its answer.
function requestKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

// once sends a request one time. XMLHttpRequest, because fetch tells no progress
// of an upload. Status 0: no answer.
function once(method, url, { file, headers, progress }) {
  return new Promise((resolve) => {
    const xhr = new XMLHttpRequest();
    xhr.open(method, url);
    for (const [name, value] of Object.entries(headers)) xhr.setRequestHeader(name, value);
    if (progress) xhr.upload.onprogress = (e) => progress(e.loaded / e.total);
    xhr.onloadend = () => {
      let body = {};
      try { body = JSON.parse(xhr.responseText); } catch { /* no answer, or an empty one */ }
      resolve({ status: xhr.status, body });
    };
    xhr.send(file);
  });
}

// send repeats a request that got no answer or came too early, always under the
// same Idempotency-Key, so that the server does it once and says so each time.
async function send(method, url, options) {
  for (let attempt = 1; ; attempt++) {
    const answer = await once(method, url, options);
    if (![0, 409, 503].includes(answer.status) || attempt === 4) return answer;
    options.retrying?.();
    await pause(300 * 2 ** attempt);
  }
}

const etag = (doc) => `"${doc.version}"`; // the version is text: it exceeds a number
const address = (doc) => `/documents/${encodeURIComponent(doc.id)}`;

function upload(method, url, file, ifMatch, transfer) {
  const headers = { "Idempotency-Key": requestKey(), "Content-Type": file.type || "application/octet-stream" };
  if (ifMatch) headers["If-Match"] = ifMatch;
  return send(method, `${url}?title=${encodeURIComponent(file.name)}`, {
    file, headers, progress: transfer.progress, retrying: () => transfer.say("no answer, asking again"),
  });
}

// ---- what a person does ----

async function create(file) {
  const transfer = showTransfer(file.name);
  const { status, body } = await upload("POST", "/documents", file, null, transfer);
  if (status !== 201) return transfer.fail(body.error ?? "no answer from the server");
  transfer.done("stored");
  await refresh();
}

async function replace(doc, file, ifMatch = etag(doc)) {
  const transfer = showTransfer(file.name);
  const { status, body } = await upload("PUT", address(doc), file, ifMatch, transfer);
  if (status === 200) {
    transfer.done("replaced");
    return refresh();
  }
  if (status !== 412 && status !== 404) return transfer.fail(body.error ?? "no answer from the server");
  transfer.fail("not stored: conflict");
  const asNew = { text: "Keep both", act: () => create(file) };
  await ask(doc, body.current, { Title: file.name, Size: size(file.size), Version: `made from ${short(doc)}` }, body.current
    ? [{ text: "Keep theirs" }, asNew, { text: "Replace it with mine", main: true, act: () => replace(doc, file, etag(body.current)) }]
    : [{ text: "Let it go" }, { ...asNew, text: "Store mine as a new document", main: true }]);
}

async function remove(doc, ifMatch = etag(doc)) {
  const { status, body } = await send("DELETE", address(doc), { headers: { "If-Match": ifMatch } });
  if (status === 412 && body.current) {
    return ask(doc, body.current, { Action: "delete", Version: `you saw ${short(doc)}` }, [
      { text: "Keep it", main: true }, { text: "Delete it anyway", act: () => remove(doc, etag(body.current)) },
    ]);
  }
  say(status === 204 || status === 404 ? `${doc.title} is deleted` : body.error ?? "no answer from the server");
  await refresh();
}

// ask does what the person chooses in a conflict. There is one dialog: a second
// conflict waits for the first to be decided.
let decided = Promise.resolve();
async function ask(doc, current, mine, choices) {
  const choice = decided.then(() => show(doc, current, mine, choices));
  decided = choice;
  await choices[await choice].act?.();
  await refresh();
}

// show lays both sides of a conflict before the person. Escape is the first
// choice, by which the other side stays.
async function show(doc, current, mine, choices) {
  $("what").textContent = current ? "Somebody was faster" : "It is gone";
  $("why").textContent = `“${doc.title}” was ${current ? "replaced" : "deleted"} after this page had shown it. Nothing was overwritten, so choose:`;
  describe($("there"), current
    ? { Title: current.title, Size: size(current.size), Changed: when(current.updatedAt), Version: short(current) }
    : { State: "deleted" });
  describe($("here"), mine);
  const dialog = $("conflict");
  dialog.returnValue = "";
  $("choices").replaceChildren(...choices.map((choice, i) => {
    const button = Object.assign(document.createElement("button"), { value: String(i), textContent: choice.text });
    button.classList.toggle("main", Boolean(choice.main));
    return button;
  }));
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  return Number(dialog.returnValue || 0);
}

// ---- the page ----

const short = (doc) => `…${doc.version.slice(-6)}`;
const when = (time) => new Date(time).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
const say = (text) => { $("status").textContent = text; };

function size(bytes) {
  for (const unit of ["bytes", "KiB", "MiB"]) {
    if (bytes < 1024 || unit === "MiB") return `${Number(bytes.toFixed(1))} ${unit}`;
    bytes /= 1024;
  }
}

function describe(dl, facts) {
  dl.replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [
    Object.assign(document.createElement("dt"), { textContent: name }),
    Object.assign(document.createElement("dd"), { textContent: value }),
  ]));
}

function showTransfer(name) {
  const li = $("transfer").content.firstElementChild.cloneNode(true);
  const [bar, state] = [li.querySelector("progress"), li.querySelector(".state")];
  li.querySelector(".name").textContent = name;
  bar.setAttribute("aria-label", name);
  $("transfers").prepend(li);
  const end = (kind, text) => {
    li.className = kind;
    state.textContent = text;
    say(`${name}: ${text}`);
  };
  return {
    progress: (part) => { bar.value = part; state.textContent = part < 1 ? `${Math.floor(part * 100)} %` : "storing"; },
    say: (text) => { state.textContent = text; },
    done: (text) => { bar.value = 1; end("done", text); },
    fail: (text) => end("failed", text),
  };
}

function showRow(doc) {
  const tr = $("row").content.firstElementChild.cloneNode(true);
  tr.dataset.id = doc.id;
  Object.assign(tr.querySelector("a"), { textContent: doc.title, href: address(doc), title: doc.title });
  tr.querySelector(".size").textContent = size(doc.size);
  Object.assign(tr.querySelector("time"), { textContent: when(doc.updatedAt), dateTime: doc.updatedAt });
  Object.assign(tr.querySelector("code"), { textContent: short(doc), title: `ETag ${etag(doc)}` });
  const [change, drop] = tr.querySelectorAll("button");
  change.setAttribute("aria-label", `Replace ${doc.title}`);
  change.onclick = () => {
    const input = Object.assign(document.createElement("input"), { type: "file" });
    input.onchange = () => replace(doc, input.files[0]);
    input.click();
  };
  drop.setAttribute("aria-label", `Delete ${doc.title}`);
  drop.onclick = () => remove(doc);
  // A file dropped on a row replaces that row's document.
  dropTarget(tr, ([file]) => replace(doc, file));
  return tr;
}

let next = "";

async function load(after) {
  const { status, body } = await send("GET", `/documents?limit=20&after=${encodeURIComponent(after)}`, { headers: {} });
  if (status !== 200) return say(body.error ?? "no answer from the server");
  const rows = body.documents.map(showRow);
  if (after) $("list").append(...rows);
  else $("list").replaceChildren(...rows);
  next = body.next;
  const none = !$("list").children.length;
  document.querySelector("table").hidden = none;
  $("empty").hidden = !none;
  $("more").hidden = !next;
}

const refresh = () => load("");

function dropTarget(element, take) {
  element.addEventListener("dragover", (e) => { e.preventDefault(); element.classList.add("over"); });
  element.addEventListener("dragleave", () => element.classList.remove("over"));
  element.addEventListener("drop", (e) => {
    e.preventDefault();
    element.classList.remove("over");
    if (e.dataTransfer.files.length) take([...e.dataTransfer.files]);
  });
}

dropTarget($("drop"), (files) => files.forEach(create));
$("choose").onchange = (e) => {
  [...e.target.files].forEach(create);
  e.target.value = "";
};
$("refresh").onclick = refresh;
$("more").onclick = () => load(next);
refresh();
