// Lists of jobs, with actions on the selected jobs or on all that match.
import { html, useCallback, useEffect, useRef, useState } from './vendor/preact.mjs';
import { everywhere, get, idempotencyKey, link, may, notify, refresh, request, sees, setParams, still } from './state.mjs';
import { Age, Button, Bytes, Empty, group, Num, State, Table, Trouble, useSelection } from './parts.mjs';
import { actOnMany, askTube } from './act.mjs';

// The actions that apply to jobs of a state. Other actions have no button.
const applies = { ready: ['bury', 'move', 'delete'], delayed: ['kick', 'bury', 'move', 'delete'], reserved: ['release'], buried: ['kick', 'move', 'delete'] };
const words = { kick: 'Kick', bury: 'Bury', release: 'Release', move: 'Move …', delete: 'Delete …' };

const columns = [
  { key: 'id', title: 'Job', render: (j) => j.id },
  { key: 'tube', title: 'Tube', render: (j) => html`<a class="name" href=${link('tube', [j.tube_path])}>${j.tube}</a>` },
  { key: 'state', title: 'State', render: (j) => html`<${State} state=${j.state} />` },
  { key: 'pri', title: 'Priority', right: true, wide: true, render: (j) => html`<${Num} n=${j.pri} />` },
  { key: 'since', title: 'In state', right: true, render: (j) => html`<${Age} s=${j.state_seconds} />` },
  { key: 'why', title: 'Buried by', render: (j) => j.buried_by || '–' },
  { key: 'left', title: 'Time left', right: true, wide: true, render: (j) => (j.left_seconds ? html`<${Age} s=${j.left_seconds} />` : '–') },
  { key: 'runs', title: 'Runs', right: true, wide: true, render: (j) => html`<${Num} n=${j.reserves_total} />` },
  { key: 'holder', title: 'Reserved by', wide: true, render: (j) => (j.holder ? html`<a class="num" href=${link('connections', [j.holder.connection])}>${j.holder.peer || j.holder.connection}</a>` : '–') },
  { key: 'size', title: 'Size', right: true, wide: true, render: (j) => html`<${Bytes} n=${j.body_bytes} />` },
  { key: 'body', title: 'Body', render: (j) => html`<span class="preview">${j.body ?? (j.body_base64 !== undefined ? 'binary data' : '')}</span>` },
];

/**
 * useJobs returns a list of jobs: {rows, more(), looked, problem}. more, if it is there, loads
 * the next part when the user scrolls. path is the list's path in the API, params its
 * parameters.
 */
function useJobs(path, params) {
  const [list, set] = useState({ rows: [] });
  const key = path + JSON.stringify(params);
  const turn = useRef(0);
  const busy = useRef(false);
  const short = useRef(true); // the list has only its first part
  const load = useCallback(async (after) => {
    if (after && busy.current) return;
    short.current = !after;
    const mine = after ? turn.current : ++turn.current;
    busy.current = true;
    try {
      // A part of a scan may be empty. Then the next part is loaded at once.
      let rows = [];
      let v;
      let at = after;
      let looked = 0;
      do {
        v = await get(path, { ...params, after: at });
        rows = [...rows, ...v.jobs];
        looked += v.looked_at;
        at = v.next;
        if (mine !== turn.current) return;
        set((was) => ({ ...was, looked: (after ? was.looked : 0) + looked, searching: rows.length === 0 && !!at }));
      } while (rows.length === 0 && at);
      set((was) => ({ rows: after ? [...was.rows, ...rows] : rows, next: v.next, of: key, looked: (after ? was.looked : 0) + looked, done: true }));
    } catch (err) {
      if (mine === turn.current) set((was) => ({ ...was, next: undefined, problem: err, done: true, searching: false }));
    }
    busy.current = false;
  }, [key]);
  useEffect(() => {
    busy.current = false;
    set({ rows: [], of: key });
    load();
    const again = () => load();
    addEventListener('polystalk-refresh', again);
    // The first part alone is loaded again regularly, except for a search, which costs too much.
    const timer = params.contains ? 0 : setInterval(() => {
      if (short.current && !busy.current && !document.hidden && !still()) load();
    }, 5000);
    return () => { turn.current++; clearInterval(timer); removeEventListener('polystalk-refresh', again); };
  }, [load]);
  // A cursor is valid only for the list that it came with.
  return { ...list, more: list.next && list.of === key ? () => load(list.next) : undefined };
}

/**
 * Jobs shows a list. of has {path, params} of the API, the columns to omit (without), the state
 * if all jobs have the same, and the select of an operation on all jobs that match.
 */
export function Jobs({ of, empty }) {
  const bodies = sees() !== 'none';
  const list = useJobs(of.path, { ...of.params, body: bodies ? 'preview' : undefined, limit: of.limit || 100 });
  const [selected, select] = useSelection();
  const shown = columns.filter((c) => !of.without.includes(c.key) && (c.key !== 'why' || of.state === 'buried') && (bodies || c.key !== 'body'));
  const verbs = of.state ? applies[of.state] : ['delete'];
  const acts = of.select.all_tubes ? everywhere('manage') : may('manage');
  return html`
    ${acts && list.rows.length > 0 && html`<${Deeds} of=${of} verbs=${verbs} chosen=${selected} done=${() => select(new Set())} />`}
    <${Trouble} problem=${list.problem} />
    ${list.searching && html`<p class="dim num">Searching: ${group(list.looked || 0)} jobs so far …</p>`}
    <${Table} label="jobs" columns=${shown} rows=${list.rows} keyOf=${(j) => j.id} fresh=${list.of}
      open=${(j) => link('job', [j.id])} more=${list.more}
      selected=${selected} onSelect=${acts ? select : undefined}
      empty=${list.done && html`<${Empty}>${empty}</${Empty}>`} />
    ${list.more && html`<div class="line"><${Button} onClick=${list.more}>Load more</${Button}></div>`}`;
}

// Deeds shows the actions. chosen has the ids of the selected jobs, which may have left the
// list. Without any, the actions are for all jobs that match.
function Deeds({ of, verbs, chosen, done }) {
  const n = chosen.size;
  const act = async (verb) => {
    const more = {};
    if (verb === 'move') {
      const to = await askTube('Move to which tube?', 'Move');
      if (!to) return;
      more.to = to;
    }
    const select = n ? { ...of.select, ids: [...chosen] } : of.select;
    if (await actOnMany(verb, select, { name: of.name, more })) done();
  };
  return html`<div class="buttons" role="group" aria-label="actions">
    <span class="num">${n ? `${group(n)} selected` : 'All that match'}</span>
    ${verbs.map((v) => html`<${Button} kind=${v === 'delete' ? 'danger' : ''} onClick=${() => act(v)}>${words[v]}</${Button}>`)}
    ${n > 0 && html`<${Button} kind="quiet" onClick=${done}>None</${Button}>`}</div>`;
}

/** Search shows the filters above a list: text in bodies, and the age of jobs. */
export function Search({ params }) {
  const [text, set] = useState(params.contains || '');
  const go = (e) => { e.preventDefault(); setParams({ contains: text }); };
  return html`<form class="search" role="search" onSubmit=${go}>
    ${sees() === 'full' && html`<input type="search" aria-label="search in bodies" placeholder="search in bodies" value=${text} onInput=${(e) => { set(e.target.value); if (!e.target.value) setParams({ contains: '' }); }} />`}
    <select aria-label="age" value=${params.older || ''} onChange=${(e) => setParams({ older: e.target.value })}>
      <option value="">any age</option><option value="60">older than 1 m</option><option value="3600">older than 1 h</option><option value="86400">older than 1 d</option>
    </select></form>`;
}

/** put puts a job, and shows its id. */
export async function put(path, job) {
  const v = await request('POST', `tubes/${path}/jobs`, { json: job, headers: { 'Idempotency-Key': idempotencyKey() } });
  notify(`Job ${v.id} was put`, { href: link('job', [v.id]) });
  refresh();
}
