// The buried jobs of all tubes or one, also grouped by tube and by the beginning of the body.
import { html, useEffect, useState } from './vendor/preact.mjs';
import { get, link, sees, setParams, usePolled } from './state.mjs';
import { Button, Empty, group, Num, plural, Trouble } from './parts.mjs';
import { Jobs, Search } from './jobs.mjs';

const groupedMost = 2000; // largest number of grouped jobs
const prefixOf = (j) => (j.body || '').replace(/\d+/g, '#').slice(0, 40);

export default function Buried({ params }) {
  const tubes = usePolled((signal) => get('tubes', { sort: '-buried', limit: 200 }, { signal }), 5000, []);
  const list = tubes.value ? tubes.value.tubes.filter((t) => t.jobs.buried > 0) : [];
  const tube = list.find((t) => t.path === params.tube);
  const all = !params.tube;
  const of = {
    path: all ? 'jobs' : `tubes/${params.tube}/jobs`, name: all ? 'all tubes' : tube ? tube.name : params.tube, state: 'buried',
    without: ['state', 'left', 'holder', ...(all ? [] : ['tube'])],
    params: { state: 'buried', ...(all || params.contains || params.older ? {} : { order: 'oldest' }), contains: params.contains, older_than: params.older },
    select: { ...(all ? { all_tubes: true } : { tube_path: params.tube }), states: ['buried'], contains: params.contains || undefined, older_than_seconds: params.older ? Number(params.older) : undefined },
  };
  return html`
    <h1>Buried</h1>
    <${Trouble} problem=${tubes.problem} />
    ${tubes.value && list.length === 0 && html`<${Empty}>No job is buried. Workers bury jobs that they cannot process; buried jobs wait until an operator kicks or deletes them.</${Empty}>`}
    ${list.length > 0 && html`
      <div class="chips" role="group" aria-label="tubes"><a class="chip" aria-current=${all ? 'true' : undefined} href=${link('buried')}>all tubes</a>
        ${list.slice(0, 30).map((t) => html`<a class="chip" aria-current=${t.path === params.tube ? 'true' : undefined} href=${link('buried', [], { tube: t.path })}><span class="name">${t.name}</span> <${Num} n=${t.jobs.buried} /></a>`)}
        ${list.length > 30 && html`<span class="dim">and ${group(list.length - 30)} more</span>`}</div>
      <${Kinds} params=${params} of=${of} />
      <${Search} params=${params} key=${params.tube} />
      <${Jobs} of=${of} empty="No buried job matches." />`}`;
}

// Kinds shows groups of similar jobs: of the same tube, and with the same first characters in
// the body, where all numbers count as equal.
function Kinds({ params, of }) {
  const [v, set] = useState();
  const wanted = sees() !== 'none' && !params.contains;
  useEffect(() => {
    if (!wanted) return;
    const stop = new AbortController();
    (async () => {
      const kinds = new Map();
      let after, n = 0;
      do {
        const part = await get(of.path, { state: 'buried', body: 'preview', limit: 1000, after }, { signal: stop.signal });
        for (const j of part.jobs) {
          const key = j.tube_path + '\0' + prefixOf(j);
          const k = kinds.get(key) || { tube: j.tube, path: j.tube_path, prefix: prefixOf(j), n: 0, literal: (j.body || '').match(/^[^\d]{0,40}/)[0] };
          k.n++;
          kinds.set(key, k);
        }
        n += part.jobs.length;
        after = part.next;
      } while (after && n < groupedMost);
      set({ kinds: [...kinds.values()].sort((a, b) => b.n - a.n), n, all: !after });
    })().catch(() => set(undefined));
    return () => stop.abort();
  }, [of.path, wanted]);
  if (!wanted || !v || v.kinds.length < 2) return null;
  return html`<details class="kinds"><summary>${plural(v.kinds.length, 'kind')}${v.all ? '' : ` among the first ${group(v.n)}`}, by tube and the beginning of the body</summary>
    <ul>${v.kinds.slice(0, 20).map((k) => html`<li><b class="num">${group(k.n)}</b> <a class="name" href=${link('buried', [], { tube: k.path })}>${k.tube}</a> <code>${k.prefix || '(no text)'}</code>
      ${k.literal.length > 3 && sees() === 'full' && html`<${Button} kind="small" onClick=${() => setParams({ tube: k.path, contains: k.literal })}>Show these</${Button}>`}</li>`)}</ul></details>`;
}
