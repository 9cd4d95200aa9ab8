// A job's body as JSON, PHP's serialize format, text, or octets. It is always shown as text, so
// nothing in it is executed.
import { html, useState } from './vendor/preact.mjs';
import { Copy, group } from './parts.mjs';

const foldAbove = 4096; // octets; of a longer body only the beginning is drawn at first
const tokensMost = 256 << 10; // octets of the largest body that is parsed
const indentMost = 50; // levels; deeper values are not indented further

/**
 * Body shows a body. octets is a Uint8Array with its beginning, of its size in octets, and href
 * the URL of the whole body, if the user may see it.
 */
export function Body({ octets, of, href }) {
  const [open, unfold] = useState(false);
  const large = octets.length > foldAbove;
  const part = large && !open ? octets.subarray(0, foldAbove) : octets; // the drawn part
  const text = decodeText(octets);
  const some = part === octets ? text : text !== undefined && text.slice(0, foldAbove);
  const tokens = text !== undefined && octets.length <= tokensMost && jsonTokens(text);
  const forms = [
    tokens && ['JSON', () => html`<${Json} tokens=${part === octets ? tokens : tokens.slice(0, foldAbove / 8)} />`],
    text !== undefined && octets.length <= tokensMost && php(text) && ['PHP', () => html`<code>${php(text)}</code>`],
    text !== undefined && ['text', () => html`<code>${some}</code>`],
    ['hex', () => html`<code class="hex">${hex(part)}</code>`],
    ['base64', () => html`<code>${base64(part)}</code>`],
  ].filter(Boolean);
  const [form, choose] = useState(forms[0][0]);
  const [, draw] = forms.find(([name]) => name === form) || forms[0];
  return html`
    <div class="line"><div class="choice" role="group" aria-label="show the body as">${forms.map(([name]) => html`<button type="button" aria-pressed=${name === form} onClick=${() => choose(name)}>${name}</button>`)}</div>
      ${text !== undefined && of <= octets.length && html`<${Copy} text=${text} />`} ${href && html`<a href=${href} download>download</a>`}
      ${of > octets.length && html`<span class="dim">the first ${group(octets.length)} of ${group(of)} bytes${href ? ': download it to see more' : ': you may not see more'}</span>`}</div>
    <pre class=${large && !open ? 'body folded' : 'body'} tabindex="0" aria-label="body">${draw()}</pre>
    ${large && html`<button type="button" onClick=${() => unfold(!open)}>${open ? 'Fold' : `Show all ${group(octets.length)} bytes`}</button>`}`;
}

export function fromBase64(text) { return Uint8Array.from(atob(text), (c) => c.charCodeAt(0)); }

export function base64(octets) {
  let s = '';
  for (let i = 0; i < octets.length; i += 8192) s += String.fromCharCode(...octets.subarray(i, i + 8192));
  return btoa(s).replace(/.{76}/g, '$&\n');
}

function decodeText(octets) {
  try { return new TextDecoder('utf-8', { fatal: true }).decode(octets); } catch { return undefined; }
}

function hex(octets) {
  const lines = [];
  for (let i = 0; i < octets.length; i += 16) {
    const part = octets.subarray(i, i + 16);
    const pairs = Array.from(part, (b) => b.toString(16).padStart(2, '0'));
    const signs = Array.from(part, (b) => (b > 31 && b < 127 ? String.fromCharCode(b) : '·')).join('');
    lines.push(`${i.toString(16).padStart(8, '0')}  ${pairs.slice(0, 8).join(' ').padEnd(23)}  ${pairs.slice(8).join(' ').padEnd(23)}  ${signs}`);
  }
  return lines.join('\n');
}

// JSON is shown by its tokens, so that numbers are shown unchanged; a parser would round large
// ones.
function jsonTokens(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try { JSON.parse(text); } catch { return undefined; }
  return [...text.matchAll(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[[\]{},:]/g)].map((m) => m[0]);
}

function Json({ tokens }) {
  const out = [];
  let depth = 0;
  const line = () => out.push('\n' + '  '.repeat(Math.min(depth, indentMost)));
  tokens.forEach((t, i) => {
    const next = tokens[i + 1];
    if (t === '{' || t === '[') {
      out.push(t);
      if (next === '}' || next === ']') return;
      depth++;
      line();
    } else if (t === '}' || t === ']') {
      if (tokens[i - 1] !== '{' && tokens[i - 1] !== '[') { depth--; line(); }
      out.push(t);
    } else if (t === ',') {
      out.push(t);
      line();
    } else if (t === ':') out.push(': ');
    else out.push(html`<span class=${t[0] === '"' ? (next === ':' ? 'j-name' : 'j-text') : 'j-number'}>${t}</span>`);
  });
  return html`<code>${out}</code>`;
}

// php formats the output of PHP's serialize; undefined: the text is something else.
function php(text) {
  const octets = new TextEncoder().encode(text);
  let at = 0;
  const until = (sign) => {
    const start = at;
    while (at < octets.length && octets[at] !== sign.charCodeAt(0)) at++;
    if (at === octets.length) throw new Error('end');
    return new TextDecoder().decode(octets.subarray(start, at++));
  };
  const length = () => { // at most the size of the text, so that parsing always ends
    const n = until(':');
    if (!/^\d+$/.test(n) || Number(n) > octets.length) throw new Error('length');
    return Number(n);
  };
  const string = () => {
    const n = length();
    const s = new TextDecoder().decode(octets.subarray(at + 1, at + 1 + n));
    if (octets[at] !== 34 || octets[at + 1 + n] !== 34) throw new Error('string');
    at += n + 2;
    return s;
  };
  const members = (n, depth) => {
    if (octets[at++] !== 123) throw new Error('brace');
    let s = '';
    for (let i = 0; i < n; i++) s += '\n' + '  '.repeat(depth + 1) + value(depth + 1) + ' => ' + value(depth + 1);
    if (octets[at++] !== 125) throw new Error('brace');
    return s + (n ? '\n' + '  '.repeat(depth) : '');
  };
  const value = (depth) => {
    if (depth > indentMost) throw new Error('depth');
    const kind = String.fromCharCode(octets[at]);
    if (kind === 'N') { if (until(';') !== 'N') throw new Error('null'); return 'null'; }
    at += 2;
    switch (kind) {
      case 'i': case 'd': return until(';');
      case 'b': return until(';') === '1' ? 'true' : 'false';
      case 's': { const s = string(); if (octets[at++] !== 59) throw new Error('end'); return JSON.stringify(s); }
      case 'a': return 'array(' + members(length(), depth) + ')';
      case 'O': { const name = string(); at++; return name.replace(/\0/g, '·') + ' {' + members(length(), depth) + '}'; }
      case 'R': case 'r': return '→ ' + until(';');
      default: throw new Error(kind);
    }
  };
  try {
    if (!/^([aO]:\d+:|[sibd]:|N;)/.test(text)) return undefined;
    const s = value(0);
    return at === octets.length ? s : undefined;
  } catch { return undefined; }
}
