// For a page under development: <script src="http://127.0.0.1:7717/salve.js"></script>
// It shows how the page's server is repaired, and reports what fails in the page to Salve. It loads
// nothing else, keeps nothing, and changes nothing of the page but for a corner with notices.
(() => {
  const source = document.currentScript?.src;
  if (!source || window.__salve) return;
  window.__salve = true;
  const base = new URL(source).origin;
  const TOASTS = 3;
  const TOAST_MS = 6000;
  const AGAIN_MS = 10_000;

  // ---- What fails is reported; the same failure once in a while.

  const told = new Map();

  function report(way, message, place) {
    const key = `${way} ${message} ${place}`;
    const now = Date.now();
    if (now - (told.get(key) ?? -Infinity) < AGAIN_MS) return;
    if (told.size > 200) told.clear();
    told.set(key, now);
    const body = JSON.stringify({ way, message: String(message).slice(0, 2000), place: place ? String(place).slice(0, 500) : null, page: location.pathname });
    // Plain text needs no leave from the other origin, and the answer is nobody's business.
    send(`${base}/dev-page/report`, { method: 'POST', mode: 'no-cors', body, keepalive: true }).catch(() => {});
  }

  const at = (file, line, column) => (file ? `${file}:${line}:${column}` : null);
  const isOurs = (url) => String(url).startsWith(base);
  const send = window.fetch.bind(window);

  addEventListener('error', (event) => {
    if (event instanceof ErrorEvent) return report('uncaught', event.message, at(event.filename, event.lineno, event.colno));
    const node = event.target;
    const url = node?.src || node?.href;
    if (url && !isOurs(url)) report('resource', `could not load ${node.localName}`, url);
  }, true);
  addEventListener('unhandledrejection', ({ reason }) => {
    const line = reason?.stack?.split('\n').find((text) => /:\d+:\d+\)?$/.test(text));
    report('rejection', reason?.message ?? reason, line?.match(/(\S+:\d+:\d+)\)?$/)?.[1].replace(/^\(/, ''));
  });

  window.fetch = async (...given) => {
    const url = given[0]?.url ?? given[0];
    const method = given[1]?.method ?? given[0]?.method ?? 'GET';
    try {
      const answer = await send(...given);
      if (answer.status >= 500) report('request', `${method} answered ${answer.status}`, url);
      return answer;
    } catch (error) {
      // One that the page itself gave up is no failure.
      if (error?.name !== 'AbortError') report('request', `${method} got no answer: ${error?.message}`, url);
      throw error;
    }
  };

  const open = XMLHttpRequest.prototype.open;
  XMLHttpRequest.prototype.open = function (method, url, ...rest) {
    this.addEventListener('error', () => report('request', `${method} got no answer`, url));
    this.addEventListener('load', () => { if (this.status >= 500) report('request', `${method} answered ${this.status}`, url); });
    return open.call(this, method, url, ...rest);
  };

  // ---- Notices, in a tree of their own that the page's style does not reach.

  let corner = null;

  function toast({ phase, message }) {
    if (!corner) {
      const host = document.body.appendChild(document.createElement('div'));
      host.style.cssText = 'position:fixed;right:12px;bottom:12px;z-index:2147483647';
      const root = host.attachShadow({ mode: 'closed' });
      const style = new CSSStyleSheet();
      style.replaceSync(`div{font:14px/1.4 system-ui,sans-serif;max-width:22rem}
        p{margin:6px 0 0;padding:8px 12px;border-radius:8px;background:#1a201d;color:#e3e9e6;border-left:4px solid #8ec4fa;box-shadow:0 2px 8px #0006;display:flex;gap:10px;justify-content:space-between}
        p.recovered{border-color:#7edba8}p.failed_requires_human,p.exhausted,p.failed{border-color:#ff9d98}
        button{all:unset;cursor:pointer}button:focus-visible{outline:2px solid #fff}`);
      root.adoptedStyleSheets = [style];
      corner = root.appendChild(document.createElement('div'));
      corner.setAttribute('role', 'status');
    }
    const line = document.createElement('p');
    line.className = phase;
    const close = document.createElement('button');
    close.textContent = '×';
    close.setAttribute('aria-label', 'dismiss');
    close.addEventListener('click', () => line.remove());
    line.append(message, close);
    corner.append(line);
    while (corner.children.length > TOASTS) corner.firstElementChild.remove();
    if (phase !== 'failed_requires_human') setTimeout(() => line.remove(), TOAST_MS);
  }

  function listen() {
    const stream = new EventSource(`${base}/dev-page/stream`);
    stream.addEventListener('notice', ({ data }) => toast(JSON.parse(data)));
    stream.addEventListener('repairs', ({ data }) => {
      window.__canvasState = { ...window.__canvasState, repairStatus: JSON.parse(data) };
    });
    // A refusal ends the stream for good; this page's server may not have been up yet.
    stream.addEventListener('error', () => {
      if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
    });
  }

  if (document.body) listen();
  else addEventListener('DOMContentLoaded', listen);
})();
