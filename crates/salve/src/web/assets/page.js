// The page's one script: it shows what the server sends, and sends what people decide.
// Sections arrive as HTML over one stream per tab; nothing here builds HTML from data.

const KEY = 'salve-session';
const TOASTS = 3;
const TOAST_MS = 6000;
// What the page answers to a click may name a command to type.
const SAID_MS = 12_000;
const TROUBLE = new Set(['failed', 'exhausted', 'cooldown', 'failed_requires_human', 'crash_detected', 'crash-detected']);
const main = document.getElementById('main');
const connection = document.getElementById('connection');
const toasts = document.getElementById('toasts');

// ---- Session: a one-time code behind '#' becomes a token that only this origin can read.

async function openSession() {
  const code = new URLSearchParams(location.hash.slice(1)).get('code');
  if (!code) return;
  history.replaceState(null, '', location.pathname + location.search);
  const answer = await fetch('/api/session', {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ code }),
  });
  if (answer.ok) localStorage.setItem(KEY, (await answer.json()).token);
}

const authorization = () => ({ Authorization: `Bearer ${localStorage.getItem(KEY) ?? ''}` });

function withProject(path) {
  const project = new URLSearchParams(location.search).get('project');
  if (!project) return path;
  const url = new URL(path, location.origin);
  url.searchParams.set('project', project);
  return url.pathname + url.search;
}

// ---- The stream: one reader at a time; a tab that is hidden for long lets go of its connection.

let stream = null;
let lastId = null;
let wait = 500;

async function follow() {
  stream?.abort();
  const mine = stream = new AbortController();
  while (!mine.signal.aborted) {
    let trouble = 'The connection is gone';
    try {
      const headers = authorization();
      if (lastId !== null) headers['Last-Event-ID'] = lastId;
      const answer = await fetch(`/live${location.pathname}${location.search}`, { headers, signal: mine.signal });
      if (answer.status === 401) return signedOut();
      if (answer.status === 404) return show(paragraph('There is nothing here.'));
      if (!answer.ok) {
        // It answers: what keeps it from showing more is its own word, such as a long history to read.
        trouble = `The server says: ${(await answer.json()).detail}`;
        throw new Error(trouble);
      }
      say('');
      wait = 500;
      await read(answer.body.getReader());
    } catch (error) {
      if (mine.signal.aborted) return;
    }
    if (mine.signal.aborted) return;
    say(`${trouble}; trying again …`);
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, 5000);
  }
}

async function read(reader) {
  const decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const parts = text.split('\n\n');
    text = parts.pop();
    for (const part of parts) take(part);
  }
}

function take(part) {
  let name = 'message';
  const data = [];
  for (const line of part.split('\n')) {
    if (line.startsWith('event:')) name = line.slice(6).trim();
    else if (line.startsWith('id:')) lastId = line.slice(3).trim();
    else if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
  }
  const text = data.join('\n');
  if (name === 'section') showHtml(text);
  else if (name === 'problem') show(paragraph(text));
  else if (name === 'repairs') window.__canvasState = { ...window.__canvasState, repairStatus: JSON.parse(text) };
  else if (name === 'waiting') waiting(Number(text));
  else if (name === 'notices') for (const notice of JSON.parse(text)) toast(notice);
}

function signedOut() {
  say('');
  const box = document.createElement('div');
  box.className = 'empty';
  box.append(paragraph('This browser is not signed in. For a link that opens the page, type:'));
  const command = paragraph('');
  const code = document.createElement('code');
  code.textContent = 'salve serve --link';
  command.append(code);
  box.append(command);
  show(box);
}

function paragraph(text) {
  const p = document.createElement('p');
  p.textContent = text;
  return p;
}

function say(text) {
  connection.hidden = !text;
  connection.textContent = text;
}

// ---- Showing: what is there is changed in place, so that focus, selection and scrolling stay.

function show(node) {
  main.replaceChildren(node);
  tick();
}

function showHtml(html) {
  const next = document.createElement('main');
  next.innerHTML = html;
  morph(main, next);
  document.title = `${main.querySelector('h1')?.textContent ?? 'Salve'} · Salve`;
  tick();
  mark();
  for (const box of main.querySelectorAll('[data-follow]')) {
    const log = document.getElementById(box.dataset.follow);
    if (box.checked && log) log.scrollTop = log.scrollHeight;
  }
}

function morph(from, to) {
  const old = [...from.childNodes];
  const keyed = new Map(old.filter((node) => node.id).map((node) => [node.id, node]));
  let at = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    let match = wanted.id ? keyed.get(wanted.id) : at;
    if (match && !wanted.id && (match.id || match.nodeType !== wanted.nodeType || match.nodeName !== wanted.nodeName)) match = null;
    if (!match || match.nodeName !== wanted.nodeName) {
      from.insertBefore(wanted, at);
      continue;
    }
    if (match !== at) from.insertBefore(match, at);
    else at = at.nextSibling;
    if (match.nodeType === Node.TEXT_NODE) {
      if (match.data !== wanted.data) match.data = wanted.data;
      continue;
    }
    attributes(match, wanted);
    // What the page filled itself stays.
    if (!match.hasAttribute('data-keep')) morph(match, wanted);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function attributes(node, wanted) {
  const mine = new Set(['open', 'data-told']);
  for (const { name } of [...node.attributes]) {
    if (!wanted.hasAttribute(name) && !mine.has(name) && !(name === 'class' && node.matches('.at'))) node.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (name === 'open' || (name === 'value' && node === document.activeElement)) continue;
    if (node.getAttribute(name) !== value && !(name === 'class' && node.matches('.at'))) node.setAttribute(name, value);
  }
}

function tick() {
  const now = Date.now();
  for (const time of document.querySelectorAll('time[data-ago]')) {
    const seconds = Math.max(0, Math.round((now - Date.parse(time.dateTime)) / 1000));
    const span = seconds < 60 ? `${seconds} s` : seconds < 3600 ? `${Math.floor(seconds / 60)} min`
      : seconds < 86400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
    const told = time.dataset.ago === 'span' ? `for ${span}` : `${span} ago`;
    if (time.textContent !== told) time.textContent = told;
    time.title = new Date(time.dateTime).toLocaleString();
  }
}

function mark() {
  for (const link of document.querySelectorAll('.top nav a')) {
    const is = link.pathname === '/' ? location.pathname === '/' : location.pathname.startsWith(link.pathname);
    if (is) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

function waiting(count) {
  const link = document.querySelector('.top nav a[href="/needs-you"]');
  if (count) link.dataset.count = count;
  else delete link.dataset.count;
}

function toast({ message, phase, incident, name }) {
  const node = document.createElement('div');
  node.className = `toast ${phase === 'recovered' ? 'recovered' : TROUBLE.has(phase) ? 'trouble' : ''}`;
  // What the page itself says belongs to no incident.
  const told = document.createElement(incident ? 'a' : 'span');
  if (incident) told.href = withProject(`/incidents/${incident}`);
  told.textContent = message;
  told.title = name ?? '';
  const close = document.createElement('button');
  close.textContent = '×';
  close.setAttribute('aria-label', 'dismiss');
  close.addEventListener('click', () => node.remove());
  node.append(told, close);
  toasts.append(node);
  while (toasts.children.length > TOASTS) toasts.firstElementChild.remove();
  // What a person has to decide stays until it is dismissed.
  if (phase !== 'failed_requires_human') setTimeout(() => node.remove(), incident ? TOAST_MS : SAID_MS);
}

function tell(message, phase = 'failed') {
  toast({ message, phase });
}

// ---- Deciding.

async function post(path, body) {
  try {
    const answer = await fetch(withProject(path), {
      method: 'POST', headers: { ...authorization(), 'Content-Type': 'application/json' }, body: JSON.stringify(body),
    });
    if (answer.status === 401) return signedOut();
    const said = await answer.json();
    if (!answer.ok) tell(`${said.detail}${said.next ? ` — ${said.next}` : ''}`);
    else if (said.said) tell(said.said, said.ok ? 'recovered' : 'failed');
  } catch {
    tell('The server does not answer; nothing was decided.');
  }
}

// Puts the server's answer to a form below it.
async function ask(path, body, into) {
  try {
    const answer = await fetch(withProject(path), {
      method: 'POST', headers: { ...authorization(), 'Content-Type': 'application/json' }, body: JSON.stringify(body),
    });
    if (answer.status === 401) return signedOut();
    if (answer.ok) document.getElementById(into).innerHTML = await answer.text();
    else tell((await answer.json()).detail);
    tick();
  } catch {
    tell('The server does not answer.');
  }
}

// A browser gives the clipboard only to pages of this machine or behind TLS.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    tell('Copied.', 'recovered');
  } catch {
    tell(`The browser does not let the page copy: ${text}`);
  }
}

// Saves what the server answers as a file; a plain link could not show the token.
async function download(path, name) {
  const answer = await fetch(withProject(path), { headers: authorization() });
  if (!answer.ok) return tell('The file could not be made.');
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await answer.blob());
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

document.addEventListener('submit', (event) => {
  const form = event.target;
  if (form.method === 'dialog') return;
  event.preventDefault();
  const fields = new FormData(form, event.submitter);
  if (form.dataset.navigate) {
    const filled = [...fields].filter(([, value]) => value);
    go(`${form.dataset.navigate}${filled.length ? `?${new URLSearchParams(filled)}` : ''}`);
  } else if (form.dataset.fragment) {
    const filled = [...fields].filter(([, value]) => value !== '');
    const number = (name) => form.elements[name].type === 'number';
    const body = Object.fromEntries(filled.map(([name, value]) => [name, number(name) ? Number(value) : value]));
    busy(form.querySelectorAll('button'), () => ask(form.dataset.fragment, body, form.dataset.into));
  } else if (form.dataset.post) {
    const body = Object.fromEntries(fields);
    if (body.question) body.question = Number(body.question);
    busy(form.querySelectorAll('button'), () => post(form.dataset.post, body));
  }
});

async function busy(buttons, work) {
  for (const button of buttons) button.disabled = true;
  await work();
  for (const button of buttons) button.disabled = false;
}

document.addEventListener('click', (event) => {
  const button = event.target.closest('button');
  if (button?.dataset.post) {
    if (button.dataset.confirm && !confirm(button.dataset.confirm)) return;
    busy([button], () => post(button.dataset.post, JSON.parse(button.dataset.body)));
  } else if (button?.dataset.copy) {
    copy(button.dataset.copy);
  } else if (button?.dataset.download) {
    busy([button], () => download(button.dataset.download, button.dataset.file));
  } else if (button?.dataset.last) {
    const all = main.querySelectorAll(button.dataset.last);
    const box = main.querySelector('[data-follow]');
    if (box) box.checked = false;
    all[all.length - 1]?.scrollIntoView({ block: 'center' });
  } else if (button?.id === 'help-button') {
    document.getElementById('help').showModal();
  }
  const link = event.target.closest('a');
  if (!link || link.download || link.origin !== location.origin || event.metaKey || event.ctrlKey || event.shiftKey || link.target) return;
  if (link.hasAttribute('data-jump') || link.classList.contains('skip')) return;
  event.preventDefault();
  go(link.pathname + link.search);
});

// ---- Going about: the address holds the state.

function go(path) {
  history.pushState(null, '', withProject(path));
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
  follow();
  mark();
}

addEventListener('popstate', () => { follow(); mark(); });

let hiddenFor = 0;
document.addEventListener('visibilitychange', () => {
  clearTimeout(hiddenFor);
  if (document.hidden) hiddenFor = setTimeout(() => stream?.abort(), 30000);
  else if (stream?.signal.aborted) follow();
});

// ---- Keyboard.

function items() {
  return [...main.querySelectorAll('[data-item]')];
}

function move(by) {
  const all = items();
  if (!all.length) return;
  const at = all.findIndex((item) => item.classList.contains('at'));
  const next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
  for (const item of all) item.classList.toggle('at', item === next);
  next.scrollIntoView({ block: 'nearest' });
  (next.querySelector('a, button') ?? next).focus({ preventScroll: true });
}

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, select, textarea')) return;
  const current = main.querySelector('.at') ?? main;
  switch (event.key) {
    case 'j': move(1); break;
    case 'k': move(-1); break;
    case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8':
      document.querySelectorAll('.top nav a')[Number(event.key) - 1]?.click();
      break;
    case '/': {
      const search = main.querySelector('[data-search]');
      if (search) search.focus();
      else go('/incidents');
      break;
    }
    case '?': document.getElementById('help').showModal(); break;
    case 'a': case 'r': case 's': current.querySelector(`[data-key="${event.key}"]`)?.focus(); break;
    default: return;
  }
  event.preventDefault();
});

// ---- Projects, when there are several.

async function projects() {
  const answer = await fetch('/api/projects', { headers: authorization() });
  if (!answer.ok) return;
  const { projects } = await answer.json();
  if (projects.length < 2) return;
  const select = document.getElementById('project');
  const chosen = new URLSearchParams(location.search).get('project') ?? projects[0].name;
  for (const { name, root } of projects) {
    const option = new Option(name, name, false, name === chosen);
    option.title = root;
    select.append(option);
  }
  select.closest('label').hidden = false;
  select.addEventListener('change', () => {
    location.assign(`${location.pathname}?project=${encodeURIComponent(select.value)}`);
  });
}

await openSession();
mark();
follow();
projects();
setInterval(tick, 1000);
