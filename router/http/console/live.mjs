// The one stream of events of this page. It is closed while the page is not seen, since a
// browser has few connections to a server; what was shown then is read anew.
import { useEffect, useRef } from './vendor/preact.mjs';
import { query } from './api.mjs';
import { refresh, session, still, store } from './state.mjs';

/** live is what the stream has told last. */
export const live = store({});

/** stale is since when nothing was heard, in milliseconds; 0: it is live. */
export const stale = store(0);

// What the page wants to hear, besides the server's figures.
let wanted = { topics: [], params: {} };
let source = null;
let open = '';
const listeners = new Map(); // by the name of the event

/**
 * useEvents has the stream carry topics, with parameters of the view, and calls heard(name,
 * data) for each event as long as the component is there.
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
  const url = on ? 'api/v1/events' + query({ topics: ['server', 'journal', ...wanted.topics].join(','), ...wanted.params }) : '';
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
    if (stale.get()) refresh(); // nobody knows what was missed
    stale.set(0);
  };
  s.onerror = () => {
    if (s !== source) return;
    if (!stale.get()) stale.set(Date.now());
    if (s.readyState === EventSource.CLOSED) { // refused: it does not try again by itself
      open = '';
      setTimeout(connect, 3000);
    }
  };
}

document.addEventListener('visibilitychange', connect);
session.watch(connect);
