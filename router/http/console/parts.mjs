// Components that several pages use.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from './vendor/preact.mjs';
import { dialogs, dismiss, get, link, may, notices, openDialog, route, selecting, setParams, tubeParam, usePolled } from './state.mjs';

// Formats figures as text: grouped digits, ages, sizes. A narrow no-break space is before each
// unit.
const thin = '\u202f';

/** group writes a whole number with its digits in threes: 1 234 567. */
export function group(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, thin);
}

/** count is group, but from a million on it writes three digits: 1.23 M. */
export function count(n) {
  if (n < 1e6) return group(n);
  for (const [unit, size] of [['T', 1e12], ['G', 1e9], ['M', 1e6]]) {
    if (n >= size) return three(n / size) + thin + unit;
  }
}

const three = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2));

/** bytes is a size: 12.3 kB. */
export function bytes(n) {
  if (n < 1000) return n + thin + 'B';
  for (const [unit, size] of [['TB', 1e12], ['GB', 1e9], ['MB', 1e6], ['kB', 1e3]]) {
    if (n >= size) return three(n / size) + thin + unit;
  }
}

/** age is a span of seconds in its two largest units: 3 m 12 s. */
export function age(s) {
  if (!(s > 0)) return '0' + thin + 's';
  if (s < 0.001) return Math.round(s * 1e6) + thin + 'µs';
  if (s < 1) return Math.round(s * 1000) + thin + 'ms';
  if (s < 10) return s.toFixed(1) + thin + 's';
  s = Math.floor(s);
  const units = [['d', 86400], ['h', 3600], ['m', 60], ['s', 1]];
  const i = units.findIndex(([, size]) => s >= size);
  const [unit, size] = units[i];
  const first = Math.floor(s / size) + thin + unit;
  if (i === 3) return first;
  const [next, nextSize] = units[i + 1];
  const rest = Math.floor((s % size) / nextSize);
  return rest ? first + ' ' + rest + thin + next : first;
}

/** rate is a number per second. */
export function rate(x) {
  if (!(x > 0)) return '0';
  if (x >= 1e6) return count(Math.round(x));
  if (x >= 10) return group(Math.round(x));
  return x >= 1 ? x.toFixed(1) : x >= 0.01 ? x.toFixed(2) : '<0.01';
}

/** clock is the time of day of a moment, with the date unless it is today. */
export function clock(moment) {
  const d = new Date(moment);
  const two = (n) => String(n).padStart(2, '0');
  const time = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  return d.toDateString() === new Date().toDateString() ? time : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${time}`;
}

/** plural writes a number and its noun. */
export function plural(n, one, many) {
  return `${group(n)} ${n === 1 ? one : many || one + 's'}`;
}

/** Num shows a number, in short form if it is large; the title has the exact number. */
export const Num = ({ n }) => html`<span class=${n ? 'num' : 'num zero'} title=${n >= 1e6 ? group(n) : undefined}>${count(n)}</span>`;
export const Rate = ({ x }) => html`<span class=${x > 0 ? 'num' : 'num zero'}>${rate(x)}</span>`;
export const Age = ({ s }) => html`<span class="num">${age(s)}</span>`;
export const Bytes = ({ n }) => html`<span class="num" title=${group(n) + ' bytes'}>${bytes(n)}</span>`;

/** The states of jobs. Each has a shape and a word in addition to its colour. */
export const states = ['ready', 'delayed', 'reserved', 'buried'];
export const State = ({ state }) => html`<span class=${'state ' + state}>${state}</span>`;

/** Trouble shows a problem next to the failed part. */
export const Trouble = ({ problem }) => problem && html`
  <div class="trouble" role="alert">
    <strong>${problem.title || 'It failed'}${problem.detail && ':'}</strong>${problem.detail && html` <span>${problem.detail}</span>`}
    ${problem.remedy && html`<div>What to do: ${problem.remedy}.</div>`}
    ${problem.requestId && html`<div class="dim">Request ${problem.requestId}</div>`}
  </div>`;

/** Empty explains why there is nothing to show, and what to do next. */
export const Empty = ({ children }) => html`<div class="empty">${children}</div>`;

/** FirstJob shows how to put a job, here and from the command line. */
export const FirstJob = () => html`<a href=${link('tube', ['default'])}>put a first job</a>, or from the command line <code>polystalk --server ${new URL('.', location.href).href.replace(/\/$/, '')} put mail --body hello</code>`;

export const Button = ({ onClick, kind = '', children, ...rest }) => html`<button type="button" class=${kind} onClick=${onClick} ...${rest}>${children}</button>`;

/** Copy is a button that copies a text to the clipboard. */
export function Copy({ text, children }) {
  const [done, set] = useState(false);
  const copy = async () => {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else { // without TLS, a browser gives a page no clipboard
      const area = document.createElement('textarea');
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand('copy');
      area.remove();
    }
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return html`<${Button} kind="small" onClick=${copy}>${done ? 'copied' : children || 'copy'}</${Button}>`;
}

/** Fact is one line of a list of facts. */
export const Fact = ({ name, children }) => html`<div class="fact"><dt>${name}</dt><dd>${children}</dd></div>`;

/** Tabs are links; one is the current page. */
export const Tabs = ({ label, items }) => html`
  <nav class="tabs" aria-label=${label}>${items.map((t) => html`<a href=${t.href} aria-current=${t.here ? 'page' : undefined}>${t.text}${t.n !== undefined && html` <${Num} n=${t.n} />`}</a>`)}</nav>`;

// ---- Tables

const rowHeight = 34;
const rowsMost = 56; // largest number of rows in the document

/** The table that handles keys. The visible table sets it. */
export const keyTable = { current: null };

/**
 * useStill keeps rows in their places while frozen: a pointer or the focus is in the table, or
 * rows are selected. Their figures are still updated. Removed rows stay, and gone has their keys.
 * New rows after the last row are shown; new rows before it are only counted, in more. A list
 * with another name fresh starts with its own rows.
 */
function useStill(rows, keyOf, frozen, fresh) {
  const kept = useRef({ of: fresh, rows: new Map() });
  return useMemo(() => {
    const had = kept.current.rows;
    const keep = (map) => { kept.current = { of: fresh, rows: map }; };
    if (!frozen || kept.current.of !== fresh || !had.size) {
      keep(new Map(rows.map((r) => [keyOf(r), r])));
      return { rows, more: 0, gone: new Set() };
    }
    const shown = new Map(had);
    const gone = new Set(had.keys());
    let end = -1; // index of the last shown row
    rows.forEach((r, i) => {
      const k = keyOf(r);
      if (gone.delete(k)) { shown.set(k, r); end = i; }
    });
    let more = 0;
    rows.forEach((r, i) => {
      if (had.has(keyOf(r))) return;
      if (i > end) shown.set(keyOf(r), r);
      else more++;
    });
    keep(shown);
    return { rows: [...shown.values()], more, gone };
  }, [rows, frozen, fresh]);
}

/**
 * Table shows rows of equal height. Only visible rows are in the document.
 * columns: {key, title, render(row), right, wide, sort}; narrow screens omit wide columns. total
 * is the number of rows, shown or not. onSeen gets the number of rows down to the last one in
 * the document. sort is the key by which rows are sorted, with - for the largest first; onSort
 * gets a new key. open(row) returns the link of a row. more loads more rows at the end. fresh is
 * the name of the list: a new name resets the table.
 */
export function Table({ label, columns, rows, keyOf, sort, onSort, open, selected, onSelect, empty, more, total, onSeen, live = true, fresh }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [inside, setInside] = useState(false);
  const [at, drawAt] = useState(-1); // the current row for keys
  const row = useRef(-1); // the same before it is drawn, since keys may come faster
  const setAt = (n) => { row.current = n; drawAt(n); };
  const still = useStill(rows, keyOf, live && (inside || (selected && selected.size > 0)), fresh);
  rows = still.rows;

  useLayoutEffect(() => {
    const el = box.current;
    const measure = () => setView({ top: el.scrollTop, height: el.clientHeight });
    const watch = new ResizeObserver(measure);
    watch.observe(el);
    el.addEventListener('scroll', measure, { passive: true });
    return () => { watch.disconnect(); el.removeEventListener('scroll', measure); };
  }, []);
  // In the same step as the rows, since keys may come at once.
  useLayoutEffect(() => { if (box.current) box.current.scrollTop = 0; setAt(-1); }, [fresh]);

  const first = Math.max(0, Math.floor(view.top / rowHeight) - 6);
  const last = Math.min(rows.length, first + Math.min(rowsMost, Math.ceil(view.height / rowHeight) + 12));
  useEffect(() => { if (onSeen) onSeen(last); }, [last]);
  const wants = Boolean(more) && last >= rows.length - 3;
  useEffect(() => { if (wants) more(); }, [wants, rows, fresh]);

  const choose = (row) => {
    const k = keyOf(row);
    const next = new Set(selected);
    if (!next.delete(k)) next.add(k);
    onSelect(next);
  };
  useLayoutEffect(() => {
    const keys = {
      move(by) {
        const to = Math.max(0, Math.min(rows.length - 1, row.current + by));
        setAt(to);
        const el = box.current;
        if (to * rowHeight < el.scrollTop) el.scrollTop = to * rowHeight;
        else if ((to + 2) * rowHeight > el.scrollTop + el.clientHeight) el.scrollTop = (to + 2) * rowHeight - el.clientHeight;
      },
      open() { if (rows[row.current] && open) location.hash = open(rows[row.current]); },
      select() { if (rows[row.current] && onSelect) choose(rows[row.current]); },
    };
    keyTable.current = keys;
    return () => { if (keyTable.current === keys) keyTable.current = null; };
  });

  const heads = columns.map((c) => {
    const by = c.sort && sort && (sort === c.sort ? 'ascending' : sort === '-' + c.sort ? 'descending' : undefined);
    const next = by === 'descending' || (c.sort === 'name' && by !== 'ascending') ? c.sort : c.sort === 'name' ? c.sort : '-' + c.sort;
    return html`<th scope="col" class=${cls(c)} data-column=${c.key} aria-sort=${by}>${c.sort && onSort
      ? html`<button type="button" class="head" onClick=${() => onSort(next)}>${c.title}</button>` : c.title}</th>`;
  });
  const all = selected && rows.length > 0 && rows.every((r) => selected.has(keyOf(r)));
  return html`
    <div class="table" ref=${box} tabindex="0" role="region" aria-label=${label}
      onPointerEnter=${() => setInside(true)} onPointerLeave=${() => setInside(false)}
      onFocusIn=${(e) => e.target !== box.current && setInside(true)} onFocusOut=${(e) => box.current && !box.current.contains(e.relatedTarget) && setInside(false)}>
      <table aria-rowcount=${Math.max(total || 0, rows.length) + 1}>
        <thead><tr aria-rowindex="1">
          ${onSelect && html`<th scope="col" class="pick"><input type="checkbox" aria-label="select all that are shown" checked=${all}
            onChange=${() => onSelect(new Set(all ? [] : rows.map(keyOf)))} /></th>`}
          ${heads}
        </tr></thead>
        <tbody>
          ${first > 0 && html`<tr aria-hidden="true"><td class="space" style=${{ height: first * rowHeight + 'px' }} colspan=${columns.length + 1}></td></tr>`}
          ${rows.slice(first, last).map((row, i) => {
            const k = keyOf(row);
            return html`<tr key=${k} aria-rowindex=${first + i + 2} class=${(first + i === at ? 'at ' : '') + (selected && selected.has(k) ? 'selected ' : '') + (still.gone.has(k) ? 'gone' : '')}>
              ${onSelect && html`<td class="pick"><input type="checkbox" aria-label=${'select ' + k} checked=${selected.has(k)} onChange=${() => choose(row)} /></td>`}
              ${columns.map((c, n) => html`<td class=${cls(c)} data-column=${c.key}>${n === 0 && open ? html`<a href=${open(row)}>${c.render(row)}</a>` : c.render(row)}</td>`)}
            </tr>`;
          })}
          ${last < rows.length && html`<tr aria-hidden="true"><td class="space" style=${{ height: (rows.length - last) * rowHeight + 'px' }} colspan=${columns.length + 1}></td></tr>`}
        </tbody>
      </table>
      ${rows.length === 0 && empty}
      ${still.more > 0 && html`<div class="newer">${group(still.more)} more, shown when the pointer leaves the table</div>`}
    </div>`;
}

const cls = (c) => [c.right && 'right', c.wide && 'wide'].filter(Boolean).join(' ') || undefined;

/** useSelection returns a set of selected keys. Another page or filter clears it. */
export function useSelection() {
  const [selected, set] = useState(new Set());
  const where = route.use();
  useEffect(() => { selecting.set(selected.size); return () => selecting.set(0); }, [selected]);
  useEffect(() => { set(new Set()); }, [where.page, where.args.join('/'), where.params.state, where.params.tube, where.params.contains, where.params.older]);
  return [selected, set];
}

// ---- Dialogs and notices

/** Dialogs draws the open dialogs. After a dialog, the focus returns to its old place. */
export function Dialogs() {
  return dialogs.use().map((d) => html`<${Modal} key=${d} d=${d} />`);
}

function Modal({ d }) {
  const el = useRef(null);
  useLayoutEffect(() => { // before other events, so that the next key goes to the dialog
    const dialog = el.current;
    const back = document.activeElement;
    dialog.showModal();
    const first = dialog.querySelector('[data-first]');
    if (first) first.focus();
    return () => {
      dialog.close(); // an open dialog keeps the focus
      if (back && back.isConnected) back.focus();
    };
  }, []);
  return html`<dialog ref=${el} onCancel=${(e) => { e.preventDefault(); d.close(undefined); }} aria-labelledby="dialog-title">${d.view(d.close)}</dialog>`;
}

/**
 * confirm asks the user before an action. typed is a text that the user must type. It resolves
 * to true if the user agrees.
 */
export function confirm({ title, text, verb, typed, danger = true }) {
  return openDialog((close) => html`<${Confirm} title=${title} text=${text} verb=${verb} typed=${typed} danger=${danger} close=${close} />`);
}

function Confirm({ title, text, verb, typed, danger, close }) {
  const [word, set] = useState('');
  const ready = !typed || word === typed;
  return html`
    <form onSubmit=${(e) => { e.preventDefault(); if (ready) close(true); }}>
      <h2 id="dialog-title">${title}</h2>
      <p>${text}</p>
      ${typed && html`<label>Type <b class="name">${typed}</b> to continue<input data-first value=${word} onInput=${(e) => set(e.target.value)} autocomplete="off" spellcheck=${false} /></label>`}
      <div class="buttons">
        <button type="submit" class=${danger ? 'danger' : 'main'} disabled=${!ready}>${verb}</button>
        <${Button} onClick=${() => close(false)}>Cancel</${Button}>
      </div>
    </form>`;
}

/** Notices shows the results of actions; screen readers read them. */
export function Notices() {
  const list = notices.use();
  return html`<div class="notices" role="status" aria-live="polite">${list.map((n) => html`
    <div key=${n.key} class=${n.bad ? 'notice bad' : 'notice'}><span>${n.href ? html`<a href=${n.href}>${n.text}</a>` : n.text}</span>
      <button type="button" class="close" aria-label="dismiss" onClick=${() => dismiss(n.key)}>×</button></div>`)}</div>`;
}

// Graphs of the server's history. Only this file uses uPlot.
let plot; // uPlot, once it is loaded
const loading = () => plot || (plot = import('./vendor/uplot.mjs').then((m) => m.default));

/** The spans of a graph: the length, and the interval of requests in milliseconds. */
export const spans = { __proto__: null, '1h': { text: '1 h', seconds: 3600, every: 5000 }, '24h': { text: '24 h', seconds: 86400, every: 60000 } };

/** Spans shows the buttons that choose a span. */
export const Spans = ({ span }) => html`<div class="choice" role="group" aria-label="span">${Object.entries(spans).map(([k, s]) => html`
  <button type="button" aria-pressed=${k === span} onClick=${() => setParams({ span: k === '1h' ? '' : k })}>${s.text}</button>`)}</div>`;

// remembered reports whether a tube has a history.
async function remembered(name, signal) {
  const v = await get('history', { series: 'tubes', from: Math.floor(Date.now() / 1000) - 60 }, { signal });
  return v.tubes.includes(name);
}

/**
 * useHistory returns the history of some series: {times, series: {name: values}}. It is of the
 * server, or of a tube with its percent-encoded and its shown name. undefined: the tube has no
 * history.
 */
export function useHistory(series, span, tube, name) {
  const s = spans[span] || spans['1h'];
  return usePolled(async (signal) => {
    if (tube && !name) return undefined;
    if (tube && may('read') && !(await remembered(name, signal))) return undefined;
    const from = Math.floor(Date.now() / 1000) - s.seconds;
    const v = await get('history' + (tube ? '?tube=' + tubeParam(tube) : ''), { series: series.join(','), from }, { signal });
    const first = Date.parse(v.from) / 1000;
    const n = Math.max(...Object.values(v.series).map((list) => list.length));
    return { times: Array.from({ length: n }, (_, i) => first + i * v.step_seconds), series: v.series };
  }, s.every, [series.join(), span, tube, name]);
}

/**
 * Graph draws lines over time. lines: {name, text, tone}; write formats a value. Graph also
 * describes the picture in words, and can show a table.
 */
export function Graph({ title, data, lines, write, height = 150 }) {
  const box = useRef(null);
  const chart = useRef(null);
  const [table, show] = useState(false);
  const [at, look] = useState(null); // where the pointer is
  const value = data.value;
  const columns = value && [value.times, ...lines.map((l) => value.series[l.name] || [])];

  useEffect(() => {
    if (!columns || table) return;
    let gone = false;
    loading().then((uPlot) => {
      if (gone || !box.current) return;
      if (chart.current) { chart.current.setData(columns); return; }
      chart.current = new uPlot(options(lines, write, box.current.clientWidth, height, look), columns, box.current);
    });
    return () => { gone = true; };
  }, [value, table]);
  useEffect(() => {
    if (table) return;
    const watch = new ResizeObserver(() => { if (chart.current && box.current) chart.current.setSize({ width: box.current.clientWidth, height }); });
    watch.observe(box.current);
    const redraw = () => { if (chart.current) chart.current.redraw(false); };
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', redraw);
    addEventListener('polystalk-theme', redraw);
    return () => {
      watch.disconnect();
      dark.removeEventListener('change', redraw);
      removeEventListener('polystalk-theme', redraw);
      if (chart.current) chart.current.destroy();
      chart.current = null;
    };
  }, [table]);

  return html`
    <figure class="graph">
      <figcaption><span>${title}</span>
        ${lines.map((l) => html`<span class=${'key ' + l.tone}>${l.text} <b class="num">${at === null ? last(value, l, write) : valueAt(value, l, at, write)}</b></span>`)}
        ${at !== null && value && html`<span class="dim num">${clock(value.times[at] * 1000)}</span>`}
        <button type="button" class="quiet small" aria-pressed=${table} onClick=${() => show(!table)}>${table ? 'graph' : 'table'}</button></figcaption>
      <p class="hidden">${summary(title, value, lines, write)}</p>
      <${Trouble} problem=${data.problem} />
      ${table ? html`<${Values} value=${value} lines=${lines} write=${write} height=${height} />` : html`<div class="plot" ref=${box} aria-hidden="true" style=${{ height: height + 'px' }}></div>`}
    </figure>`;
}

const known = (list) => (list || []).filter((v) => v !== null);

function last(value, line, write) {
  const list = known(value && value.series[line.name]);
  return list.length ? write(list[list.length - 1]) : '–';
}

function valueAt(value, line, at, write) {
  const v = value && (value.series[line.name] || [])[at];
  return v === null || v === undefined ? '–' : write(v);
}

function summary(title, value, lines, write) {
  if (!value) return title;
  return title + ': ' + lines.map((l) => {
    const list = known(value.series[l.name]);
    return list.length ? `${l.text} ${write(list[list.length - 1])} now, at least ${write(Math.min(...list))}, at most ${write(Math.max(...list))}` : `${l.text} not known`;
  }).join('; ');
}

function Values({ value, lines, write, height }) {
  if (!value) return null;
  const every = Math.max(1, Math.ceil(value.times.length / 60));
  const rows = value.times.map((t, i) => i).filter((i) => i % every === every - 1).reverse();
  return html`<div class="values" tabindex="0" role="region" aria-label="values" style=${{ height: height + 'px' }}><table>
    <thead><tr><th scope="col">at</th>${lines.map((l) => html`<th scope="col" class="right">${l.text}</th>`)}</tr></thead>
    <tbody>${rows.map((i) => html`<tr><td class="num">${clock(value.times[i] * 1000)}</td>${lines.map((l) => html`<td class="num right">${(value.series[l.name] || [])[i] === null ? '–' : write(value.series[l.name][i])}</td>`)}</tr>`)}</tbody></table></div>`;
}

const tone = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const paint = (name) => () => resolved(name);

// A canvas does not support light-dark(), so colours are read from an element of the page.
function resolved(name) {
  const el = document.createElement('i');
  el.style.color = tone(name);
  document.body.append(el);
  const c = getComputedStyle(el).color;
  el.remove();
  return c;
}

function options(lines, write, width, height, look) {
  return {
    hooks: { setCursor: [(u) => look(u.cursor.idx ?? null)] },
    width, height,
    legend: { show: false },
    cursor: { y: false, points: { size: 5 }, drag: { x: false, y: false } },
    padding: [8, 20, 0, 0],
    scales: { y: { range: (u, min, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { stroke: paint('muted'), grid: { show: false }, ticks: { stroke: paint('line'), size: 4 }, font: '11px system-ui', size: 24, space: 70, values: hours },
      { stroke: paint('muted'), grid: { stroke: paint('line'), width: 1 }, ticks: { show: false }, font: '11px system-ui', size: 54, space: 34, values: (u, list) => list.map(write) },
    ],
    series: [{}, ...lines.map((l) => ({ stroke: paint(l.tone), width: 1.5, dash: l.dash, points: { show: false }, spanGaps: false }))],
  };
}

const hours = (u, list) => list.map((t) => { const d = new Date(t * 1000); return String(d.getHours()).padStart(2, '0') + ':' + String(d.getMinutes()).padStart(2, '0'); });
