// Requests to the server's API, and their answers. All paths are relative to the page, so that
// the console works behind any path prefix.

/** A Problem is an error answer: a problem document of RFC 9457. */
export class Problem extends Error {
  constructor(status, about) {
    super(about.detail || about.title);
    this.status = status;
    this.kind = (about.type || '').replace(/^.*\//, '');
    this.title = about.title;
    this.detail = about.detail || '';
    this.remedy = about.remedy || '';
    this.field = about.field || '';
    this.requestId = about.request_id || '';
  }
}

/**
 * query returns the part of a URL after path, which may already have parameters. Parameters
 * that are undefined, null or '' are omitted.
 */
export function query(params, path = '') {
  const q = new URLSearchParams();
  for (const [name, v] of Object.entries(params || {})) {
    if (v !== undefined && v !== null && v !== '') q.set(name, v);
  }
  const text = q.toString();
  return text ? (path.includes('?') ? '&' : '?') + text : '';
}

let onRefused = () => {};

/** whenRefused calls f when the server no longer accepts the session or the token. */
export function whenRefused(f) { onRefused = f; }

/**
 * request sends a request to the API. json is a value to send as JSON, and body a Blob or
 * string. It resolves to the answer's JSON, undefined if there is none, and throws a Problem.
 */
export async function request(method, path, { params, json, body, headers, signal, whole } = {}) {
  const init = { method, signal, headers: { Accept: 'application/json', ...headers }, credentials: 'same-origin' };
  if (json !== undefined) {
    init.headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(json);
  } else if (body !== undefined) {
    init.headers['Content-Type'] = 'application/octet-stream';
    init.body = body;
  }
  const odd = /^tubes\/((?:\.|%2e){1,2}|%2f)(\/.*)?$/i.exec(path); // a browser resolves dots, and the server's router a slash
  if (odd) path = `tubes/-${odd[2] || ''}?tube=${odd[1]}`;
  let answer;
  try {
    answer = await fetch('api/v1/' + path + query(params, path), init);
  } catch (err) {
    if (err.name === 'AbortError') throw err;
    throw new Problem(0, { title: 'The server does not answer', remedy: 'check that it runs and can be reached from this machine' });
  }
  if (!answer.ok) {
    const about = await answer.json().catch(() => ({ title: 'The answer cannot be read', detail: `it has the status ${answer.status}`, remedy: 'check for a proxy between this page and the server' }));
    if (answer.status === 401) onRefused();
    throw new Problem(answer.status, about);
  }
  const text = await answer.text();
  const value = text ? JSON.parse(text) : undefined;
  return whole ? { value, etag: answer.headers.get('ETag'), status: answer.status, location: answer.headers.get('Location'), by: answer.headers.get('Polystalk-Server') } : value;
}

export const get = (path, params, more) => request('GET', path, { params, ...more });

/** idempotencyKey makes a key, so that a retry after a lost answer is not executed twice. */
export function idempotencyKey() { return crypto.randomUUID ? crypto.randomUUID() : Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join(''); }

/** tubeParam is a tube's percent-encoded name as the value of a parameter. */
export const tubeParam = (path) => path.replace(/[+&=;]/g, encodeURIComponent);
