// The servers of the cluster: a part of the server's page.
import { html } from './vendor/preact.mjs';
import { get, may, request, usePolled } from './state.mjs';
import { Age, Button, Bytes, confirm, Fact, Num, Trouble } from './parts.mjs';
import { once } from './act.mjs';

export default function Cluster() {
  const v = usePolled((signal) => get('cluster', {}, { signal }), 2000, []);
  if (!v.value) return html`<h2>Cluster</h2><${Trouble} problem=${v.problem} />`;
  const k = v.value;
  const changes = k.leader && may('admin'); // only a leader can make changes
  return html`
    <h2>Cluster</h2>
    <${Trouble} problem=${v.problem} />
    <dl class="facts">
      <${Fact} name="this server">${k.node}, ${k.role}</${Fact}>
      <${Fact} name="leader">${k.leader ?? html`<span class="warn">no known leader: clients wait</span>`}</${Fact}>
      <${Fact} name="term"><span class="num">${k.term}</span></${Fact}>
      <${Fact} name="committed / applied"><span class="num"><${Num} n=${k.committed_index} /> / <${Num} n=${k.applied_index} /></span></${Fact}>
      <${Fact} name="not committed yet"><span class="num"><${Num} n=${k.outstanding.entries} />, <${Bytes} n=${k.outstanding.bytes} /></span></${Fact}>
      ${k.journal && html`<${Fact} name="this server's journal"><span class="num"><${Bytes} n=${k.journal.bytes} /></span>, <span class="num"><${Bytes} n=${k.journal.room_bytes} /></span> free${k.journal.pressure === 'full' ? html` <span class="warn">no space for changes</span>` : ''}</${Fact}>`}
      <${Fact} name="forwarded"><span class="num"><${Num} n=${k.totals.forwarded} /></span></${Fact}>
    </dl>
    <table class="plain servers"><thead><tr><th scope="col">Server</th><th scope="col">Role</th><th scope="col">Address</th><th scope="col" class="wide">Lag, entries</th><th scope="col" class="wide">Lag</th><th scope="col" class="wide">Last contact</th><th scope="col" class="wide">Free space</th><th scope="col"></th></tr></thead>
      <tbody>${k.members.map((m) => html`<tr>
        <th scope="row">${m.name}${m.leads ? ' (leads)' : ''}</th>
        <td>${{ voter: 'voter', joining: 'joining', standby: 'standby' }[m.kind]}${m.connected ? '' : html`, <span class="warn">not connected</span>`}${m.disk_full && html`, <span class="warn">disk full</span>`}${m.fetching && html`<div class="dim">fetches the journal: <${Bytes} n=${m.fetching.sent_bytes} /> of about <${Bytes} n=${m.fetching.all_bytes} /></div>`}</td>
        <td class="break">${m.address}${m.trouble ? html`<div class="dim">${m.trouble}</div>` : ''}${m.certificate_not_after ? html`<div class="dim">certificate until ${m.certificate_not_after.slice(0, 10)}</div>` : ''}</td>
        <td class="num wide">${m.lag_entries === null ? '' : html`<${Num} n=${m.lag_entries} />`}</td>
        <td class="num wide">${m.lag_seconds === null ? '' : html`<${Age} s=${m.lag_seconds} />`}</td>
        <td class="num wide">${m.heard_seconds === null ? '' : html`<${Age} s=${m.heard_seconds} />`}</td>
        <td class="num wide">${m.room_bytes === null ? '' : html`<${Bytes} n=${m.room_bytes} />`}</td>
        <td>${changes && !m.leads && html`<div class="buttons">
          ${m.kind === 'voter' && html`<${Button} onClick=${() => lead(m.name)}>Make leader …</${Button}>`}
          ${m.kind === 'standby' && html`<${Button} onClick=${() => once(`${m.name} is a voter`, () => request('POST', `cluster/members/${encodeURIComponent(m.name)}/promote`))}>Promote to voter</${Button}>`}
          <${Button} kind="danger" onClick=${() => remove(m.name)}>Remove …</${Button}></div>`}</td></tr>`)}</tbody></table>`;
}

async function lead(name) {
  if (await confirm({ title: `Make ${name} the leader?`, text: 'Client connections are closed, and clients can connect again at once. Reserved jobs become ready. The current leader restarts as a follower.', verb: 'Hand over', danger: false })) {
    once(`${name} leads`, () => request('POST', 'cluster/transfer', { json: { node: name } }));
  }
}

async function remove(name) {
  if (await confirm({ title: `Remove ${name}?`, text: 'The server leaves the cluster, and its copy of the jobs becomes useless. A server with an empty directory can replace it.', verb: 'Remove', typed: name })) {
    once(`${name} was removed`, () => request('DELETE', `cluster/members/${encodeURIComponent(name)}`));
  }
}
