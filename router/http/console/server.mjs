// The server itself: facts, journal, cluster, settings, log level, drain.
import { html, useState } from './vendor/preact.mjs';
import { complain, get, may, notify, openDialog, refresh, request, usePolled } from './state.mjs';
import { Age, Button, Bytes, clock, confirm, Fact, Num, plural, Trouble } from './parts.mjs';
import { once } from './act.mjs';
import Cluster from './cluster.mjs';

export default function Server({ params }) {
  const v = usePolled(async (signal) => {
    const [{ value: server, by }, journal, config, level] = await Promise.all(['server', 'journal', 'config', 'log-level'].map((p) => get(p, {}, { signal, whole: p === 'server' })));
    return { server, by, journal, config, level };
  }, 2000, []);
  const [filter, set] = useState('');
  if (!v.value) return html`<h1>Server</h1><${Trouble} problem=${v.problem} />${v.problem?.kind === 'following' && html`<${Cluster} />`}`;
  const { server: s, by, journal: j, config, level } = v.value;
  const drain = async () => {
    if (await confirm({ title: 'Refuse new jobs?', text: 'Producers get DRAINING. Workers continue with existing jobs. You can end the drain here.', verb: 'Drain', danger: false })) once('The server is draining', () => request('PUT', 'drain'));
  };
  const settings = config.settings.filter((x) => (x.name + ' ' + x.value + ' ' + x.origin).includes(filter));
  return html`
    <div class="line"><h1>Server</h1>
      ${may('admin') && html`<div class="buttons">
        ${s.draining ? html`<${Button} kind="main" onClick=${() => once('New jobs are accepted again', () => request('DELETE', 'drain'))}>End the drain</${Button}>` : html`<${Button} onClick=${drain}>Drain …</${Button}>`}
        <${Button} onClick=${reload}>Reload the configuration</${Button}></div>`}</div>
    <${Trouble} problem=${v.problem} />
    ${by && html`<p>This server is a follower: <b>${by}</b> leads. These facts are the leader's, except the log level. The journal and the settings are this server's.</p>`}
    <dl class="facts">
      <${Fact} name="host">${s.hostname}, process ${s.pid}</${Fact}><${Fact} name="version">${s.version}, ${s.go_version}</${Fact}>
      <${Fact} name="started"><span class="num" title=${clock(s.started)}><${Age} s=${s.uptime_seconds} /> ago</span></${Fact}>
      <${Fact} name="state">${s.state}${s.draining ? ', draining' : ''}</${Fact}>
      <${Fact} name="loops / shards"><span class="num">${s.loops} / ${s.shards}</span></${Fact}>
      <${Fact} name="largest job"><${Bytes} n=${s.max_job_size_bytes} /></${Fact}>
      <${Fact} name="connections"><span class="num"><${Num} n=${s.connections.open} /> of <${Num} n=${s.connections.limit} /></span></${Fact}>
      <${Fact} name="producers / workers / waiting"><span class="num">${s.connections.producers} / ${s.connections.workers} / ${s.connections.waiting}</span></${Fact}>
      <${Fact} name="log level">${may('admin') ? html`<select aria-label="log level" value=${level.level} onChange=${(e) => once('The level was set', () => request('PUT', 'log-level', { json: { level: e.target.value } }))}>${['debug', 'info', 'warn', 'error'].map((l) => html`<option>${l}</option>`)}</select>` : level.level}</${Fact}>
    </dl>
    <h2>Journal</h2>
    ${!j.enabled ? html`<p>Jobs are only in memory and are lost when the server stops. <code>-b DIR</code> makes them durable.</p>` : html`<dl class="facts">
      <${Fact} name="disk"><span class=${j.pressure === 'open' ? '' : 'warn'}>${{ open: 'ok', wait: 'behind', full: 'full: new jobs are refused' }[j.pressure]}</span></${Fact}>
      <${Fact} name="files"><${Bytes} n=${j.bytes} /> in <${Num} n=${j.segments} /></${Fact}><${Fact} name="live jobs"><${Bytes} n=${j.live_bytes} /></${Fact}>
      <${Fact} name="not written yet"><${Bytes} n=${j.pending_bytes} /></${Fact}><${Fact} name="records"><${Num} n=${j.records_total} /></${Fact}><${Fact} name="commits"><${Num} n=${j.commits_total} /></${Fact}></dl>`}
    ${config.settings.some((x) => x.name === 'cluster-listen' && x.value) && html`<${Cluster} />`}
    <div class="line"><h2>Settings</h2><input type="search" aria-label="filter settings" placeholder="filter" value=${filter} onInput=${(e) => set(e.target.value)} /></div>
    <table class="plain"><thead><tr><th scope="col">Flag</th><th scope="col">Value</th><th scope="col">From</th></tr></thead>
      <tbody>${settings.map((x) => html`<tr class=${x.origin === 'default' ? 'dim' : ''}><th scope="row"><code>${x.name}</code></th><td class="break">${x.value}</td><td>${x.origin}</td></tr>`)}</tbody></table>`;
}

async function reload() {
  try {
    const v = await request('POST', 'reload');
    if (v.closed) notify(`${plural(v.closed, 'connection')} closed: they used a right that the access file does not give any more`);
    if (!v.applied.length && !v.restart.length) notify('The configuration has not changed');
    else {
      openDialog((close) => html`<h2 id="dialog-title">The configuration was reloaded</h2>
        ${v.applied.length > 0 && html`<p>Applied now:</p><ul>${v.applied.map((c) => html`<li><code>${c.name}</code>: ${c.from} → ${c.to}</li>`)}</ul>`}
        ${v.restart.length > 0 && html`<p>After a restart:</p><ul>${v.restart.map((c) => html`<li><code>${c.name}</code>: ${c.from} → ${c.to}</li>`)}</ul>`}
        <div class="buttons"><${Button} kind="main" onClick=${() => close()}>Close</${Button}></div>`);
    }
    refresh();
  } catch (err) { complain(err); }
}
