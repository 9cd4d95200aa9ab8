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
