// Client connections: protocol, age, reserved jobs.
import { html, useCallback, useEffect, useRef, useState } from './vendor/preact.mjs';
import { get, go, link, may, request, setParams, shown, still, tubeParam, usePolled } from './state.mjs';
import { Age, Button, Bytes, confirm, Empty, Fact, Num, State, Table, Trouble } from './parts.mjs';
import { once } from './act.mjs';

const columns = [
  { key: 'peer', title: 'Client', render: (c) => html`<span class="num">${c.peer || 'unix'}</span>${c.client_id && html` <span class="name">${c.client_id}</span>`}` },
  { key: 'protocol', title: 'Protocol', wide: true, render: (c) => c.protocol },
  { key: 'since', title: 'Connected', right: true, wide: true, render: (c) => html`<${Age} s=${c.open_seconds} />` },
  { key: 'does', title: 'Activity', render: (c) => does(c) },
  { key: 'holds', title: 'Reserved', right: true, render: (c) => html`<${Num} n=${c.holding} />` },
  { key: 'last', title: 'Last command', wide: true, render: (c) => html`${c.last_command || '–'}${c.last_command && html` <span class="dim"><${Age} s=${c.last_command_seconds} /> ago</span>`}` },
  { key: 'in', title: 'Received', right: true, wide: true, render: (c) => html`<${Bytes} n=${c.received_bytes_total} />` },
  { key: 'out', title: 'Sent', right: true, wide: true, render: (c) => html`<${Bytes} n=${c.sent_bytes_total} />` },
];

function does(c) {
  const roles = [c.worker && 'works', c.producer && 'puts', c.awaits && 'awaits results'].filter(Boolean).join(', ');
  if (c.state === 'waiting') return html`<span class="flag">waits</span> for a job, <${Age} s=${c.wait_seconds} />`;
  if (c.state === 'sleeping') return html`<span class="flag">sleeps</span> <${Age} s=${c.wait_seconds} />`;
  if (c.stopped_by.length) return html`${roles} <span class="flag warn" title="reasons why the server does not run its next command">${c.stopped_by.join(', ')}</span>`;
  return roles || html`<span class="dim">nothing yet</span>`;
}

export default function Connections({ args: [id], params }) {
  return id ? html`<${Connection} id=${id} />` : html`<${List} params=${params} />`;
}

function List({ params }) {
  const [list, set] = useState({ rows: [] });
  const fresh = JSON.stringify(params);
  const turn = useRef(0); // number of the list: answers for an earlier list are dropped
  const short = useRef(true); // the list has only its first part
  const ask = { protocol: params.protocol, holding: params.holding };
  const load = useCallback(async (after) => {
    short.current = !after;
    const mine = after ? turn.current : ++turn.current;
    try {
      const v = await get('connections' + (params.tube ? '?tube=' + tubeParam(params.tube) : ''), { ...ask, limit: 200, after });
      if (mine === turn.current) set((was) => ({ rows: after ? [...was.rows, ...v.connections] : v.connections, next: v.next, of: fresh, done: true }));
    } catch (err) { if (mine === turn.current) set((was) => ({ ...was, next: undefined, problem: err, done: true })); }
  }, [fresh]);
  useEffect(() => {
    load();
    const again = () => load();
    addEventListener('polystalk-refresh', again);
    const timer = setInterval(() => { if (short.current && !document.hidden && !still()) load(); }, 5000);
    return () => { clearInterval(timer); removeEventListener('polystalk-refresh', again); };
  }, [load]);
  return html`
    <div class="line"><h1>Connections</h1>
      <select aria-label="protocol" value=${params.protocol || ''} onChange=${(e) => setParams({ protocol: e.target.value })}><option value="">both protocols</option><option value="beanstalkd">beanstalkd</option><option value="Gearman">Gearman</option></select>
      <label class="check"><input type="checkbox" checked=${params.holding === 'true'} onChange=${(e) => setParams({ holding: e.target.checked ? 'true' : '' })} /> with reserved jobs</label>
      ${params.tube && html`<span class="chip">at <span class="name">${shown(params.tube)}</span> <button type="button" aria-label="all tubes" onClick=${() => setParams({ tube: '' })}>×</button></span>`}
</div>
    <${Trouble} problem=${list.problem} />
    <${Table} label="connections" columns=${columns} rows=${list.rows} keyOf=${(c) => c.id} open=${(c) => link('connections', [c.id])} fresh=${list.of}
      more=${list.next && list.of === fresh ? () => load(list.next) : undefined} empty=${list.done && html`<${Empty}>No ${params.holding || params.tube || params.protocol ? 'connected client matches' : 'client is connected'}.</${Empty}>`} />`;
}

const jobColumns = [
  { key: 'id', title: 'Job', render: (j) => j.id },
  { key: 'tube', title: 'Tube', render: (j) => html`<span class="name">${j.tube}</span>` },
  { key: 'state', title: 'State', wide: true, render: (j) => html`<${State} state=${j.state} />` },
  { key: 'since', title: 'In state', right: true, render: (j) => html`<${Age} s=${j.state_seconds} />` },
  { key: 'left', title: 'Time left', right: true, render: (j) => html`<${Age} s=${j.left_seconds} />` },
];

function Connection({ id }) {
  const v = usePolled((signal) => get('connections/' + id, {}, { signal }), 2000, [id]);
  const c = v.value;
  if (!c || (v.problem && v.problem.status === 404)) {
    return html`<h1>Connection ${id}</h1>${v.problem && (v.problem.status === 404 ? html`<${Empty}>It is closed. <a href=${link('connections')}>All connections</a></${Empty}>` : html`<${Trouble} problem=${v.problem} />`)}`;
  }
  const kill = async () => {
    const held = c.holding ? ` ${c.holding === 1 ? 'Its reserved job becomes' : `Its ${c.holding} reserved jobs become`} ready.` : '';
    if (await confirm({ title: 'Close this connection?', text: `The client sees it closed, and may connect again.${held}`, verb: 'Close' })
      && await once('The connection was closed', () => request('DELETE', 'connections/' + id))) go('connections');
  };
  const names = (list) => (list && list.length ? list.map((t) => html`<a class="chip name" href=${link('tube', [t.path])}>${t.name}</a>`) : '–');
  return html`
    <p class="crumbs"><a href=${link('connections')}>Connections</a></p>
    <div class="line"><h1 class="num">${c.peer || 'unix'}</h1>${c.client_id && html`<span class="name">${c.client_id}</span>`}
      ${may('admin') && html`<div class="buttons"><${Button} kind="danger" onClick=${kill}>Close …</${Button}></div>`}</div>
    <dl class="facts">
      <${Fact} name="protocol">${c.protocol}</${Fact}><${Fact} name="connected for"><${Age} s=${c.open_seconds} /></${Fact}>
      <${Fact} name="activity">${does(c)}</${Fact}>
      <${Fact} name="last command">${c.last_command || '–'}${c.last_command && html`, <${Age} s=${c.last_command_seconds} /> ago`}</${Fact}>
      <${Fact} name="received / sent"><${Bytes} n=${c.received_bytes_total} /> / <${Bytes} n=${c.sent_bytes_total} /></${Fact}>
      ${c.used_tube && html`<${Fact} name="uses">${names([c.used_tube])}</${Fact}>`}
      <${Fact} name=${c.protocol === 'Gearman' ? 'functions' : 'watches'}>${names(c.watched_tubes)}${c.watching > c.watched_tubes.length && ` and ${c.watching - c.watched_tubes.length} more`}</${Fact}>
      ${c.unsent_bytes > 0 && html`<${Fact} name="unsent replies"><${Bytes} n=${c.unsent_bytes} /></${Fact}>`}
    </dl>
    <h2>Reserved jobs</h2>
    <${Table} label="jobs it holds" columns=${jobColumns} rows=${c.jobs || []} keyOf=${(j) => j.id} open=${(j) => link('job', [j.id])} empty=${html`<${Empty}>None.</${Empty}>`} />`;
}
