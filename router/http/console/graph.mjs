// Graphs of the server's history. Only this file uses uPlot.
import { html, useEffect, useRef, useState } from './vendor/preact.mjs';
import { get, tubeParam } from './api.mjs';
import { setParams, usePolled } from './state.mjs';
import { clock } from './format.mjs';
import { Trouble } from './parts.mjs';

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
    if (tube && !(await remembered(name, signal))) return undefined;
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
