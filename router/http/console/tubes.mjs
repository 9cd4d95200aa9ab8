// All tubes, and functions of Gearman, in one table.
import { html, useCallback, useEffect, useLayoutEffect, useRef, useState } from './vendor/preact.mjs';
import { complain, get, link, may, notify, onGoOn, refresh, request, setParams, still, useEvents } from './state.mjs';
import { Age, age, Button, Bytes, clock, confirm, Empty, FirstJob, group, Num, plural, Rate, Table, Trouble, useSelection } from './parts.mjs';
import { flush } from './act.mjs';

const columns = [
  { key: 'name', title: 'Tube', sort: 'name', render: (t) => html`<span class="name">${t.name}</span>${t.pause_left_seconds > 0 && html` <span class="flag paused">paused</span>`}` },
  { key: 'ready', title: 'Ready', sort: 'ready', right: true, render: (t) => html`<${Num} n=${t.jobs.ready} />` },
  { key: 'reserved', title: 'Reserved', sort: 'reserved', right: true, wide: true, render: (t) => html`<${Num} n=${t.jobs.reserved} />` },
  { key: 'delayed', title: 'Delayed', sort: 'delayed', right: true, wide: true, render: (t) => html`<${Num} n=${t.jobs.delayed} />` },
  { key: 'buried', title: 'Buried', sort: 'buried', right: true, render: (t) => html`<${Num} n=${t.jobs.buried} />` },
  { key: 'put', title: 'Put/s', right: true, wide: true, render: (t) => html`<${Rate} x=${t.rates.put_per_second} />` },
  { key: 'reserve', title: 'Reserved/s', right: true, off: true, render: (t) => html`<${Rate} x=${t.rates.reserve_per_second} />` },
  { key: 'delete', title: 'Deleted/s', right: true, wide: true, render: (t) => html`<${Rate} x=${t.rates.delete_per_second} />` },
  { key: 'timeout', title: 'Timeouts/s', right: true, off: true, render: (t) => html`<${Rate} x=${t.rates.timeout_per_second} />` },
  { key: 'p99', title: 'Wait p99', right: true, wide: true, render: (t) => html`<span class="num">${t.wait.count ? age(t.wait.p99_seconds) : '–'}</span>` },
  { key: 'run', title: 'Run p99', right: true, off: true, render: (t) => html`<span class="num">${t.run.count ? age(t.run.p99_seconds) : '–'}</span>` },
  { key: 'total', title: 'Total put', sort: 'total', right: true, off: true, render: (t) => html`<${Num} n=${t.jobs_total} />` },
  { key: 'using', title: 'Using', sort: 'using', right: true, off: true, render: (t) => html`<${Num} n=${t.using} />` },
  { key: 'oldest', title: 'Oldest', sort: 'oldest', right: true, render: (t) => (t.jobs.ready ? html`<${Age} s=${t.oldest_ready_seconds} />` : '–') },
  { key: 'bytes', title: 'Bodies', sort: 'bytes', right: true, wide: true, render: (t) => html`<${Bytes} n=${t.job_body_bytes} />` },
  { key: 'watching', title: 'Watching', sort: 'watching', right: true, wide: true, render: (t) => html`<${Num} n=${t.watching} />` },
  { key: 'waiting', title: 'Waiting', sort: 'waiting', right: true, wide: true, render: (t) => html`<${Num} n=${t.waiting} />` },
];

// The columns shown by default. A choice of other columns is in the URL.
const usual = columns.filter((c) => !c.off).map((c) => c.key);

function Columns({ shown }) {
  const toggle = (key) => {
    const next = columns.map((c) => c.key).filter((k) => (k === key) !== shown.includes(k));
    setParams({ columns: next.join() === usual.join() ? '' : next.join() });
  };
  return html`<details class="menu"><summary>Columns</summary><div>${columns.slice(1).map((c) => html`
    <label class="check"><input type="checkbox" checked=${shown.includes(c.key)} onChange=${() => toggle(c.key)} /> ${c.title}</label>`)}</div></details>`;
}

// Events report the first tubes in the list, as far as the user has scrolled, but at most
// toldMost: each tube takes a kilobyte.
const toldMost = 200;
const toldStep = 40;

export default function Tubes({ params }) {
  const sort = params.sort || 'name';
  const match = params.match || '';
  const [text, setText] = useState(match);
  const [selected, select] = useSelection();
  const [list, show] = useState({ rows: [] });
  const [told, tell] = useState(toldStep);
  const known = useRef(list); // also has the events that arrived while updates are paused
  const setList = (change, quietly) => {
    known.current = change(known.current);
    if (!quietly) show(known.current);
  };
  useEffect(() => onGoOn(() => show(known.current)), []);
  const turn = useRef(0); // number of the list: answers for an earlier list are dropped
  const growing = useRef(false);

  // A text that is no pattern matches any part of a name.
  const pattern = match && !/[*?[]/.test(match) ? `*${match}*` : match;
  const fresh = JSON.stringify([sort, pattern]);
  const load = useCallback(async (after) => {
    if (after && growing.current) return;
    const mine = after ? turn.current : ++turn.current;
    growing.current = Boolean(after);
    try {
      const v = await get('tubes', { sort, match: pattern, limit: after ? 1000 : told + 20, after });
      if (mine === turn.current) setList((was) => ({ at: Date.now(), rows: after ? [...was.rows, ...v.tubes] : v.tubes, next: v.next, of: fresh, matching: v.matching }));
    } catch (err) {
      if (mine === turn.current) setList((was) => ({ ...was, next: undefined, problem: err }));
    }
    if (mine === turn.current) growing.current = false;
  }, [fresh, told]);
  useEffect(() => { tell(toldStep); }, [fresh]);
  useLayoutEffect(() => { load(); }, [load]); // tubes that left the first ones may be anywhere behind them
  useEffect(() => {
    const again = () => load();
    addEventListener('polystalk-refresh', again);
    return () => removeEventListener('polystalk-refresh', again);
  }, [load]);
  useEvents(['tubes'], { match: pattern, sort, limit: told }, (name, data) => {
    if (name === 'tubes') setList((was) => merged(was, data, sort, told), still());
  });

  const typed = (e) => {
    setText(e.target.value);
    clearTimeout(typed.timer);
    typed.timer = setTimeout(() => setParams({ match: e.target.value }), 200);
  };
  const shown = params.columns ? ['name', ...params.columns.split(',')] : usual;
  const chosen = list.rows.filter((t) => selected.has(t.path));
  return html`
    <div class="line"><h1>Tubes</h1>
      <input type="search" aria-label="filter by name" placeholder="filter: part of a name, or m*" value=${text} onInput=${typed} />
      <span class="dim num">${list.matching !== undefined && plural(list.matching, 'tube')}${list.rows.length > toldMost && `: the first ${toldMost} are live, the others from ${clock(list.at)}`}</span>
      ${list.rows.length > toldMost && html`<${Button} kind="small" onClick=${() => load()}>Refresh</${Button}>`}
      <${Columns} shown=${shown} />
      ${selected.size > 0 && may('manage') && html`<${Chosen} tubes=${chosen} done=${() => select(new Set())} />`}</div>
    <${Trouble} problem=${list.problem} />
    <${Table} label="tubes" columns=${columns.filter((c) => shown.includes(c.key)).map((c) => (params.columns ? { ...c, wide: false } : c))} total=${list.matching} onSeen=${(n) => tell((was) => Math.max(was, Math.min(toldMost, Math.ceil(n / toldStep) * toldStep)))} rows=${list.rows} keyOf=${(t) => t.path} sort=${sort} onSort=${(s) => setParams({ sort: s === 'name' ? '' : s })}
      open=${(t) => link('tube', [t.path])} fresh=${list.of} more=${list.next && list.of === fresh ? () => load(list.next) : undefined}
      selected=${selected} onSelect=${may('manage') ? select : undefined}
      empty=${list.matching !== undefined && html`<${Empty}>${match ? html`No tube name contains <b class="name">${match}</b>.` : html`No tube yet: <${FirstJob} />`}</${Empty}>`} />`;
}

const sorts = {
  __proto__: null,
  name: (t) => t.name, ready: (t) => t.jobs.ready, reserved: (t) => t.jobs.reserved, delayed: (t) => t.jobs.delayed, buried: (t) => t.jobs.buried,
  oldest: (t) => t.oldest_ready_seconds, total: (t) => t.jobs_total, using: (t) => t.using, bytes: (t) => t.job_body_bytes, watching: (t) => t.watching, waiting: (t) => t.waiting,
};

// merged returns the list after an event about tubes that have changed, entered or left. Tubes
// after the reported part stay unchanged. A tube that has left the reported part is removed, since
// it may not exist any more.
function merged(was, event, sort, told) {
  const gone = new Set(event.gone);
  const changed = new Map(event.tubes.map((t) => [t.path, t]));
  const first = was.rows.slice(0, told).filter((t) => !event.whole && !gone.has(t.name) && !changed.has(t.path));
  const key = sorts[sort.replace('-', '')];
  const down = sort[0] === '-' ? -1 : 1;
  const rows = [...first, ...event.tubes].sort((a, b) => {
    const x = key(a), y = key(b);
    return x < y ? -down : x > y ? down : a.name < b.name ? -1 : 1;
  });
  const seen = new Set(rows.map((t) => t.path));
  return { ...was, rows: [...rows, ...was.rows.slice(told).filter((t) => !seen.has(t.path) && (!event.whole || event.matching > told))], matching: event.matching, problem: undefined };
}

function Chosen({ tubes, done }) {
  const each = async (text, f) => {
    let n = 0;
    try {
      for (const t of tubes) { await f(t); n++; }
      notify(`${plural(n, 'tube')} ${text}`);
      done();
    } catch (err) { complain(err); }
    refresh();
  };
  const pause = async () => {
    if (await confirm({ title: `Pause ${plural(tubes.length, 'tube')}?`, text: 'Workers get no jobs of these tubes for an hour, or until you resume them.', verb: 'Pause for an hour', danger: false })) {
      each('paused', (t) => request('PUT', `tubes/${t.path}/pause`, { json: { seconds: 3600 } }));
    }
  };
  const resume = () => each('resumed', (t) => request('DELETE', `tubes/${t.path}/pause`));
  return html`<div class="buttons" role="group" aria-label="selected tubes"><span class="num">${group(tubes.length)} selected</span>
    <${Button} onClick=${pause}>Pause …</${Button}>
    ${tubes.some((t) => t.pause_left_seconds > 0) && html`<${Button} onClick=${resume}>Resume</${Button}>`}
    ${tubes.length === 1 && html`<${Button} kind="danger" onClick=${async () => { if (await flush(tubes[0].path, tubes[0].name, ['ready', 'delayed', 'buried'])) done(); }}>Flush …</${Button}>`}
    <${Button} kind="quiet" onClick=${done}>None</${Button}></div>`;
}
