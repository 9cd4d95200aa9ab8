// One job: its facts, its body, and its actions.
import { html, useEffect, useState } from './vendor/preact.mjs';
import { get, go, idempotencyKey, link, may, notify, openDialog, refresh, request, sees, usePolled } from './state.mjs';
import { Age, Button, Bytes, clock, confirm, Copy, Empty, Fact, Num, State, Trouble } from './parts.mjs';
import { askTube, once } from './act.mjs';
import { Body, fromBase64 } from './body.mjs';

// Larger bodies are not shown in full, because the browser would stop responding.
const bodyMost = 1 << 20;

export default function Job({ args: [id] }) {
  const answer = usePolled((signal) => get('jobs/' + id, {}, { signal, whole: true }), 2000, [id]);
  const j = answer.value && answer.value.value;
  const size = j && j.body_bytes;
  const how = size > bodyMost && sees() === 'full' ? 'preview' : sees();
  const body = usePolled((signal) => (size === undefined || how === 'none' ? Promise.resolve(undefined) : get('jobs/' + id, { body: how }, { signal })), 0, [id, size, how, answer.value && answer.value.etag]);
  const gone = answer.problem && answer.problem.status === 404;
  if (!j || gone) {
    return html`<h1>Job ${id}</h1>${gone ? html`<${Empty}>There is no job ${id}: it was deleted or never existed.</${Empty}>` : html`<${Trouble} problem=${answer.problem} />`}`;
  }
  return html`
    <p class="crumbs"><a href=${link('tubes')}>Tubes</a> / <a class="name" href=${link('tube', [j.tube_path], { state: j.state === 'ready' ? '' : j.state })}>${j.tube}</a></p>
    <div class="line"><h1>Job <span class="num">${j.id}</span></h1><${State} state=${j.state} /><${Copy} text=${j.id}>copy the id</${Copy}>
      ${may('manage') && html`<${Deeds} j=${j} />`}</div>
    <dl class="facts">
      <${Fact} name=${j.state + ' for'}><${Age} s=${j.state_seconds} /></${Fact}>
      ${j.state === 'reserved' && html`<${Left} seconds=${j.left_seconds} at=${answer.at} name="time to run left" />`}
      ${j.buried_by && html`<${Fact} name="buried by">${j.buried_by}</${Fact}>`}
      ${j.state === 'delayed' && html`<${Left} seconds=${j.left_seconds} at=${answer.at} name="ready in" />`}
      ${j.holder && html`<${Fact} name="held by"><a href=${link('connections', [j.holder.connection])}>${j.holder.peer || 'connection ' + j.holder.connection}</a></${Fact}>`}
      <${Fact} name="put"><span class="num" title=${clock(Date.now() - j.age_seconds * 1000)}><${Age} s=${j.age_seconds} /> ago</span></${Fact}>
      <${Fact} name="priority"><${Num} n=${j.pri} /></${Fact}>
      <${Fact} name="time to run"><${Age} s=${j.ttr_seconds} /></${Fact}>
      <${Fact} name="delay"><${Age} s=${j.delay_seconds} /></${Fact}>
      <${Fact} name="body"><${Bytes} n=${j.body_bytes} /></${Fact}>
      <${Fact} name="reserved"><span class="num">${j.reserves_total} ×</span></${Fact}>
      <${Fact} name="timed out"><span class="num">${j.timeouts_total} ×</span></${Fact}>
      <${Fact} name="released"><span class="num">${j.releases_total} ×</span></${Fact}>
      <${Fact} name="buried"><span class="num">${j.buries_total} ×</span></${Fact}>
      <${Fact} name="kicked"><span class="num">${j.kicks_total} ×</span></${Fact}>
    </dl>
    <section aria-labelledby="body"><h2 id="body">Body</h2>
      ${sees() === 'none' ? html`<p class="dim">You may not see job bodies. You need the verb work or manage with --http-bodies, or an identity with bodies.</p>` : body.value ? html`<${Body} key=${body.value.body_bytes} octets=${octetsOf(body.value)} of=${body.value.body_bytes} href=${sees() === 'full' && 'api/v1/jobs/' + id + '/body'} />` : html`<${Trouble} problem=${body.problem} />`}</section>`;
}

function octetsOf(v) { return v.body_base64 !== undefined ? fromBase64(v.body_base64) : new TextEncoder().encode(v.body || ''); }

// Left counts the time left down between two answers.
function Left({ seconds, at, name }) {
  const [now, set] = useState(Date.now());
  useEffect(() => { const t = setInterval(() => set(Date.now()), 500); return () => clearInterval(t); }, []);
  return html`<${Fact} name=${name}><${Age} s=${Math.max(0, seconds - (now - at) / 1000)} /></${Fact}>`;
}

function Deeds({ j }) {
  const held = j.state === 'reserved';
  const post = (verb, more = {}) => request('POST', `jobs/${j.id}/${verb}`, more);
  const sure = (verb) => (held ? confirm({ title: `${verb} a reserved job?`, text: 'Later commands of its worker for this job get NOT_FOUND.', verb, danger: true }) : Promise.resolve(true));
  const remove = async () => {
    const ok = await confirm({ title: `Delete job ${j.id}?`, text: held ? 'A worker has reserved it: its own delete will get NOT_FOUND. Deleted jobs cannot be restored.' : 'Deleted jobs cannot be restored.', verb: 'Delete' });
    if (ok && await once(`Job ${j.id} was deleted`, () => request('DELETE', 'jobs/' + j.id, { params: held ? { force: true } : {} }))) go('tube', [j.tube_path]);
  };
  // The form uses the job and the tag of one answer. With a newer tag, a change that another
  // user has made meanwhile would be lost.
  const edit = () => once('', async () => {
    const full = sees() === 'full' && j.body_bytes <= bodyMost; // only a whole body can be edited
    const { value, etag } = await get('jobs/' + j.id, { body: full ? 'full' : undefined }, { whole: true });
    openDialog((close) => html`<${Edit} j=${value} etag=${etag} close=${close} />`);
  });
  const elsewhere = async (verb, done) => {
    const to = await askTube(`${verb === 'move' ? 'Move' : 'Copy'} job ${j.id} to which tube?`, verb === 'move' ? 'Move' : 'Copy');
    if (!to) return;
    await once('', async () => {
      const v = await post(verb, { json: { to }, headers: { 'Idempotency-Key': idempotencyKey() } });
      notify(`Job ${j.id} was ${done} to ${to}: it is job ${v.id} there`, { href: link('job', [v.id]) });
      if (verb === 'move') go('job', [v.id]);
    });
  };
  return html`<div class="buttons" role="group" aria-label="actions">
    ${(j.state === 'buried' || j.state === 'delayed') && html`<${Button} kind="main" onClick=${() => once(`Job ${j.id} is ready`, () => post('kick'))}>Kick</${Button}>`}
    ${held && html`<${Button} onClick=${async () => { if (await sure('Release')) once(`Job ${j.id} is ready again`, () => post('release')); }}>Release …</${Button}>`}
    ${j.state !== 'buried' && html`<${Button} onClick=${async () => { if (await sure('Bury')) once(`Job ${j.id} is buried`, () => post('bury', { params: held ? { force: true } : {} })); }}>${held ? 'Bury …' : 'Bury'}</${Button}>`}
    ${!held && html`<${Button} onClick=${edit}>Edit</${Button}>`}
    ${!held && html`<${Button} onClick=${() => elsewhere('move', 'moved')}>Move …</${Button}>`}
    <${Button} onClick=${() => elsewhere('copy', 'copied')}>Copy …</${Button}>
    <${Button} kind="danger" onClick=${remove}>Delete …</${Button}></div>`;
}

// Edit sends the fields that the user has changed. The server refuses the change if the job has
// changed since the form was opened.
function Edit({ j, etag, close }) {
  const lines = j.body !== undefined ? asLines(j.body) : undefined;
  const text = lines && lines.text;
  const start = { pri: j.pri, ttr_seconds: j.ttr_seconds, delay_seconds: Math.ceil(j.left_seconds), body: text };
  const [form, set] = useState(start);
  const [problem, fail] = useState();
  const field = (key, title, least) => html`<label>${title}<input type="number" min=${least} max="4294967295" required value=${form[key]} onInput=${(e) => set({ ...form, [key]: e.target.value === '' ? '' : Number(e.target.value) })} /></label>`;
  const change = Object.fromEntries(Object.entries(form).filter(([k, v]) => v !== start[k]));
  if (change.body !== undefined) change.body = change.body.replaceAll('\n', lines.end);
  const done = async (e) => {
    e.preventDefault();
    try {
      await request('PATCH', 'jobs/' + j.id, { json: change, headers: { 'If-Match': etag } });
      notify(`Job ${j.id} was changed`);
      close();
      refresh();
    } catch (err) { fail(err); }
  };
  return html`<form onSubmit=${done}>
    <h2 id="dialog-title">Edit job ${j.id}</h2>
    <div class="fields">${field('pri', 'Priority (0 is first)', 0)}${j.state !== 'buried' && field('delay_seconds', 'Delay from now, s', 0)}${field('ttr_seconds', 'Time to run, s', 1)}</div>
    ${text !== undefined && html`<label>Body<textarea rows="12" spellcheck=${false} value=${form.body} onInput=${(e) => set({ ...form, body: e.target.value })}></textarea></label>`}
    ${j.body !== undefined && !lines && html`<p class="dim">A form would change the line endings of this body: <code>polystalk edit ${j.id} --editor</code> keeps them.</p>`}
    <${Trouble} problem=${problem} />
    <div class="buttons"><button type="submit" class="main" disabled=${Object.keys(change).length === 0}>Save</button><${Button} onClick=${() => close()}>Cancel</${Button}></div></form>`;
}

// asLines returns a text with LF line endings, as form fields have it, and the original line
// ending. It returns undefined if the text mixes line endings, which a field would lose.
function asLines(text) {
  const end = text.includes('\r\n') ? '\r\n' : '\n';
  const lines = text.replaceAll('\r\n', '\n');
  return !lines.includes('\r') && lines.replaceAll('\n', end) === text ? { text: lines, end } : undefined;
}
