// The console: its frame, its pages by name, and its keys. A page is loaded when it is opened,
// except the overview, which is loaded at the start.
import { html, render, useEffect, useRef, useState } from './vendor/preact.mjs';
import { dialogs, get, go, link, live, loadSession, login, logout, may, openDialog, paused, request, route, selecting, session, shown, stale, still, theme, usePolled } from './state.mjs';
import { Age, age, Bytes, bytes, clock, count, Dialogs, Empty, FirstJob, Graph, group, keyTable, Notices, Num, plural, rate, Spans, spans, State, states, Trouble, useHistory } from './parts.mjs';

// The overview of the server: totals, health, graphs, and tubes that need attention.
const series = ['put_per_second', 'reserve_per_second', 'delete_per_second', 'wait_p50_seconds', 'wait_p99_seconds', 'ready', 'delayed', 'reserved', 'buried', 'oldest_ready_seconds'];

function Overview({ params }) {
  const span = spans[params.span] ? params.span : '1h';
  const first = usePolled((signal) => get('server', {}, { signal }), 0, []);
  const server = live.use().server || first.value;
  const history = useHistory(series, span);
  return html`
    <h1 class="hidden">Overview</h1>
    <${Trouble} problem=${!server && first.problem} />
    ${server && html`<${Strip} server=${server} />`}
    ${server && html`<section aria-label="jobs" class="totals">${states.map((s) => html`
      <div><${State} state=${s} /><b><${Num} n=${server.jobs[s]} /></b></div>`)}
      <div><span class="dim">tubes</span><b><${Num} n=${server.tubes} /></b></div>
      <div><span class="dim">workers</span><b><${Num} n=${server.connections.workers} /></b></div></section>`}
    <${Looks} server=${server} />
    <section aria-labelledby="graphs">
      <div class="line"><h2 id="graphs">${span === '1h' ? 'The last hour' : 'The last day'}</h2>
        <${Spans} span=${span} /></div>
      <div class="graphs">
        <${Graph} title="Jobs per second" data=${history} write=${rate} lines=${[{ name: 'put_per_second', text: 'put', tone: 'ready' }, { name: 'reserve_per_second', text: 'reserve', tone: 'reserved' }, { name: 'delete_per_second', text: 'delete', tone: 'buried', dash: [4, 3] }]} />
        <${Graph} title="Wait for a worker" data=${history} write=${age} lines=${[{ name: 'wait_p50_seconds', text: 'p50', tone: 'reserved' }, { name: 'wait_p99_seconds', text: 'p99', tone: 'delayed' }]} />
        <${Graph} title="Jobs" data=${history} write=${count} lines=${states.map((s) => ({ name: s, text: s, tone: s }))} />
        <${Graph} title="Oldest ready job" data=${history} write=${age} lines=${[{ name: 'oldest_ready_seconds', text: 'age', tone: 'delayed' }]} />
      </div>
    </section>`;
}

// Strip shows the health of the server.
function Strip({ server }) {
  const c = server.connections;
  const journal = live.use().journal || server.journal;
  const full = c.open / c.limit;
  return html`<section aria-label="health" class="strip">
    <div><span class=${'dot ' + (server.state === 'serving' ? 'good' : 'bad')}>${server.state}</span> for <${Age} s=${server.uptime_seconds} /></div>
    <div>memory <${Bytes} n=${server.memory_mapped_bytes} /></div>
    <div class=${full > 0.9 ? 'warn' : ''}>connections <${Num} n=${c.open} /> of <${Num} n=${c.limit} /></div>
    ${journal && journal.enabled && html`<div class=${journal.pressure === 'open' ? '' : 'bad'}>journal ${bytes(journal.bytes)}${journal.pressure === 'wait' ? ', the disk is behind' : journal.pressure === 'full' ? ', the disk is full' : ''}</div>`}
    ${journal && !journal.enabled && html`<div class="dim">no journal: jobs are only in memory</div>`}
    <div class="dim">${server.hostname} · ${server.version}</div>
  </section>`;
}

// Looks shows tubes that need attention. The server sorts tubes, so only the first are checked.
function Looks({ server }) {
  const v = usePolled(async (signal) => {
    const ask = (sort) => get('tubes', { sort, limit: 20 }, { signal });
    const [oldest, buried] = [await ask('-oldest'), await ask('-buried')];
    return { oldest: oldest.tubes, buried: buried.tubes };
  }, 5000, []);
  if (!v.value || !server) return null;
  const list = [];
  if (server.draining) list.push({ why: 'draining', text: 'New jobs are refused until the drain ends.', href: link('server') });
  for (const t of v.value.oldest) {
    if (t.jobs.ready && !t.watching) list.push({ tube: t, why: 'stalled', text: `${plural(t.jobs.ready, 'ready job')}, no worker` });
    else if (t.oldest_ready_seconds > 300) list.push({ tube: t, why: 'late', text: `the oldest job has been ready for ${age(t.oldest_ready_seconds)}${t.policy && t.held_by ? `, held back by its policy (${t.held_by})` : ''}` });
    if (t.pause_left_seconds > 0 && t.jobs.ready) list.push({ tube: t, why: 'paused', text: `for another ${age(t.pause_left_seconds)}` });
  }
  for (const t of v.value.buried) {
    if (t.jobs.buried) list.push({ tube: t, why: 'buried', text: t.jobs.buried === 1 ? '1 buried job' : `${plural(t.jobs.buried, 'buried job')}`, href: link('buried', [], { tube: t.path }) });
  }
  return html`<section aria-labelledby="looks">
    <h2 id="looks">Attention</h2>
    ${list.length === 0 ? html`<${Empty}>${server.tubes <= 1 && server.jobs_total === 0 ? html`Nothing yet: <${FirstJob} />` : 'Nothing needs attention: every tube with jobs has workers, and no job waits long.'}</${Empty}>`
      : html`<ul class="looks">${list.slice(0, 12).map((l) => html`<li><span class=${'flag ' + l.why}>${l.why}</span> ${l.tube ? html`<a class="name" href=${l.href || link('tube', [l.tube.path])}>${l.tube.name}</a>` : l.href && html`<a href=${l.href}>server</a>`} <span>${l.text}</span></li>`)}
        ${list.length > 12 && html`<li class="dim">${group(list.length - 12)} more: see <a href=${link('tubes', [], { sort: '-oldest' })}>all tubes</a></li>`}</ul>`}
  </section>`;
}

const pages = {
  __proto__: null, // names come from the URL, and may be anything
  overview: { title: 'Overview', key: 'o', needs: 'read' },
  tubes: { title: 'Tubes', key: 't', needs: 'look' },
  policies: { title: 'Policies', key: 'l', needs: 'read' },
  buried: { title: 'Buried', key: 'b', needs: 'look' },
  connections: { title: 'Connections', key: 'c', needs: 'read' },
  operations: { title: 'Operations', key: 'p', needs: 'look' },
  server: { title: 'Server', key: 's', needs: 'read' },
};
const allowed = () => Object.entries(pages).filter(([, p]) => may(p.needs));
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
  const known = pages[where.page] || pages[parts[where.page]];
  const [[first] = ['overview']] = allowed();
  const allowedHere = known && may(known.needs);
  const name = allowedHere ? where.page : first;
  const page = usePage(who.state === 'in' ? name : 'overview');
  useEffect(() => { if (!allowedHere && who.state === 'in') go(first); }, [allowedHere, who.state]);
  const since = stale.use();
  useEffect(() => { document.title = (since ? `stale since ${clock(since)} · ` : '') + `${(pages[name] || { title: shown(where.args[0]) }).title} · polystalk`; }, [name, where.args[0], since]);
  if (who.state === 'loading') return null;
  if (who.state !== 'in') return html`<${Login} who=${who} />`;
  if (!allowed().length) return html`<${Bar} who=${who} /><main class="page"><${Empty}>The identity ${who.name} may not look at any tube, nor at the server.</${Empty}></main><${Notices} />`;
  return html`
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById('main').focus(); }}>Skip to content</a>
    <${Bar} here=${parts[name] || name} who=${who} />
    <main id="main" tabindex="-1" class="page">
      ${page && page.view ? html`<${page.view} key=${name + '/' + where.args.join('/')} args=${where.args} params=${where.params} />` : page && html`<${Trouble} problem=${page.problem} />`}
    </main>
    <${Notices} /><${Dialogs} />`;
}

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
      <nav aria-label="pages" ref=${nav}>${allowed().map(([name, p]) => html`
        <a href=${link(name)} aria-current=${here === name ? 'page' : undefined}>${p.title}</a>`)}</nav>
      <div class="right">
        ${server && server.peers && html`<details class="menu"><summary>${server.hostname}</summary><div>${server.peers.map((p) => html`<a href=${p.url}>${p.name}</a>`)}</div></details>`}
        ${server && server.draining && html`<span class="flag warn">draining</span>`}
        <${Liveness} />
        <button type="button" class="quiet" title="keyboard shortcuts" aria-label="keys" onClick=${help}>?</button>
        <button type="button" class="quiet" title="light or dark theme" aria-label=${'colours: ' + theme.use()} onClick=${nextTheme}>${{ auto: '◐', light: '○', dark: '●' }[theme.use()]}</button>
        ${!may('manage') && !may('put') && html`<span class="flag">read only</span>`}
        ${who.name && html`<span class="who" title=${'role ' + who.role}>${who.name}</span>`}
        ${who.method === 'token' ? html`<button type="button" class="quiet" title=${who.name + ', role ' + who.role} onClick=${logout}>Log out</button>` : who.method !== 'server' && html`<button type="button" class="quiet" onClick=${login}>Log in</button>`}
        
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
  const send = async (e) => {
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
      <form onSubmit=${send}>
        <input hidden autocomplete="username" value="polystalk" />
        <label>Token<input type="password" ref=${field} autocomplete="current-password" value=${token} onInput=${(e) => set(e.target.value)} /></label>
        <button type="submit" class="main" disabled=${!token.trim()}>Log in</button>
      </form>
      <${Trouble} problem=${problem} />
      <p class="dim">The file of <code>--access-file</code> has the identities.</p>
    </main>`;
}

// ---- Keys: none with modifiers, none in fields.

const keys = [
  ['/', 'filter'], ['j, k', 'next row, previous row'], ['x', 'select the row'], ['Enter', 'open the row'],
  ['g, then o t l b c p s', 'overview, tubes, policies, buried, connections, operations, server'], ['p', 'pause or resume updates'], ['?', 'these keys'],
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
    const page = allowed().find(([, p]) => p.key === e.key);
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
