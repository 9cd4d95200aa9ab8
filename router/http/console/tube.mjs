// One tube: its figures, its jobs by state, and its actions.
import { html, useState } from './vendor/preact.mjs';
import { everywhere, get, keep, kept, link, may, notify, openDialog, refresh, request, setParams, shown, useEvents, usePolled } from './state.mjs';
import { Age, age, Button, Bytes, count, Empty, Fact, Graph, Num, plural, rate, Spans, spans, states, Tabs, Trouble, useHistory } from './parts.mjs';
import { actOnMany, flush, once } from './act.mjs';
import { Jobs, put, Search } from './jobs.mjs';
import { editPolicy, OfTube } from './policies.mjs';

const series = ['put_per_second', 'delete_per_second', 'wait_p50_seconds', 'wait_p99_seconds'];
const orders = { __proto__: null, oldest: 'oldest first', newest: 'newest first', next: 'next to be served', scan: 'in any order' };

export default function Tube({ args: [path], params }) {
  const tube = usePolled((signal) => get('tubes/' + path, {}, { signal }), 2000, [path]);
  const t = !tube.problem || tube.problem.status !== 404 ? tube.value : undefined;
  useEvents(['tube:' + path], {}, (name, data) => { if (name === 'tube' && !data.tube !== !t) refresh(); });
  const span = spans[params.span] ? params.span : '1h';
  const history = useHistory(series, span, path, t && t.name);
  const state = states.includes(params.state) ? params.state : 'ready';
  const searching = params.contains || params.older;
  const order = state === 'reserved' || searching ? 'scan' : orders[params.order] ? params.order : 'oldest';
  if (!t) {
    return html`<h1 class="name">${shown(path)}</h1>
      ${tube.problem && (tube.problem.status === 404
        ? html`<${Empty}>This tube does not exist: it has neither jobs nor clients. ${may('put') && html`<${Button} onClick=${() => putDialog(path, shown(path))}>Put a job</${Button}>`}</${Empty}>`
        : html`<${Trouble} problem=${tube.problem} />`)}`;
  }
  const of = {
    path: `tubes/${path}/jobs`, name: t.name, state, without: ['tube', 'state', ...(state === 'reserved' ? [] : ['holder']), ...(state === 'delayed' || state === 'reserved' ? [] : ['left'])],
    params: { state, order, contains: params.contains, older_than: params.older },
    select: { tube_path: path, states: [state], contains: params.contains || undefined, older_than_seconds: params.older ? Number(params.older) : undefined },
  };
  return html`
    <p class="crumbs"><a href=${link('tubes')}>Tubes</a></p>
    <div class="line"><h1 class="name">${t.name}</h1>
      ${t.pause_left_seconds > 0 && html`<span class="flag paused">paused for <${Age} s=${t.pause_left_seconds} /> more</span>`}
      ${(may('put') || may('manage')) && html`<div class="buttons">
        ${may('put') && html`<${Button} kind="main" onClick=${() => putDialog(path, t.name)}>Put a job</${Button}>`}
        ${may('manage') && html`${t.pause_left_seconds > 0 ? html`<${Button} onClick=${() => once(`${t.name} is resumed`, () => request('DELETE', `tubes/${path}/pause`))}>Resume</${Button}>` : html`<${Button} onClick=${() => pauseDialog(path, t.name)}>Pause …</${Button}>`}
        ${t.jobs.buried > 0 && html`<${Button} onClick=${() => actOnMany('kick', { tube_path: path, states: ['buried'] }, { name: t.name })}>Kick buried …</${Button}>`}
        ${t.jobs.ready + t.jobs.delayed + t.jobs.buried > 0 && html`<${Button} kind="danger" onClick=${() => flushDialog(path, t)}>Flush …</${Button}>`}`}
        ${!t.policy && everywhere('manage') && html`<${Button} onClick=${() => editPolicy(path)}>New policy …</${Button}>`}</div>`}</div>
    ${t.jobs.ready > 0 && t.watching === 0 && html`<p class="warn">No worker watches this tube: its ${plural(t.jobs.ready, 'ready job')} will wait for one.</p>`}
    <dl class="facts">
      <${Fact} name="oldest ready">${t.jobs.ready ? html`<${Age} s=${t.oldest_ready_seconds} />` : '–'}</${Fact}>
      <${Fact} name="wait, p50 / p99">${t.wait.count ? html`<span class="num" title="since the tube was created; within a factor of two">${age(t.wait.p50_seconds)} / ${age(t.wait.p99_seconds)}</span>` : '–'}</${Fact}>
      <${Fact} name="run, p50 / p99">${t.run.count ? html`<span class="num">${age(t.run.p50_seconds)} / ${age(t.run.p99_seconds)}</span>` : '–'}</${Fact}>
      <${Fact} name="bodies"><${Bytes} n=${t.job_body_bytes} /></${Fact}>
      <${Fact} name="total put"><${Num} n=${t.jobs_total} /></${Fact}>
      <${Fact} name="timeouts"><${Num} n=${t.events_total.timeout} /></${Fact}>
      <${Fact} name="using / watching / waiting"><a class="num" href=${link('connections', [], { tube: path })}>${count(t.using)} / ${count(t.watching)} / ${count(t.waiting)}</a></${Fact}>
    </dl>
    ${t.policy && html`<${OfTube} t=${t} />`}
    ${history.value && html`<div class="line"><${Spans} span=${span} /></div><div class="graphs">
      <${Graph} title="Jobs per second" data=${history} write=${rate} height=${110} lines=${[{ name: 'put_per_second', text: 'put', tone: 'ready' }, { name: 'delete_per_second', text: 'delete', tone: 'buried', dash: [4, 3] }]} />
      <${Graph} title="Wait for a worker" data=${history} write=${age} height=${110} lines=${[{ name: 'wait_p50_seconds', text: 'p50', tone: 'reserved' }, { name: 'wait_p99_seconds', text: 'p99', tone: 'delayed' }]} /></div>`}
    <${Tabs} label="states" items=${states.map((s) => ({ text: s, n: t.jobs[s], here: s === state, href: link('tube', [path], { ...params, state: s === 'ready' ? '' : s }) }))} />
    <div class="line"><${Search} params=${params} key=${state} />
      ${state !== 'reserved' && !searching && html`<select aria-label="order" value=${order} onChange=${(e) => setParams({ order: e.target.value === 'oldest' ? '' : e.target.value })}>${Object.entries(orders).slice(0, 3).map(([k, text]) => html`<option value=${k}>${text}</option>`)}</select>`}</div>
    <${Jobs} of=${of} empty=${searching ? 'No job of this state matches.' : `No job of this tube is ${state}.`} />`;
}

// Saved jobs are kept in this browser.
const templates = () => { try { return JSON.parse(kept('jobs') || '{}'); } catch { return {}; } };

export function putDialog(path, name) { openDialog((close) => html`<${Put} path=${path} name=${name} close=${close} />`); }

function Put({ path, name, close }) {
  // The default priority is 1024 as on the command line: the first one that is not urgent.
  const [job, set] = useState({ body: '', pri: 1024, delay_seconds: 0, ttr_seconds: 60 });
  const [saved, save] = useState(templates());
  const [as, setAs] = useState('');
  const [problem, fail] = useState();
  const field = (key, title, least) => html`<label>${title}<input type="number" min=${least} max="4294967295" required value=${job[key]} onInput=${(e) => set({ ...job, [key]: e.target.value === '' ? '' : Number(e.target.value) })} /></label>`;
  const done = async (e) => {
    e.preventDefault();
    try {
      await put(path, job);
      close();
    } catch (err) { fail(err); }
  };
  const remember = () => {
    const next = { ...saved, [as]: job };
    keep('jobs', JSON.stringify(next));
    save(next);
    setAs('');
  };
  const forget = (k) => {
    const { [k]: gone, ...next } = saved;
    keep('jobs', JSON.stringify(next));
    save(next);
  };
  return html`<form onSubmit=${done}>
    <h2 id="dialog-title">Put a job into <span class="name">${name}</span></h2>
    ${Object.keys(saved).length > 0 && html`<div class="chips" role="group" aria-label="saved jobs">${Object.keys(saved).map((k) => html`<span class="chip"><button type="button" onClick=${() => set(saved[k])}>${k}</button><button type="button" aria-label=${'forget ' + k} onClick=${() => forget(k)}>×</button></span>`)}</div>`}
    <label>Body<textarea rows="8" data-first spellcheck=${false} value=${job.body} onInput=${(e) => set({ ...job, body: e.target.value })}></textarea></label>
    <div class="fields">${field('pri', 'Priority (0 is first)', 0)}${field('delay_seconds', 'Delay, s', 0)}${field('ttr_seconds', 'Time to run, s', 1)}</div>
    <${Trouble} problem=${problem} />
    <div class="buttons"><button type="submit" class="main">Put</button><${Button} onClick=${() => close()}>Cancel</${Button}>
      <label class="inline">save as<input value=${as} onInput=${(e) => setAs(e.target.value)} /></label><${Button} disabled=${!as} onClick=${remember}>Save</${Button}></div>
  </form>`;
}

function pauseDialog(path, name) {
  openDialog((close) => html`<${Pause} path=${path} name=${name} close=${close} />`);
}

function Pause({ path, name, close }) {
  const [seconds, set] = useState(300);
  const [problem, fail] = useState();
  const done = async (e) => {
    e.preventDefault();
    try {
      await request('PUT', `tubes/${path}/pause`, { json: { seconds } });
      notify(`${name} is paused`);
      close();
      refresh();
    } catch (err) { fail(err); }
  };
  return html`<form onSubmit=${done}>
    <h2 id="dialog-title">Pause <span class="name">${name}</span></h2>
    <p>Workers get no job of this tube meanwhile. Reserved jobs and puts are not affected.</p>
    <label>Seconds<input type="number" min="1" max="4294967295" required data-first value=${seconds} onInput=${(e) => set(Number(e.target.value))} /></label>
    <${Trouble} problem=${problem} />
    <div class="buttons"><button type="submit" class="main">Pause</button><${Button} onClick=${() => close()}>Cancel</${Button}></div></form>`;
}

function flushDialog(path, t) {
  openDialog((close) => html`<${Flush} path=${path} t=${t} close=${close} />`);
}

function Flush({ path, t, close }) {
  // All states, also with the figure 0: the figures may be old, and the server counts again.
  const all = ['ready', 'delayed', 'buried'];
  const [which, set] = useState(new Set(all));
  const toggle = (s) => { const next = new Set(which); if (!next.delete(s)) next.add(s); set(next); };
  return html`<form onSubmit=${(e) => { e.preventDefault(); close(); flush(path, t.name, all.filter((s) => which.has(s))); }}>
    <h2 id="dialog-title">Flush <span class="name">${t.name}</span>: which jobs?</h2>
    ${all.map((s) => html`<label class="check"><input type="checkbox" checked=${which.has(s)} onChange=${() => toggle(s)} /><span>${s} (<${Num} n=${t.jobs[s]} />)</span></label>`)}
    <div class="buttons"><button type="submit" class="danger" disabled=${which.size === 0}>Count</button><${Button} onClick=${() => close()}>Cancel</${Button}></div></form>`;
}
