// Policies of tubes: all of them, one, the form, and what a tube's page shows of its policy.
import { html, useRef, useState } from './vendor/preact.mjs';
import { everywhere, get, go, link, may, notify, openDialog, refresh, request, setParams, shown, usePolled } from './state.mjs';
import { Age, age, Button, bytes, confirm, Empty, Fact, group, Num, plural, Table, Trouble } from './parts.mjs';
import { once, typedAbove } from './act.mjs';

const encoded = (text) => encodeURIComponent(text.replace(/\*$/, '')) + (text.endsWith('*') ? '*' : '');

const load = (signal) => get('policies', {}, { whole: true, signal });
const find = (answer, match) => answer && answer.value.policies.find((p) => shown(p.match) === shown(match)); // both forms of a name

const span = (s) => age(s).replace('.0', '');

/** words describes the options of a policy, a sentence each. */
function words(p) {
  const full = p.full === 'drop-oldest' ? 'a new job replaces the oldest ready one' : 'puts are refused';
  const { backoff_seconds: first, backoff_max_seconds: most } = p;
  return [
    p.attempts && `A job is buried after ${plural(p.attempts, 'failed attempt')}`,
    first && `A failed attempt delays its job by ${span(first)}${most === first ? '' : ', doubled each time'}${most > first ? `, at most ${span(most)}` : ''}`,
    p.ttl_seconds && `A job that has been ready for ${span(p.ttl_seconds)} is ${p.expired === 'bury' ? 'buried' : 'deleted'}`,
    p.max_jobs && `At most ${plural(p.max_jobs, 'waiting job')}, then ${full}`,
    p.max_bytes && `At most ${bytes(p.max_bytes)} of bodies, then ${full}`,
    p.running === 0 ? 'Workers get no job' : p.running && `At most ${plural(p.running, 'reserved job')}`,
    p.per_second && `At most ${group(p.per_second)} reserved per second${p.burst ? `, ${group(p.burst)} at once` : ''}`,
    p.buried_ttl_seconds && `A job that has been buried for ${span(p.buried_ttl_seconds)} is deleted`,
    p.max_buried && `At most ${plural(p.max_buried, 'buried job')}, then the oldest is deleted`,
  ].filter(Boolean);
}

// terms names the options of a policy and their values, shorter than words.
const terms = ({ match, note, tubes, warning, effect, ...options }) => Object.entries(options).map(([k, v]) => (
  k.endsWith('_seconds') ? `${k.slice(0, -8)} ${span(v)}` : `${k} ${group(v)}`).replaceAll('_', ' ')).join(' · ') || '–';

const Options = ({ p }) => html`${p.note && html`<p class="note">${p.note}</p>`}
  <ul class="words">${words(p).map((w) => html`<li>${w}</li>`)}${words(p).length === 0 && html`<li>No option is set</li>`}</ul>`;

const columns = [
  { key: 'match', title: 'Match', render: (p) => html`<span class="name">${shown(p.match)}</span>` },
  { key: 'tubes', title: 'Tubes', right: true, render: (p) => html`<${Num} n=${p.tubes} />` },
  { key: 'options', title: 'Options', render: (p) => terms(p) },
  { key: 'note', title: 'Note', wide: true, render: (p) => p.note || '–' },
];

export default function Policies({ args: [match], params }) {
  const answer = usePolled(load, 5000, []);
  if (match) return html`<${One} answer=${answer} match=${match} />`;
  const all = answer.value ? answer.value.value.policies : [];
  const text = params.match || '';
  const rows = all.filter((p) => (shown(p.match) + '\n' + (p.note || '')).includes(text));
  return html`
    <div class="line"><h1>Policies</h1>
      <input type="search" aria-label="filter by tube or note" placeholder="filter: part of a tube or note" value=${text} onInput=${(e) => setParams({ match: e.target.value })} />
      <span class="dim num">${plural(rows.length, 'policy', 'policies')}</span>
      ${everywhere('manage') && html`<${Button} onClick=${() => editPolicy()}>New policy …</${Button}>`}</div>
    <${Trouble} problem=${answer.problem} />
    <${Table} label="policies" columns=${columns} rows=${rows} keyOf=${(p) => p.match} fresh=${text} open=${(p) => link('policies', [p.match])}
      empty=${answer.value && html`<${Empty}>${text ? 'No policy matches.' : 'No policy yet. A policy limits the attempts, the age, the number or the rate of the jobs of a tube, or of all tubes whose names begin alike.'}</${Empty}>`} />`;
}

function One({ answer: { value: answer, problem }, match }) {
  const p = find(answer, match);
  const prefix = match.endsWith('*');
  return html`
    <p class="crumbs"><a href=${link('policies')}>Policies</a></p>
    <div class="line"><h1 class="name">${shown(match)}</h1>
      ${p && everywhere('manage') && html`<div class="buttons"><${Button} onClick=${() => editPolicy(match)}>Edit …</${Button}><${Button} kind="danger" onClick=${() => remove(match)}>Remove …</${Button}></div>`}</div>
    <${Trouble} problem=${problem} />
    ${answer && !p && html`<${Empty}>There is no such policy. <a href=${link('policies')}>All policies</a></${Empty}>`}
    ${p && html`<${Options} p=${p} />
      <dl class="facts"><${Fact} name="tubes that it applies to now">${p.tubes === 0 ? 'none' : html`<a class="num" href=${prefix ? link('tubes', [], { match: shown(match) }) : link('tube', [match])}>${group(p.tubes)}</a>`}</${Fact}></dl>`}`;
}

/** OfTube shows the policy of a tube, what holds the tube back, and what the policy has done. */
export function OfTube({ t }) {
  const answer = usePolled((signal) => (may('read') ? load(signal) : undefined), 10000, [t.policy]);
  const p = find(answer.value, t.policy);
  const own = t.policy === t.path;
  const name = own ? 'of this tube' : html`<span class="name">${shown(t.policy)}</span>`;
  const [limit, rate] = [p && p.running !== undefined ? `, ${group(t.jobs.reserved)} of ${group(p.running)}` : '', p && p.per_second ? `, ${group(p.per_second)} per second` : ''];
  const held = { pause: html`pause, <${Age} s=${t.pause_left_seconds} /> left`, running: 'reserved jobs' + limit, rate: 'rate' + rate }[t.held_by];
  return html`<section aria-labelledby="policy">
    <div class="line"><h2 id="policy">Policy ${may('read') ? html`<a href=${link('policies', [t.policy])}>${name}</a>` : name}</h2>
      ${everywhere('manage') && html`<div class="buttons"><${Button} onClick=${() => editPolicy(t.policy)}>Edit policy …</${Button}>
        ${!own && html`<${Button} onClick=${() => editPolicy(t.path, t.policy)}>Policy for this tube …</${Button}>`}</div>`}</div>
    <${Trouble} problem=${answer.problem} />
    ${p && html`<${Options} p=${p} />`}
    <dl class="facts"><${Fact} name="held back by">${held || 'nothing'}</${Fact}>
      ${Object.entries({ dead: 'buried after attempts', delayed: 'delayed', expired: 'expired', dropped: 'dropped', refused: 'puts refused' }).map(([what, name]) => html`
        <${Fact} name=${name}><${Num} n=${(t.policy_events_total || {})[what] || 0} /></${Fact}>`)}</dl></section>`;
}

/** editPolicy opens the form of a policy. A new one begins with the options of the policy like. */
export const editPolicy = (match, like = match) => once('', async () => {
  const set = await load();
  openDialog((close) => html`<${Form} set=${set} match=${match} like=${like} close=${close} />`);
});

// The fields of the form. The first choice is what holds without the option.
const fields = [
  ['attempts', 'Bury after attempts'], ['backoff_seconds', 'First back-off, s'], ['backoff_max_seconds', 'Longest back-off, s'],
  ['ttl_seconds', 'Expire after ready, s'], ['expired', 'Expired jobs', ['delete', 'bury']], ['buried_ttl_seconds', 'Delete after buried, s'],
  ['max_jobs', 'Most waiting jobs'], ['max_bytes', 'Most bytes of bodies'], ['full', 'When full', ['refuse', 'drop-oldest']],
  ['running', 'Most reserved jobs', 0], ['per_second', 'Reserves per second', 0.001], ['burst', 'Reserves at once'], ['max_buried', 'Most buried jobs'],
];

function Form({ set, match: given, like, close }) {
  const was = useRef(find(set, like) || {}).current;
  const [problem, fail] = useState();
  const isNew = !find(set, given);
  const done = async (e) => {
    e.preventDefault();
    fail();
    const p = Object.fromEntries([...new FormData(e.target)].filter(([, v]) => v !== '').map(([k, v]) => [k, e.target[k].type === 'number' ? Number(v) : v]));
    p.match = given || encoded(p.match);
    const put = (params) => request('PUT', 'policies/' + p.match, { json: p, params, headers: { 'If-Match': set.etag } });
    try {
      if (isNew && find(set, p.match)) throw { title: 'There is a policy for these tubes', remedy: 'edit that policy, or write another name' };
      const v = await put({ dry_run: true });
      if (!await agree(isNew ? 'Add' : 'Change', p.match, [v], html` The policy applies to ${plural(v.tubes, 'tube')}. ${v.warning && html`<span class="warn">${v.warning}</span>`}`)) return;
      await put();
      notify(`The policy ${shown(p.match)} was ${isNew ? 'added' : 'changed'}`, { href: link('policies', [p.match]) });
      close();
      refresh();
    } catch (err) { fail(err); }
  };
  const field = ([name, title, more = 1]) => html`<label>${title}${Array.isArray(more)
    ? html`<select name=${name}>${more.map((v, i) => html`<option value=${i ? v : ''} selected=${was[name] === v}>${v}</option>`)}</select>`
    : html`<input type="number" name=${name} min=${more} step=${more || 1} defaultValue=${was[name]} />`}</label>`;
  return html`<form onSubmit=${done}>
    <h2 id="dialog-title">${isNew ? 'New policy' : 'Policy'} ${given && html`<span class="name">${shown(given)}</span>`}</h2>
    ${!given && html`<label>Tube, or the beginning of names and *<input name="match" required data-first autocomplete="off" spellcheck=${false} /></label>`}
    <p class="dim">An empty field sets no limit.</p>
    <div class="fields">${fields.map(field)}</div>
    <label>Note: the reason for the policy<input name="note" defaultValue=${was.note} /></label>
    <${Trouble} problem=${problem} />
    <div class="buttons"><button type="submit" class="main">Check …</button><${Button} onClick=${() => close()}>Cancel</${Button}></div></form>`;
}

// agree tells what a change of policies would do to jobs now, and asks the user. views are the
// answers to a dry run.
function agree(verb, match, views, more) {
  const counts = {};
  for (const { effect, expired, buried_ttl_seconds: alsoBuried } of views) {
    if (!effect) continue;
    const verb = expired !== 'bury' ? 'delete' : alsoBuried ? 'bury or delete' : 'bury';
    counts[verb] = (counts[verb] || 0) + effect.expired;
    counts.delete = (counts.delete || 0) + effect.dropped;
  }
  const least = views.some((v) => v.effect && v.effect.partial) ? 'at least ' : '';
  const parts = Object.entries(counts).filter(([, n]) => n > 0).map(([verb, n]) => `${verb} ${least}${plural(n, 'job')}`);
  const n = Object.values(counts).reduce((a, b) => a + b, 0);
  return confirm({
    title: html`${verb} the policy <span class="name">${shown(match)}</span>?`, danger: n > 0 || verb === 'Remove', typed: n > typedAbove ? shown(match) : undefined,
    text: html`<b>This would ${parts.join(' and ') || 'delete no job'} now.</b>${more}`, verb: [verb, ...parts].join(', '),
  });
}

// remove removes a policy. A policy with a shorter match may then apply to its tubes.
const remove = (match) => once('', async () => {
  const { value, etag } = await load();
  const policies = value.policies.filter((p) => p.match !== match);
  const { policies: views } = await request('PUT', 'policies', { json: { policies }, params: { dry_run: true } });
  if (!await agree('Remove', match, views, ' Its tubes then follow the policy with the next shorter match, if there is one.')) return;
  await request('DELETE', 'policies/' + match, { headers: { 'If-Match': etag } });
  notify(`The policy ${shown(match)} was removed`);
  go('policies');
});
