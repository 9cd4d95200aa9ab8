// The one event stream of this page. It is closed while the page is hidden, since a browser has
// few connections to a server. Afterwards the shown data is loaded again.
import { useEffect, useRef } from './vendor/preact.mjs';
import { query } from './api.mjs';
import { refresh, session, still, store } from './state.mjs';

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
