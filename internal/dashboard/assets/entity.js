// One entity: its limits by level, buckets, usage, children and audit trail.

import { T } from './texts.js';
import { get } from './api.js';
import { bdi, h, link, table } from './dom.js';
import { bucketTable } from './bucket.js';
import { dateTime, limitText } from './format.js';
import { watch } from './live.js';
import { guard } from './problem.js';
import { canChange } from './state.js';
import { usagePanel } from './usage.js';

// show shows the view.
export async function show({ main, params, signal, heading, title }) {
  const id = params.get('id') ?? '';
  title(T.entityTitle(id));
  const box = h('div');
  const head = heading(bdi(id));
  main.append(h('p', { class: 'crumb' }, T.entity), head, box, h('p', { class: 'loading' }, T.loading));
  const load = async () => {
    const answer = await guard(box, () => get('api/entity', { id }, signal), load);
    main.querySelector('.loading')?.remove();
    if (answer) fill(main, head, id, answer, signal);
  };
  watch([]);
  await load();
}

function fill(main, head, id, answer, signal) {
  const { entity } = answer;
  if (entity?.name) head.replaceChildren(bdi(entity.name));
  const watching = new Set();
  const rows = answer.rows ?? [];
  const resources = [...new Set([...(answer.resources ?? []), ...rows.map((r) => r.resource)])].sort();
  main.append(
    facts(id, entity, rows, signal),
    actions(id, resources),
    section(T.buckets, rows.length ? bucketTable(T.buckets, rows, { signal, watching }).element : h('p', { class: 'empty' }, T.noBucketsOfEntity)),
    section(T.limitsByLevel, levels(answer)),
    section(T.usage, resources.length ? usagePanel(id, resources, signal) : h('p', { class: 'empty' }, T.noUsage)),
    children(id, signal, watching),
    audit(id, signal));
}

function section(title, ...content) {
  return h('section', { class: 'card' }, h('h2', null, title), ...content);
}

function facts(id, entity, rows) {
  const list = h('dl', { class: 'facts-list' });
  const add = (term, ...value) => list.append(h('div', null, h('dt', null, term), h('dd', null, ...value)));
  add(T.id, bdi(id, 'id'));
  if (!entity) {
    add(T.record, T.noRecord);
    return list;
  }
  const parent = entity.parent ?? rows[0]?.parent;
  add(T.parent, parent ? link('entity', { id: parent }, null, bdi(parent)) : T.none);
  if (parent) add(T.cascade, entity.cascade ? T.cascadeYes : T.cascadeNo);
  add(T.created, dateTime(entity.created_at));
  for (const [key, value] of Object.entries(entity.metadata ?? {})) add(bdi(key), bdi(value));
  return list;
}

function actions(id, resources) {
  const resource = resources[0];
  return h('p', { class: 'actions' },
    link('explain', { entity: id, resource }, { class: 'button' }, T.explainThis),
    link('what-if', { entity: id, resource }, { class: 'button' }, T.whatIfThis),
    canChange() && link('changes', { action: 'set_limits', entity: id, resource }, { class: 'button' }, T.changeThis));
}

function levels(answer) {
  const used = (level) => (answer.in_force ?? [])
    .filter((f) => f.level === level.level && (!level.resource || f.resource === level.resource) && (!level.entity || !f.entity || f.entity === level.entity))
    .map((f) => f.resource);
  const rows = (answer.levels ?? []).map((level) => {
    const resources = level.limits?.length ? used(level) : [];
    return [
      T.sources[level.level] ?? level.level,
      level.resource ? bdi(level.resource) : T.allResources,
      level.limits?.length ? h('ul', { class: 'plain' }, level.limits.map((l) => h('li', null, bdi(limitText(l))))) : h('span', { class: 'muted' }, T.noLimits),
      resources.length ? h('span', { class: 'force' }, h('span', { 'aria-hidden': 'true' }, '✓ '), T.inForceFor, ' ', resources.map((r, i) => [i ? ', ' : '', bdi(r)])) : h('span', { class: 'muted' }, '–'),
    ];
  });
  if (!rows.length) return h('p', { class: 'empty' }, T.noLevels);
  return table(T.limitsByLevel, [T.level, T.resource, T.limits, T.inForce], rows);
}

function children(id, signal, watching) {
  const box = h('div');
  const list = h('ul', { class: 'children' });
  const more = h('button', { type: 'button', class: 'more', hidden: true, onclick: () => load() }, T.showMore);
  const element = section(T.childrenTitle, box, list);
  element.hidden = true;
  let after = '';
  let rows = null;
  const load = async () => {
    const page = await guard(box, () => get('api/children', { id, after, limit: 50 }, signal), load);
    if (!page) return;
    after = page.next;
    more.hidden = !after;
    const bare = new Set((page.rows ?? []).map((r) => r.entity));
    list.append(...(page.children ?? []).filter((c) => !bare.has(c.entity)).map((c) => h('li', null, link('entity', { id: c.entity }, null, bdi(c.name || c.entity)), ' ', h('span', { class: 'muted' }, T.noBucketYet))));
    if (rows) rows.add(page.rows ?? []);
    else if (page.rows?.length) {
      rows = bucketTable(T.childrenTitle, page.rows, { entity: true, signal, watching });
      list.before(rows.element);
    }
    element.append(more);
    list.hidden = !list.children.length;
    element.hidden = !rows && list.hidden;
  };
  load();
  return element;
}

function audit(id, signal) {
  const box = h('div');
  const body = h('div');
  const more = h('button', { type: 'button', class: 'more', hidden: true, onclick: () => load() }, T.showMore);
  const events = [];
  let after = '';
  const load = async () => {
    const page = await guard(box, () => get('api/audit', { entity: id, after, limit: 20 }, signal), load);
    if (!page) return;
    after = page.next;
    more.hidden = !after;
    events.push(...(page.events ?? []));
    body.replaceChildren(events.length ? table(T.audit, [T.time, T.action, T.principal, T.resource, T.details], events.map(auditRow)) : h('p', { class: 'empty' }, T.noAudit));
  };
  load();
  return section(T.audit, box, body, more);
}

function auditRow(event) {
  const details = event.details && Object.keys(event.details).length ? JSON.stringify(event.details) : '';
  return [
    h('time', { datetime: event.timestamp, class: 'nowrap' }, dateTime(event.timestamp)),
    T.actions[event.action] ?? event.action,
    event.principal ? bdi(event.principal) : '–',
    event.resource && event.resource !== '_default_' ? bdi(event.resource) : '–',
    bdi(details, 'details'),
  ];
}
