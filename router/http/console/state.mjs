// State that pages share: the current page (the fragment of the URL), the session, notices, and
// whether updates are paused.
import { useEffect, useLayoutEffect, useState } from './vendor/preact.mjs';
import { get, request, whenRefused, Problem } from './api.mjs';

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
    session.set({ state: v.role === 'nobody' || !v.role ? 'login' : 'in', ...v });
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

const ranks = { read: 1, operate: 2, admin: 3 };

/** may reports whether the session has a role. */
export const may = (role) => (ranks[session.get().role] || 0) >= ranks[role];

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
