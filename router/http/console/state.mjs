// State that pages share: the current page (the fragment of the URL), the session, notices, and
// whether updates are paused.
import { useEffect, useLayoutEffect, useRef, useState } from './vendor/preact.mjs';

// Requests to the server's API, and their answers. All paths are relative to the page, so that
// the console works behind any path prefix.

/** A Problem is an error answer: a problem document of RFC 9457. */
export class Problem extends Error {
  constructor(status, about) {
    super(about.detail || about.title);
    this.status = status;
    this.kind = (about.type || '').replace(/^.*\//, '');
    this.title = about.title;
    this.detail = about.detail || '';
    this.remedy = about.remedy || '';
    this.field = about.field || '';
    this.requestId = about.request_id || '';
  }
}

/**
 * query returns the part of a URL after path, which may already have parameters. Parameters
 * that are undefined, null or '' are omitted.
 */
export function query(params, path = '') {
  const q = new URLSearchParams();
  for (const [name, v] of Object.entries(params || {})) {
    if (v !== undefined && v !== null && v !== '') q.set(name, v);
  }
  const text = q.toString();
  return text ? (path.includes('?') ? '&' : '?') + text : '';
}

let onRefused = () => {};

/** whenRefused calls f when the server no longer accepts the session or the token. */
export function whenRefused(f) { onRefused = f; }

/**
 * request sends a request to the API. json is a value to send as JSON, and body a Blob or
 * string. It resolves to the answer's JSON, undefined if there is none, and throws a Problem.
 */
export async function request(method, path, { params, json, body, headers, signal, whole } = {}) {
  const init = { method, signal, headers: { Accept: 'application/json', ...headers }, credentials: 'same-origin' };
  if (json !== undefined) {
    init.headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(json);
  } else if (body !== undefined) {
    init.headers['Content-Type'] = 'application/octet-stream';
    init.body = body;
  }
  const odd = /^tubes\/((?:\.|%2e){1,2}|%2f)(\/.*)?$/i.exec(path); // a browser resolves dots, and the server's router a slash
  if (odd) path = `tubes/-${odd[2] || ''}?tube=${odd[1]}`;
  let answer;
  try {
    answer = await fetch('api/v1/' + path + query(params, path), init);
  } catch (err) {
    if (err.name === 'AbortError') throw err;
    throw new Problem(0, { title: 'The server does not answer', remedy: 'check that it runs and can be reached from this machine' });
  }
  if (!answer.ok) {
    const about = await answer.json().catch(() => ({ title: 'The answer cannot be read', detail: `it has the status ${answer.status}`, remedy: 'check for a proxy between this page and the server' }));
    if (answer.status === 401) onRefused();
    throw new Problem(answer.status, about);
  }
  const text = await answer.text();
  const value = text ? JSON.parse(text) : undefined;
  return whole ? { value, etag: answer.headers.get('ETag'), status: answer.status, location: answer.headers.get('Location'), by: answer.headers.get('Polystalk-Server') } : value;
}

export const get = (path, params, more) => request('GET', path, { params, ...more });

/** idempotencyKey makes a key, so that a retry after a lost answer is not executed twice. */
export function idempotencyKey() { return crypto.randomUUID ? crypto.randomUUID() : Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join(''); }

/** tubeParam is a tube's percent-encoded name as the value of a parameter. */
export const tubeParam = (path) => path.replace(/[+&=;]/g, encodeURIComponent);

/** shown is a percent-encoded name as text, or as it is if it is no text. */
export function shown(path = '') { try { return decodeURIComponent(path); } catch { return path; } }

/** A store is a value that redraws its components when it changes. */
export function store(value) {
  const watchers = new Set();
  return {
    get: () => value,
    set(next) {
      if (next === value) return;
      value = next;
      for (const f of [...watchers]) f();
    },
    watch(f) {
      watchers.add(f);
      return () => watchers.delete(f);
    },
    use() {
      const [, draw] = useState(0);
      useLayoutEffect(() => { // at once, so that no change before the watch is missed
        const f = () => draw((n) => n + 1);
        watchers.add(f);
        return () => watchers.delete(f);
      }, []);
      return value;
    },
  };
}

// The route is #/page/argument?parameters. Arguments stay percent-encoded, as in paths of the
// API, since a tube's name may have any bytes.
function parseRoute() {
  const [path, q] = location.hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [page, ...args] = path.split('/');
  return { page: page || 'overview', args, params: Object.fromEntries(new URLSearchParams(q || '')) };
}

export const route = store(parseRoute());
addEventListener('hashchange', () => {
  const was = route.get();
  route.set(parseRoute());
  // A dialog belongs to the page that it was opened on: going back closes it, too.
  if (link(was.page, was.args) !== link(route.get().page, route.get().args)) for (const d of dialogs.get()) d.close(undefined);
});

/** link is the fragment of a page. */
export function link(page, args = [], params = {}) {
  const q = new URLSearchParams(Object.entries(params).filter(([, v]) => v !== '' && v != null)).toString();
  return '#/' + [page, ...args].join('/') + (q ? '?' + q : '');
}

/** go opens a page at once, so that the old page sends no more requests. */
export function go(page, args, params) {
  location.hash = link(page, args, params);
  route.set(parseRoute());
}

/** setParams changes parameters of the page; nothing is added to the history. */
export function setParams(change) {
  const { page, args, params } = route.get();
  history.replaceState(null, '', link(page, args, { ...params, ...change }));
  route.set(parseRoute());
}

/** The session: state is loading, login (the server wants a token) or in. */
export const session = store({ state: 'loading' });

export async function loadSession() {
  try {
    const v = await get('session');
    const blind = v.server === 'none' && !v.verbs.includes('look'); // there is no page for it
    session.set({ state: blind && v.method !== 'token' ? 'login' : 'in', ...v });
  } catch (err) {
    session.set({ state: err.status === 401 ? 'login' : 'failed', problem: err });
  }
}

whenRefused(() => {
  if (session.get().state === 'in') session.set({ state: 'login' });
});

export async function logout() {
  await request('DELETE', 'session').catch(() => {});
  loadSession();
}

/** login shows the form for a token, to a client that has an identity without one. */
export const login = () => session.set({ state: 'login' });

/**
 * may reports whether the session has a right: read or admin, of the server, or a verb on some
 * tube. The server knows for which tubes, and refuses the others.
 */
export const may = (right) => {
  const { server, verbs = [] } = session.get();
  return right === 'read' ? server === 'read' || server === 'admin' : right === 'admin' ? server === 'admin' : verbs.includes(right);
};

/** everywhere reports whether the session has a verb on every tube. */
export const everywhere = (verb) => (session.get().every_tube || []).includes(verb);

/** sees returns how much of job bodies the session may see: none, preview or full. */
export const sees = () => session.get().bodies || 'none';

/** Notices are the results of actions, the newest last. */
export const notices = store([]);
let lastNotice = 0;

export function notify(text, { bad = false, href } = {}) {
  const n = { key: ++lastNotice, text, bad, href };
  notices.set([...notices.get().slice(-3), n]);
  setTimeout(() => dismiss(n.key), bad ? 20000 : 8000);
}

export function dismiss(key) { notices.set(notices.get().filter((n) => n.key !== key)); }

/** complain shows a problem. */
export function complain(err) {
  if (err instanceof Problem) notify(`${err.title}${err.field ? ' (' + err.field + ')' : ''}${err.detail ? ': ' + err.detail : ''}${err.remedy ? ' — ' + err.remedy : ''}${err.requestId ? ` (request ${err.requestId})` : ''}`, { bad: true });
  else { notify(String(err), { bad: true }); throw err; }
}

/** Dialogs: a stack of components to show, each with a function that closes it. */
export const dialogs = store([]);

export function openDialog(view) {
  return new Promise((resolve) => {
    const d = { view, close: (v) => { dialogs.set(dialogs.get().filter((x) => x !== d)); resolve(v); } };
    dialogs.set([...dialogs.get(), d]);
  });
}

/** Updates are paused while the user wants it, a dialog is open, or rows are selected. */
export const paused = store(false);
export const selecting = store(0);
export const still = () => paused.get() || dialogs.get().length > 0 || selecting.get() > 0;

/** onGoOn calls f each time updates resume. It returns a function that stops this. */
export function onGoOn(f) {
  let was = still();
  const look = () => { const is = still(); if (was && !is) f(); was = is; };
  const stops = [paused, dialogs, selecting].map((s) => s.watch(look));
  return () => stops.forEach((stop) => stop());
}

/** The theme: auto, light or dark; kept in this browser. */
export const theme = store(read('theme') || 'auto');
function read(name) { try { return localStorage.getItem('polystalk-' + name); } catch { return null; } }
export function keep(name, value) { try { localStorage.setItem('polystalk-' + name, value); } catch { /* the browser keeps nothing */ } }
export function kept(name) { return read(name); }
const showTheme = () => { document.documentElement.dataset.theme = theme.get(); };
theme.watch(() => { keep('theme', theme.get()); showTheme(); });
showTheme();

/**
 * usePolled returns the answer of load(signal), and loads it again every `every` milliseconds while
 * the page is visible and updates are not paused. After a 404 it stops. deps are the values
 * that the request depends on.
 */
export function usePolled(load, every, deps) {
  const [v, set] = useState({ loading: true });
  useEffect(() => {
    const stop = new AbortController();
    let timer;
    let first = true;
    let absent = false;
    const turn = async () => {
      clearTimeout(timer);
      if (first || (!document.hidden && !still())) {
        try {
          const value = await load(stop.signal);
          absent = false;
          if (!stop.signal.aborted) set({ value, at: Date.now() });
        } catch (err) {
          if (stop.signal.aborted) return;
          absent = err.status === 404;
          set((was) => ({ ...was, loading: false, problem: err }));
        }
        first = false;
      }
      if (!stop.signal.aborted && every && !absent) timer = setTimeout(turn, every);
    };
    turn();
    const again = () => { if (!document.hidden && !absent) turn(); };
    document.addEventListener('visibilitychange', again);
    addEventListener('polystalk-refresh', turn);
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', again);
      removeEventListener('polystalk-refresh', turn);
    };
  }, deps);
  return v;
}

/** refresh loads the shown data again, after a change. */
export function refresh() { setTimeout(() => dispatchEvent(new Event('polystalk-refresh'))); }

// The one event stream of this page. It is closed while the page is hidden, since a browser has
// few connections to a server. Afterwards the shown data is loaded again.

/** live has the last events of the server and the journal. */
export const live = store({});

/** stale is the time when the stream was lost, in milliseconds; 0: the stream is open. */
export const stale = store(0);

// The topics of the page, in addition to server and journal.
let wanted = { topics: [], params: {} };
let source = null;
let open = '';
const listeners = new Map(); // by the name of the event

/**
 * useEvents adds topics and their parameters to the stream, and calls heard(name, data) for
 * each event while the component is mounted.
 */
export function useEvents(topics, params, heard) {
  const key = topics.join() + query(params);
  const latest = useRef(heard);
  latest.current = heard;
  useEffect(() => {
    const mine = { topics, params };
    wanted = mine;
    const f = (name, data) => latest.current(name, data);
    listeners.set(mine, f);
    connect();
    return () => {
      listeners.delete(mine);
      if (wanted === mine) wanted = { topics: [], params: {} };
      queueMicrotask(connect);
    };
  }, [key]);
}

function connect() {
  const on = session.get().state === 'in' && !document.hidden;
  const topics = [...(may('read') ? ['server', 'journal'] : []), ...wanted.topics];
  const url = on && topics.length ? 'api/v1/events' + query({ topics: topics.join(','), ...wanted.params }) : '';
  if (url === open) return;
  open = url;
  if (source) source.close();
  source = null;
  if (!url) return;
  const s = new EventSource(url);
  source = s;
  for (const name of ['server', 'tubes', 'tube', 'operation', 'journal']) {
    s.addEventListener(name, (e) => {
      if (s !== source) return;
      stale.set(0);
      const data = JSON.parse(e.data);
      if ((name === 'server' || name === 'journal') && !still()) live.set({ ...live.get(), [name]: data });
      for (const f of listeners.values()) f(name, data);
    });
  }
  s.onopen = () => {
    if (stale.get()) refresh(); // events may be missing
    stale.set(0);
  };
  s.onerror = () => {
    if (s !== source) return;
    if (!stale.get()) stale.set(Date.now());
    if (s.readyState === EventSource.CLOSED) { // refused: the browser does not retry
      open = '';
      setTimeout(connect, 3000);
    }
  };
}

document.addEventListener('visibilitychange', connect);
session.watch(connect);
