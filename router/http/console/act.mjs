// Actions on many jobs. They count the jobs, ask the user, and then act on the counted jobs only.
import { html, useEffect, useState } from './vendor/preact.mjs';
import { complain, get, idempotencyKey, link, notify, openDialog, Problem, refresh, request } from './state.mjs';
import { Button, confirm, group, plural } from './parts.mjs';

// For more jobs than this, the user must type the tube's name.
export const typedAbove = 100;

const verbs = {
  delete: ['Delete', 'deleted'], kick: ['Kick', 'kicked'], bury: ['Bury', 'buried'],
  release: ['Release', 'released'], move: ['Move', 'moved'], copy: ['Copy', 'copied'], set: ['Change', 'changed'],
};

/**
 * actOnMany runs an action on all jobs of select. It counts the jobs, asks the user, and shows
 * the progress. name is the text that the user must type for many jobs: the tube's name. It
 * resolves to true once the action has begun.
 */
export const actOnMany = (action, select, { name, more = {} } = {}) => attempt(async () => {
  const [verb, done] = verbs[action];
  const counted = await settled(await request('POST', 'operations', { json: { action, select, dry_run: true, ...more } }), `Counting …`);
  if (!counted) return false;
  if (counted.state !== 'done') throw new Problem(409, counted.problem || { title: 'Counting the jobs failed', remedy: 'try again' });
  const n = counted.matched;
  if (n === 0) {
    notify('No job matches now');
    return false;
  }
  const ok = await confirm({
    title: `${verb} ${plural(n, 'job')}?`,
    text: html`${select.all_tubes ? 'Of all tubes' : html`Of the tube <b class="name">${name}</b>`}. Jobs that are added from now on are not affected${action === 'delete' ? '; deleted jobs cannot be restored' : ''}.`,
    verb: `${verb} ${group(n)}`, danger: action === 'delete', typed: n > typedAbove ? name : undefined,
  });
  if (!ok) return false;
  const op = await settled(await request('POST', 'operations', {
    json: { action, select, as_of: counted.as_of, expect_at_most: n, ...more }, headers: { 'Idempotency-Key': idempotencyKey() },
  }), `${verb}: ${plural(n, 'job')}`, n);
  if (op) report(op, done);
  return true;
});

/** report shows the result of an operation. */
export function report(op, done) {
  const skipped = Object.entries(op.skipped || {}).map(([why, n]) => `${group(n)} ${why}`);
  const text = `${plural(op.done, 'job')} ${done}` + (skipped.length ? `; skipped: ${skipped.join(', ')}` : '') + (op.state === 'done' ? '' : ` (${op.state})`);
  notify(text, { bad: op.state === 'failed', href: link('operations') });
}

// settled waits for the end of an operation, and shows its progress in a dialog. It returns
// undefined if the user closes the dialog first.
async function settled(op, title, of) {
  if (ended(op)) return op;
  return openDialog((close) => html`<${Progress} op=${op} title=${title} of=${of} close=${close} />`);
}

export const ended = (op) => op.state !== 'waiting' && op.state !== 'running';

function Progress({ op: first, title, of, close }) {
  const [op, set] = useState(first);
  useEffect(() => {
    const timer = setInterval(async () => {
      try {
        const v = await get('operations/' + first.id);
        set(v);
        if (ended(v)) close(v);
      } catch (err) { clearInterval(timer); complain(err); close(); }
    }, 500);
    return () => clearInterval(timer);
  }, []);
  const n = of ? op.done : op.looked_at;
  return html`
    <h2 id="dialog-title">${title}</h2>
    <progress max=${of || undefined} value=${of ? n : undefined} aria-label="progress"></progress>
    <p class="num">${op.state === 'waiting' ? 'Waiting for another operation' : of ? `${group(n)} of ${group(of)}` : `${group(n)} scanned, ${group(op.matched)} match`}</p>
    <div class="buttons">
      <${Button} onClick=${() => request('DELETE', 'operations/' + op.id).catch(complain)}>Cancel</${Button}>
      <${Button} onClick=${() => close()}>Close</${Button}>
    </div>`;
}

/** flush deletes all jobs in some states from a tube at once. */
export const flush = (path, name, states) => attempt(async () => {
  const params = { state: states.join(',') };
  const counted = await request('DELETE', `tubes/${path}/jobs`, { params: { ...params, dry_run: true } });
  if (counted.jobs === 0) {
    notify('The tube has no such jobs');
    return false;
  }
  const ok = await confirm({
    title: `Flush ${plural(counted.jobs, 'job')}?`, verb: `Flush ${group(counted.jobs)}`, typed: name,
    text: html`All ${states.join(', ').replace(/, (?=\w+$)/, ' and ')} jobs of the tube <b class="name">${name}</b> are deleted at once. Reserved jobs are not affected.`,
  });
  if (!ok) return false;
  const v = await request('DELETE', `tubes/${path}/jobs`, { params: { ...params, as_of: counted.as_of } });
  notify(`${plural(v.jobs, 'job')} flushed from ${name}`);
  return true;
});

/** askTube asks for the name of a tube. */
export function askTube(title, verb) {
  return openDialog((close) => html`<${Where} title=${title} verb=${verb} close=${close} />`);
}

function Where({ title, verb, close }) {
  const [name, set] = useState('');
  return html`<form onSubmit=${(e) => { e.preventDefault(); if (name) close(name); }}>
    <h2 id="dialog-title">${title}</h2>
    <label>Tube<input data-first value=${name} onInput=${(e) => set(e.target.value)} autocomplete="off" spellcheck=${false} /></label>
    <div class="buttons"><button type="submit" class="main" disabled=${!name}>${verb}</button><${Button} onClick=${() => close()}>Cancel</${Button}></div>
  </form>`;
}

/** once runs one action, and shows text when it has succeeded. */
export const once = (text, what) => attempt(async () => {
  await what();
  if (text) notify(text);
  return true;
});

// attempt returns the result of a change. If the change fails, it shows the problem and returns
// false.
async function attempt(what) {
  try {
    return await what();
  } catch (err) {
    complain(err);
    return false;
  } finally {
    refresh();
  }
}
