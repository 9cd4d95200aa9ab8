// The console: its frame, its pages by name, and its keys. A page is loaded when it is opened,
// except the overview, which is loaded at the start.
import { html, render, useEffect, useRef, useState } from './vendor/preact.mjs';
import { request } from './api.mjs';
import { route, session, loadSession, logout, link, go, theme, paused, selecting, still, dialogs, openDialog } from './state.mjs';
import { live, stale } from './live.mjs';
import Overview from './overview.mjs';
import { Dialogs, Notices, Trouble, keyTable } from './parts.mjs';
import { clock } from './format.mjs';

const pages = {
  __proto__: null, // names come from the URL, and may be anything
  overview: { title: 'Overview', key: 'o' },
  tubes: { title: 'Tubes', key: 't' },
  buried: { title: 'Buried', key: 'b' },
  connections: { title: 'Connections', key: 'c' },
  operations: { title: 'Operations', key: 'p' },
  server: { title: 'Server', key: 's' },
};
const parts = { __proto__: null, tube: 'tubes', job: 'tubes' }; // pages below another

const loaded = { overview: { view: Overview } };

/** usePage returns a page's component once its module is loaded. */
function usePage(name) {
  const [, draw] = useState(0);
  useEffect(() => {
    if (loaded[name]) return;
    import(`./${name}.mjs`).then(
      (m) => { loaded[name] = { view: m.default }; draw((n) => n + 1); },
      () => { loaded[name] = { problem: { title: 'This page cannot be loaded', remedy: 'reload the console: the server may run another version now' } }; draw((n) => n + 1); },
    );
  }, [name]);
  return loaded[name];
}

function App() {
  const who = session.use();
  const where = route.use();
  const known = pages[where.page] || parts[where.page];
  const name = known ? where.page : 'overview';
  const page = usePage(who.state === 'in' ? name : 'overview');
  useEffect(() => { if (!known) go('overview'); }, [known]);
  const since = stale.use();
  useEffect(() => { document.title = (since ? `stale since ${clock(since)} · ` : '') + `${(pages[name] || { title: decode(where.args[0]) }).title} · polystalk`; }, [name, where.args[0], since]);
  if (who.state === 'loading') return null;
  if (who.state !== 'in') return html`<${Login} who=${who} />`;
  return html`
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById('main').focus(); }}>Skip to content</a>
    <${Bar} here=${parts[name] || name} who=${who} />
    <main id="main" tabindex="-1" class="page">
      ${page && page.view ? html`<${page.view} key=${name + '/' + where.args.join('/')} args=${where.args} params=${where.params} />` : page && html`<${Trouble} problem=${page.problem} />`}
    </main>
    <${Notices} /><${Dialogs} />`;
}

function decode(text) { try { return decodeURIComponent(text || ''); } catch { return text; } }

function Bar({ here, who }) {
  const server = live.use().server;
  const nav = useRef(null);
  useEffect(() => { // a narrow screen does not show all links
    const link = nav.current.querySelector('[aria-current]');
    if (link) nav.current.scrollLeft = Math.max(0, link.offsetLeft + link.offsetWidth - nav.current.clientWidth);
  }, [here]);
  return html`
    <header class="bar">
      <a class="brand" href=${link('overview')}>polystalk</a>
      <nav aria-label="pages" ref=${nav}>${Object.entries(pages).map(([name, p]) => html`
        <a href=${link(name)} aria-current=${here === name ? 'page' : undefined}>${p.title}</a>`)}</nav>
      <div class="right">
        ${server && server.peers && html`<details class="menu"><summary>${server.hostname}</summary><div>${server.peers.map((p) => html`<a href=${p.url}>${p.name}</a>`)}</div></details>`}
        ${server && server.draining && html`<span class="flag warn">draining</span>`}
        <${Liveness} />
        <button type="button" class="quiet" title="keyboard shortcuts" aria-label="keys" onClick=${help}>?</button>
        <button type="button" class="quiet" title="light or dark theme" aria-label=${'colours: ' + theme.use()} onClick=${nextTheme}>${{ auto: '◐', light: '○', dark: '●' }[theme.use()]}</button>
        ${who.role === 'read' && html`<span class="flag">read only</span>`}
        ${who.name && html`<span class="who" title=${'role ' + who.role}>${who.name}</span><button type="button" class="quiet" title=${who.name + ', role ' + who.role} onClick=${logout}>Log out</button>`}
        
      </div>
    </header>`;
}

const nextTheme = () => theme.set({ auto: 'light', light: 'dark', dark: 'auto' }[theme.get()]);

/** Liveness shows whether the page is up to date. */
function Liveness() {
  const since = stale.use();
  const held = [paused.use(), dialogs.use(), selecting.use()] && still();
  useEffect(() => { document.body.classList.toggle('stale', since > 0); }, [since]);
  const text = held ? 'paused' : since ? `stale since ${clock(since)}` : 'live';
  return html`<button type="button" class=${'live ' + (held ? 'held' : since ? 'lost' : 'on')} aria-pressed=${held} title="p: pause or resume updates"
    onClick=${() => paused.set(!paused.get())}>${text}</button>`;
}

function Login({ who }) {
  const [token, set] = useState('');
  const [problem, fail] = useState(who.problem);
  const field = useRef(null);
  useEffect(() => { if (field.current) field.current.focus(); }, [who.state]);
  const login = async (e) => {
    e.preventDefault();
    try {
      await request('POST', 'session', { json: { token: token.trim() } });
      loadSession();
    } catch (err) { fail(err); }
  };
  if (who.state === 'failed') {
    return html`<main class="login"><h1>polystalk</h1><${Trouble} problem=${problem} /><button type="button" class="main" onClick=${loadSession}>Try again</button></main>`;
  }
  return html`
    <main class="login">
      <h1>polystalk</h1>
      <form onSubmit=${login}>
        <input hidden autocomplete="username" value="polystalk" />
        <label>Token<input type="password" ref=${field} autocomplete="current-password" value=${token} onInput=${(e) => set(e.target.value)} /></label>
        <button type="submit" class="main" disabled=${!token.trim()}>Log in</button>
      </form>
      <${Trouble} problem=${problem} />
      <p class="dim">The file of <code>--http-tokens-file</code> lists the tokens.</p>
    </main>`;
}

// ---- Keys: none with modifiers, none in fields.

const keys = [
  ['/', 'filter'], ['j, k', 'next row, previous row'], ['x', 'select the row'], ['Enter', 'open the row'],
  ['g, then o t b c p s', 'overview, tubes, buried, connections, operations, server'], ['p', 'pause or resume updates'], ['?', 'these keys'],
];

function help() {
  openDialog((close) => html`<h2 id="dialog-title">Keys</h2>
    <table class="keys"><tbody>${keys.map(([k, what]) => html`<tr><th scope="row"><kbd>${k}</kbd></th><td>${what}</td></tr>`)}</tbody></table>
    <div class="buttons"><button type="button" class="main" onClick=${() => close()}>Close</button></div>`);
}

let afterG = 0;
addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.altKey || e.metaKey || dialogs.get().length || session.get().state !== 'in') return;
  const field = e.target.closest && e.target.closest('input, textarea, select, [contenteditable]');
  if (field && !(field.type === 'checkbox')) {
    // Escape and Enter leave the filter field, so that the next keys go to the table.
    if (e.key === 'Escape' || (e.key === 'Enter' && field.type === 'search' && !field.form)) {
      field.blur();
      e.preventDefault();
    }
    return;
  }
  const g = Date.now() - afterG < 1500;
  afterG = 0;
  const rows = keyTable.current;
  if (g) {
    const page = Object.entries(pages).find(([, p]) => p.key === e.key);
    if (page) { go(page[0]); e.preventDefault(); }
    return;
  }
  switch (e.key) {
    case 'g': afterG = Date.now(); return;
    case '/': {
      const f = document.querySelector('input[type=search]');
      if (f) { f.focus(); f.select(); e.preventDefault(); }
      return;
    }
    case 'p': paused.set(!paused.get()); return;
    case '?': help(); return;
    case 'j': if (rows) rows.move(1); return;
    case 'k': if (rows) rows.move(-1); return;
    case 'x': if (rows) rows.select(); return;
    case 'Enter': if (rows && !e.target.closest('a, button')) rows.open(); return;
  }
});

const root = document.createElement('div');
root.id = 'app';
document.body.append(root);
render(html`<${App} />`, root);
loadSession();
