// Bulk operations, and the audit of all changes.
import { html, useState } from './vendor/preact.mjs';
import { get, link, may, request, usePolled } from './state.mjs';
import { Button, clock, Empty, group, Num, plural, Table, Tabs, Trouble } from './parts.mjs';
import { ended, once } from './act.mjs';

export default function Operations({ params }) {
  const audit = params.show === 'audit' && may('admin');
  return html`<h1>Operations</h1>
    ${may('admin') && html`<${Tabs} label="what" items=${[{ text: 'on many jobs', here: !audit, href: link('operations') }, { text: 'audit of all changes', here: audit, href: link('operations', [], { show: 'audit' }) }]} />`}
    ${audit ? html`<${Audit} />` : html`<${List} />`}`;
}

// of describes the jobs of an operation.
function of({ asked: { select: s, to }, ids_given: n }) {
  const parts = [n ? plural(n, 'job') : s.all_tubes ? 'all tubes' : s.tube ?? s.tube_path, (s.states || []).join(', '), s.contains && `with “${s.contains}”`, to && `to ${to}`];
  return html`<span class="name">${parts.filter(Boolean).join(' ')}</span>`;
}

const columns = [
  { key: 'id', title: 'Number', wide: true, render: (o) => o.id },
  { key: 'action', title: 'Activity', render: (o) => html`${o.dry_run ? 'count, for ' : ''}${o.action}` },
  { key: 'of', title: 'Of', wide: true, render: (o) => of(o) },
  { key: 'name', title: 'Identity', wide: true, render: (o) => o.name || html`<span class="dim">no token</span>` },
  { key: 'state', title: 'State', render: (o) => html`<span class=${'flag ' + o.state}>${o.state}</span>${o.problem && html` <span class="dim" title=${o.problem.detail}>${o.problem.title}</span>`}` },
  { key: 'began', title: 'Begun', wide: true, render: (o) => html`<span class="num">${clock(o.began)}</span>` },
  { key: 'matched', title: 'Matched', right: true, render: (o) => html`<${Num} n=${o.matched} />` },
  { key: 'done', title: 'Done', right: true, render: (o) => html`<${Num} n=${o.done} />` },
  { key: 'skipped', title: 'Skipped', wide: true, render: (o) => Object.entries(o.skipped).map(([why, n]) => `${group(n)} ${why}`).join(', ') || '–' },
  { key: 'cancel', title: 'Cancel', render: (o) => (!ended(o) && may('manage') ? html`<${Button} kind="small" onClick=${() => once('Cancelling', () => request('DELETE', 'operations/' + o.id))}>Cancel</${Button}>` : '') },
];

function List() {
  const v = usePolled((signal) => get('operations', {}, { signal }), 1000, []);
  const rows = v.value ? [...v.value.operations].sort((a, b) => Number(b.id) - Number(a.id)) : [];
  return html`<${Trouble} problem=${v.problem} />
    <${Table} label="operations" columns=${columns} rows=${rows} keyOf=${(o) => o.id}
      empty=${v.value && html`<${Empty}>No bulk operation since the server started. Lists of jobs have buttons for them.</${Empty}>`} />`;
}

const auditColumns = [
  { key: 'time', title: 'When', render: (e) => html`<span class="num">${clock(e.time)}</span>` },
  { key: 'who', title: 'Identity', render: (e) => html`${e.name || html`<span class="dim">no token</span>`}` },
  { key: 'client', title: 'From', wide: true, render: (e) => html`<span class="num">${e.client}</span>` },
  { key: 'action', title: 'What', render: (e) => html`<code>${e.action.split(' ')[0]} ${e.path}</code>` },
  { key: 'status', title: 'Answer', right: true, render: (e) => html`<span class=${e.status < 300 ? 'num' : 'num warn'}>${e.status}</span>` },
  { key: 'affected', title: 'Jobs', right: true, wide: true, render: (e) => html`<${Num} n=${e.affected} />` },
  { key: 'request', title: 'Request', wide: true, render: (e) => html`<code>${e.request_id}</code>` },
];

function Audit() {
  const [older, set] = useState([]);
  const v = usePolled((signal) => get('audit', { limit: 200 }, { signal }), 3000, []);
  const entries = v.value ? v.value.entries : [];
  const known = new Set(entries.map((e) => e.number));
  const rows = [...entries, ...older.filter((e) => !known.has(e.number))];
  const more = async () => {
    const before = rows[rows.length - 1].number;
    if (before === '0') return;
    const part = await get('audit', { limit: 200, before });
    if (part.entries.length) set([...older, ...part.entries]);
  };
  return html`<${Trouble} problem=${v.problem} />
    <${Table} label="audit" columns=${auditColumns} rows=${rows} keyOf=${(e) => e.number} more=${rows.length >= 200 ? more : undefined}
      empty=${v.value && html`<${Empty}>No changes since the server started.</${Empty}>`} />`;
}
