// One resource over all entities, or the list of resources.

import { T } from './texts.js';
import { get } from './api.js';
import { bdi, every, h, link } from './dom.js';
import { badge, bucketTable } from './bucket.js';
import { compact, exact, limitText, percent } from './format.js';
import { watch } from './live.js';
import { guard } from './problem.js';
import { canChange } from './state.js';

// show shows the view.
export async function show(context) {
  const name = context.params.get('name');
  watch([]);
  if (name == null) await list(context);
  else await one(context, name);
}

async function list({ main, signal, heading }) {
  const box = h('div');
  main.append(heading(T.resources), box);
  const load = async () => {
    const answer = await guard(box, () => get('api/resources', null, signal), load);
    if (!answer) return;
    const names = answer.resources ?? [];
    main.append(names.length
      ? h('ul', { class: 'tiles' }, names.map((n) => h('li', null, link('resource', { name: n }, null, bdi(n)))))
      : h('p', { class: 'empty' }, T.noResources));
  };
  await load();
}

async function one({ main, signal, heading, title }, name) {
  title(T.resourceTitle(name));
  const box = h('div');
  const totals = h('div', { class: 'totals' });
  const note = h('p', { class: 'summary', role: 'status' }, T.loading);
  const top = h('div');
  const defaults = h('div');
  const parts = [
    h('section', { class: 'card' }, h('h2', null, T.overAll), note, totals),
    h('section', { class: 'card' }, h('h2', null, T.topTen), top),
    h('section', { class: 'card' }, h('h2', null, T.defaults), defaults),
  ];
  main.append(h('p', { class: 'crumb' }, link('resource', null, null, T.resource)), heading(bdi(name)), box, ...parts);
  const watching = new Set();
  let rows = null;
  let shown = '';
  let done = false;
  let at = 0;
  const load = async () => {
    at = Date.now();
    const answer = await guard(box, () => get('api/resource', { name }, signal), load);
    if (!answer) {
      parts.forEach((p) => { p.hidden = shown === ''; });
      return;
    }
    parts.forEach((p) => { p.hidden = false; });
    done = answer.done;
    note.textContent = T.resourceSummary(exact(answer.entities), exact(answer.scanned), answer.done);
    totals.replaceChildren(...(answer.limits ?? []).map(total));
    const order = JSON.stringify((answer.top ?? []).map((r) => r.entity));
    if (order !== shown) {
      shown = order;
      rows = bucketTable(T.topTen, answer.top ?? [], { entity: true, signal, watching });
      top.replaceChildren(answer.top?.length ? rows.element : h('p', { class: 'empty' }, T.noBuckets));
    } else rows.add(answer.top ?? []);
    defaults.replaceChildren(...defaultLimits(name, answer.defaults));
  };
  await load();
  every(1000, signal, () => Date.now() - at >= (done ? 5000 : 1000) && load());
}

function total(limit) {
  const used = Math.min(100, Math.max(0, limit.used_percent));
  const fill = h('span', { class: 'bar-fill' });
  fill.style.transform = `scaleX(${used / 100})`;
  const shade = used < 50 ? 'green' : used < 80 ? 'yellow' : 'red';
  const words = T.availableExact(exact(limit.available), exact(limit.capacity), '');
  return h('div', { class: 'total', 'data-level': shade, title: words },
    h('span', { class: 'limit-name' }, bdi(limit.name)),
    h('strong', null, compact(limit.available), h('span', { class: 'muted' }, ` / ${compact(limit.capacity)}`)),
    h('span', { class: 'bar', role: 'meter', 'aria-label': limit.name, 'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-valuenow': Math.floor(used), 'aria-valuetext': `${percent(used)} ${T.used}, ${words}` }, fill),
    badge({ ...limit, debt: 0 }));
}

function defaultLimits(name, limits) {
  return [
    limits?.length ? h('ul', { class: 'chips' }, limits.map((l) => h('li', null, bdi(limitText(l))))) : h('p', { class: 'empty' }, T.noDefaults),
    canChange() && h('p', { class: 'actions' }, link('changes', { action: 'set_limits', resource: name }, { class: 'button' }, T.changeDefaults)),
  ].filter(Boolean);
}
