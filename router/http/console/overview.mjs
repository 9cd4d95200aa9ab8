// The overview of the server: totals, health, graphs, and tubes that need attention.
import { html } from './vendor/preact.mjs';
import { get } from './api.mjs';
import { link, usePolled } from './state.mjs';
import { live } from './live.mjs';
import { Age, Bytes, Empty, FirstJob, Num, State, Trouble, states } from './parts.mjs';
import { Graph, Spans, spans, useHistory } from './graph.mjs';
import { age, bytes, count, plural, rate } from './format.mjs';

const series = ['put_per_second', 'reserve_per_second', 'delete_per_second', 'wait_p50_seconds', 'wait_p99_seconds', 'ready', 'delayed', 'reserved', 'buried', 'oldest_ready_seconds'];

export default function Overview({ params }) {
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
    else if (t.oldest_ready_seconds > 300) list.push({ tube: t, why: 'late', text: `the oldest job has been ready for ${age(t.oldest_ready_seconds)}` });
    if (t.pause_left_seconds > 0 && t.jobs.ready) list.push({ tube: t, why: 'paused', text: `for another ${age(t.pause_left_seconds)}` });
  }
  for (const t of v.value.buried) {
    if (t.jobs.buried) list.push({ tube: t, why: 'buried', text: t.jobs.buried === 1 ? '1 buried job' : `${plural(t.jobs.buried, 'buried job')}`, href: link('buried', [], { tube: t.path }) });
  }
  return html`<section aria-labelledby="looks">
    <h2 id="looks">Attention</h2>
    ${list.length === 0 ? html`<${Empty}>${server.tubes <= 1 && server.jobs_total === 0 ? html`Nothing yet: <${FirstJob} />` : 'Nothing needs attention: every tube with jobs has workers, and no job waits long.'}</${Empty}>`
      : html`<ul class="looks">${list.slice(0, 12).map((l) => html`<li><span class=${'flag ' + l.why}>${l.why}</span> ${l.tube ? html`<a class="name" href=${l.href || link('tube', [l.tube.path])}>${l.tube.name}</a>` : l.href && html`<a href=${l.href}>server</a>`} <span>${l.text}</span></li>`)}
        ${list.length > 12 && html`<li class="dim">${plural(list.length - 12, 'more')}: see <a href=${link('tubes', [], { sort: '-oldest' })}>all tubes</a></li>`}</ul>`}
  </section>`;
}
