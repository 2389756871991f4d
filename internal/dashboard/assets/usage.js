// The usage of an entity as charts.

import { T } from './texts.js';
import { get } from './api.js';
import { h } from './dom.js';
import { chart } from './chart.js';
import { now } from './format.js';
import { guard } from './problem.js';

const pad = (n) => String(n).padStart(2, '0');
const day = (d) => `${d.getUTCFullYear()}-${pad(d.getUTCMonth() + 1)}-${pad(d.getUTCDate())}`;
const month = (d) => `${d.getUTCFullYear()}-${pad(d.getUTCMonth() + 1)}`;

const windows = {
  hourly: {
    count: 48,
    start: (d, back) => new Date(Date.UTC(d.getUTCFullYear(), d.getUTCMonth(), d.getUTCDate(), d.getUTCHours() - back)),
    label: (d) => (d.getUTCHours() ? `${pad(d.getUTCHours())}:00` : day(d).slice(5)), long: (d) => `${day(d)} ${pad(d.getUTCHours())}:00 UTC`,
  },
  daily: {
    count: 30,
    start: (d, back) => new Date(Date.UTC(d.getUTCFullYear(), d.getUTCMonth(), d.getUTCDate() - back)),
    label: (d) => day(d).slice(5), long: day,
  },
  monthly: {
    count: 12,
    start: (d, back) => new Date(Date.UTC(d.getUTCFullYear(), d.getUTCMonth() - back, 1)),
    label: month, long: month,
  },
};

// usagePanel shows charts of an entity, by resource and window.
export function usagePanel(entity, resources, signal) {
  const resource = h('select', { 'aria-label': T.resource, onchange: () => load() }, resources.map((r) => h('option', { value: r }, r)));
  const charts = h('div', { class: 'charts' });
  const box = h('div');
  let kind = 'hourly';
  let running = null;
  const choose = (event, next) => {
    kind = next;
    for (const b of segments.children) b.setAttribute('aria-pressed', String(b === event.currentTarget));
    load();
  };
  const segments = h('div', { class: 'segments', role: 'group', 'aria-label': T.window },
    Object.keys(windows).map((w) => h('button', { type: 'button', 'aria-pressed': String(w === kind), onclick: (e) => choose(e, w) }, T.windows[w])));

  async function load() {
    running?.abort();
    running = new AbortController();
    signal.addEventListener('abort', () => running.abort());
    const { start, count } = windows[kind];
    const from = start(new Date(now()), count - 1).toISOString();
    const answer = await guard(box, () => get('api/usage', { entity, resource: resource.value, window: kind, from }, running.signal), load);
    if (answer) charts.replaceChildren(...draw(answer.snapshots ?? [], kind, signal));
  }

  if (resources.length) load();
  return h('div', null, h('div', { class: 'tools' }, resources.length ? resource : null, segments), box, charts);
}

function draw(snapshots, kind, signal) {
  const names = [...new Set(snapshots.flatMap((s) => Object.keys(s.counters)))].sort();
  if (!names.length) return [h('p', { class: 'empty' }, T.noUsage)];
  const byStart = new Map(snapshots.map((s) => [Date.parse(s.start), s]));
  const { start, count, label, long } = windows[kind];
  const starts = Array.from({ length: count }, (_, i) => start(new Date(now()), count - 1 - i));
  return names.map((name) => chart(name, starts.map((at) => ({
    label: label(at), long: long(at), value: byStart.get(at.getTime())?.counters[name] ?? 0,
  })), signal));
}
